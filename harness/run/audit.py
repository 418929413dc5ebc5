"""The audit of a run's texts (`audit=true`): did the engine draw them from the decoder's Q?

It follows the generation and comes before everything that is measured on the texts.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

from openended.harness import audit, core, storage
from openended.harness.models import BackendSpec, LanguageModel, ModelCache, ModelSpec
from openended.harness.run.read import CPU_ROWS
from openended.harness.run.session import Session
from openended.harness.run.steps import Executor, Input, Inputs, Step, TextRows, digest_model

AUDIT = "audit.json"
FALSE_ALARM_RATE = 0.001
"""Probability that an honest run fails its audit: a grid has many runs, and each alarm costs their reader an hour."""


def declare_audit(
    model: BackendSpec, reference: ModelSpec, rows: TextRows, session: Session, runtime: core.Runtime
) -> Step:
    """Declare the audit of a model's texts by a reference model."""

    def write(folder: Path, inputs: Inputs) -> Mapping[str, Any]:
        entry, chat = (storage.read_entry(inputs[name]) if name in inputs else None for name in ("texts", "chat"))
        texts = audit.EngineTexts.from_entry(cast("storage.Entry", entry), chat, model=model.title, backend=model.name)
        lm = cast("LanguageModel", ModelCache.model(session, reference, runtime))  # here, not on workers
        rows_at_once = CPU_ROWS if lm.device.type == "cpu" else runtime.feature_batch_size
        done = audit.audit_texts(
            texts, lm, batch_size=rows_at_once, alarm_rate=FALSE_ALARM_RATE, progress=runtime.progress
        )
        core.write_json(folder / AUDIT, asdict(done) | {"findings": [finding._asdict() for finding in done.findings]})
        return {"n": done.texts, "tokens": done.tokens, "device": str(lm.device)}

    inputs: dict[str, Input] = {"texts": rows.step, "reference": partial(digest_model, reference)}
    inputs |= {"chat": rows.chat} if rows.chat is not None else {}
    what, spec = f"{model.title} against {reference.title}", {"title": model.title, "size": FALSE_ALARM_RATE}
    num_texts, num_tokens = rows.step.num_texts, rows.step.num_tokens
    return Step("audit", what, "model", spec, inputs, write, num_texts, num_tokens, reference)


def describe_audit(step: Step, executor: Executor) -> core.RunNote:
    """Return a note on an audit: a fault where it failed."""
    try:
        fields = core.read_json(executor.get(step).path / AUDIT)
    except core.UndefinedMetric as err:
        return core.RunNote("remark", (f"not audited: {err}",))
    done = audit.Audit(**fields | {"findings": [audit.Finding(**finding) for finding in fields["findings"]]})
    if done.failures:
        return core.RunNote("fault", (f"{done.describe()}; openended audit RUN lists all checks",))
    return core.RunNote("remark", ("audit: the texts are consistent with draws from the decoder's Q",))
