"""The bundled models judge their own domain alone; elsewhere the user names a judge, or is told what to type."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.signature import OUT_OF_DOMAIN, parse_signature
from openended.harness.models.spec import ModelSpec, list_bundled_models
from openended.harness.run.pipeline import run
from openended.harness.run.scoring_models import compare_with_card, read_card_perplexity
from openended.harness.run.session import Session
from openended.harness.run.settings import build_settings
from openended.harness.storage.record import ResultRow, RunRecord, read_record
from openended.harness.storage.store import Store
from tests.conf.test_compose import config
from tests.harness.run.small import settings
from tests.helpers import write_jsonl

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
NOBODY = ("scorer=auto", "embedder=auto")  # as where no judge is named
OWN = ("task=jsonl", "task.path=x.jsonl")


def judges(*words: str) -> tuple[str | None, str | None]:
    made = build_settings(config(*words))
    return (made.scorer and made.scorer.title, made.embedder and made.embedder.title)


def measured(folder: Path, *words: str) -> RunRecord:
    return read_record(run(settings(folder, *words), Session(Store(folder / "out/store"))).folder)


def rows(record: RunRecord) -> dict[tuple[str, str], ResultRow]:
    return {(row.system, row.metric): row for row in record.results}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), ("docs-m", "docs-m")),
        (("model=gpt2",), ("docs-m", "docs-m")),
        (OWN, (None, None)),
        (("task=webtext",), (None, None)),
        ((*OWN, "scorer=gpt2-large"), ("gpt2-large", None)),
        ((*OWN, "scoring=gpt2-large"), ("gpt2-large", "gpt2-large")),
        ((*OWN, "scoring=gpt2"), ("gpt2", "gpt2")),
        ((*OWN, "scoring=docs-m"), ("docs-m", "docs-m")),
        (("scoring=none",), (None, None)),
        ((*OWN, "scoring=gpt2-large", "scorer=docs-m"), ("docs-m", "gpt2-large")),
        (("experiment=webtext_nucleus",), ("gpt2-large", "gpt2-large")),
        (("experiment=webtext_nucleus", "scoring=gpt2"), ("gpt2", "gpt2")),
        (("experiment=mauve_table3_docs",), ("docs-m", "docs-m")),
        (("experiment=quickstart",), ("docs-m", "docs-m")),
    ],
)
def test_who_judges(words: tuple[str, ...], found: tuple[str | None, str | None]) -> None:
    assert judges(*words) == found


def test_the_default_judge_of_docs_is_the_bundled_one_in_every_option() -> None:
    chosen, named = (build_settings(config(*words)) for words in ((), ("scoring=docs-m",)))
    assert (chosen.scorer, chosen.embedder) == (named.scorer, named.embedder)
    assert chosen.spec() == named.spec()


def test_without_judges_metrics_that_need_them_say_what_to_type(tmp_path: Path) -> None:
    record = measured(tmp_path, *NOBODY, "metric=[frechet,gen_ppl,distinct_n]")
    found = rows(record)
    for metric, role in (("gen_ppl", "scorer"), ("frechet", "embedder")):
        assert found["model", metric].status == "undefined"
        (note,) = found["model", metric].notes
        assert note.startswith(f"no {role}: set {role}=gpt2-large (or scoring=gpt2-large")
    assert (record.axes["scorer"], record.axes["embedder"]) == (None, None)


def test_without_a_scorer_the_tokens_are_those_of_the_model_under_test(tmp_path: Path) -> None:
    """Both bundled models have one tokenizer: what they count is comparable, and the same as with a scorer of it."""
    alone = {model: measured(tmp_path, *NOBODY, "metric=[zipf]", f"model={model}") for model in ("docs-s", "docs-m")}
    found = {model: rows(record)["model", "zipf"] for model, record in alone.items()}
    facts = [parse_signature(row.signature) for row in found.values()]
    assert facts[0] == facts[1]
    assert facts[0]["tokens"].startswith("model@")
    assert "scorer" not in facts[0]
    assert "text statistics count tokens of docs-s, the model under test: no scorer is set" in alone["docs-s"].notes
    judged = measured(tmp_path, "metric=[zipf]", "model=docs-s")
    assert rows(judged)["model", "zipf"].values == found["docs-s"].values
    assert rows(judged)["model", "zipf"].signature != found["docs-s"].signature


def imported(folder: Path) -> str:
    path = folder / "theirs.jsonl"
    lines = [{"id": i, "text": f" one two three four five six seven {i}"} for i in range(8)]
    write_jsonl(path, lines)
    return f"generations={path}"


def test_imported_texts_without_a_scorer_are_cut_and_counted_by_words(tmp_path: Path) -> None:
    words = (*NOBODY, "metric=[length,distinct_n]", imported(tmp_path), "max_new_tokens=5")
    record = measured(tmp_path, *words)
    found = rows(record)
    assert (found["model", "length"].values["length"], found["human", "length"].values["length"]) == (5, 5)
    facts = parse_signature(found["model", "distinct_n"].signature)
    assert (facts["tokens"], facts["length"]) == ("words", "5 words")
    assert "text statistics count whitespace words: no scorer is set" in record.notes
    assert any("cut at 5 whitespace words" in note for note in record.notes)
    assert any("of 8 texts were cut at 5 words" in note for note in record.notes)


def test_a_toy_says_so_in_notes_and_signatures(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    record = measured(tmp_path, "scoring=docs-m", "metric=[frechet,gen_ppl]")
    found = rows(record)
    assert parse_signature(found["model", "gen_ppl"].signature)["scorer"].endswith(f"({OUT_OF_DOMAIN})")
    assert parse_signature(found["model", "frechet"].signature)["embedder"].endswith(f"({OUT_OF_DOMAIN})")
    warning = "docs-m was trained on docstrings only: do not trust its scores here"
    assert {f"scorer {warning}", f"embedder {warning}"} <= set(record.notes)
    # Only what the metrics read is told.
    record = measured(tmp_path, "scoring=docs-m", "metric=[frechet]")
    assert f"scorer {warning}" not in record.notes


def test_docs_at_home_says_nothing(tmp_path: Path) -> None:
    small: Any = build_settings(config("num_examples=4", "max_new_tokens=8", f"outputs_dir={tmp_path / 'out'}"))
    record = read_record(run(small, Session(Store(tmp_path / "out/store"))).folder)
    assert not any("toy" in note or "domain" in note or "no scorer" in note for note in record.notes)
    signatures = "".join(row.signature for row in record.results)
    assert "toy" not in signatures
    assert "|tokens:" not in signatures


def test_a_scorer_is_held_against_its_card() -> None:
    spec = ModelSpec(path="bundled:docs-m")
    own = read_card_perplexity(spec)
    assert own == 59.16
    assert compare_with_card(spec, 2 * own - 1) is None
    told = compare_with_card(spec, 530.4)
    assert told == (
        "scorer docs-m: perplexity 530 on the human side, 59 on its own validation text: these texts are outside its "
        "domain"
    )
    assert compare_with_card(spec, math.nan) is None


def test_a_scorer_without_a_card_is_not_judged(tmp_path: Path) -> None:
    spec = replace(ModelSpec(path="bundled:docs-m"), path=str(tmp_path))
    assert math.isnan(read_card_perplexity(spec))
    assert compare_with_card(spec, 1e9) is None
    (tmp_path / "README.md").write_text("# A model\n\nValidation perplexity was never measured.\n")
    assert math.isnan(read_card_perplexity(spec))


def test_texts_far_from_the_scorers_domain_are_told_aloud_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    path = tmp_path / "odd.jsonl"
    lines = [{"prompt": f"{i}", "human": " Zwölf Boxkämpfer jagen Viktor quer über den großen Deich"} for i in range(8)]
    write_jsonl(path, lines)
    session = Session(Store(tmp_path / "out/store"))
    for decoder in ("greedy", "nucleus"):
        words = (f"task.path={path}", "metric=[gen_ppl]", f"decoder={decoder}")
        record = read_record(run(settings(tmp_path, *words), session).folder)
        assert any("outside its domain" in note for note in record.notes)
    assert sum("outside its domain" in line for line in caplog.messages) == 1
