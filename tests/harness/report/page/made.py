"""A small report with everything that a page can show: two systems, seeds, samples, scores, vectors, hostile texts."""

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from openended.harness.core.types import Generation, Ragged
from openended.harness.storage import RunInput
from openended.harness.storage.rows import Row, write_rows
from tests.harness.report.synthetic import result, seal, store_arrays, write_run
from tests.helpers import write_jsonl

HOSTILE = [
    " <script>globalThis.ran = 1</script><img src=x onerror='globalThis.ran = 2'>",
    " closes </script><!-- and <![CDATA[ opens ]]> {{ 7 * 7 }} &lt;b&gt;",
    " turns \u202eright to left\u2066 and \u0000 nothing \u2028 here \ufeff",
    " emoji 👩‍👩‍👧‍👦 🏳️‍🌈 and é combining é",
    " one line " + "x" * 100_000,
    " the cat sat on the mat and the cat sat on the mat again and again and again and again",
]
WORDS = ["tree", "river", "stone", "cloud", "ember", "harbour", "lantern", "meadow", "needle", "orchard"]
COUNT = 40
TOKENIZER = resources.files("openended.harness") / "assets" / "docs-m" / "tokenizer.json"


def text_of(system: str, seed: int, sample: int, at: int) -> str:
    if system == "greedy" and at < len(HOSTILE):
        return HOSTILE[at]
    words = [WORDS[(at * 7 + k * (seed + 2 + sample) + len(system)) % len(WORDS)] for k in range(6 + at % 5)]
    return f" People say {' '.join(words)} {system} {at}."


def make_report(folder: Path, *, seeds: Sequence[int] = (0, 1), count: int = COUNT, samples: int = 2) -> Path:
    """Write the runs of greedy decoding and of nucleus sampling; returns the folder that holds them."""
    store = folder / "store"
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    human = _source(store, "human", "human", 0, count, 1, tokenizer)
    for decoder, own in (("greedy", [None]), ("nucleus", seeds)):
        for seed in own:
            draws = samples if decoder == "nucleus" else 1
            made = _source(store, "generate", decoder, seed or 0, count, draws, tokenizer)
            gives = {"losses": "continuation", "vectors": "prompt_and_continuation"}
            inputs = [RunInput(one["rows"], role, decoder) for role, one in (("human", human), ("model", made))]
            inputs += [RunInput(one["read"], role, "", gives) for role, one in (("human", human), ("model", made))]
            mauve = {"mauve": 0.5 + len(decoder) / 20 + (seed or 0) / 100}
            rows = [
                _scored("model", "gen_ppl", 20.0 + len(decoder) + (seed or 0), made, store),
                _scored("human", "gen_ppl", 25.0, human, store),
                result("model", "mauve", mauve, family="two_sample", direction="higher",
                       options="|quantizer:kmeans|num_buckets:5"),
            ]  # fmt: skip
            axes = {"scorer.path": "bundled:docs-m", "samples": samples}
            run = write_run(folder, decoder, seed, results=rows, axes=axes, inputs=inputs)
            _explain(run, rows[-1]["signature"])
    return folder / "runs"


def _source(store, stage, system, seed, count, samples, tokenizer):
    key = f"{system}{seed}".encode().hex()[:16].ljust(16, "0")
    name = f"{stage}/{key[:2]}/{key}"
    (store / name).mkdir(parents=True, exist_ok=True)
    rows, nll = [], []
    for at in range(count):
        for sample in range(samples):
            text = text_of(system, seed, sample, at)
            ids = tuple(tokenizer.encode(text, add_special_tokens=False).ids) if len(text) < 10_000 else ()
            stop = "length" if at % 4 == 0 else "eos"
            made = Generation(f"docs/{at:06d}", sample, text, ids, stop, -1.0)
            rows.append(Row(f"Prompt {at} <b>says</b>", (1, 2), made))
            nll.append([(at * 3 + k) % 11 for k in range(len(ids))])
    write_rows(store / name / ("human.arrow" if stage == "human" else "data.arrow"), rows)
    seal(store / name)
    ragged = Ragged.from_rows(nll, np.float64)
    read = f"read/{key[:2]}/{key}"
    vectors = np.random.default_rng(len(system) + seed).normal(size=(len(rows), 8))
    _save(store / read, nll_values=ragged.values, nll_offsets=ragged.offsets, embeddings=vectors)
    return {"rows": name, "read": read, "key": key, "n": len(rows)}


def _save(folder: Path, **arrays: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    seal(folder)


def _scored(system: str, metric: str, value: float, made: Mapping[str, Any], store: Path) -> dict[str, Any]:
    """A result with a number a text: 100 less its place, so that the first text has the highest."""
    name = f"measure/{made['key'][:2]}/{made['key']}"
    store_arrays(store, name, {"per_example/gen_ppl": 100.0 - np.arange(made["n"])})
    return result(system, metric, {metric: value, "entropy": 4 + value / 100}, family="scored", artifact=name)


def _explain(run: Path, signature: str) -> None:
    head = {"metric": "mauve", "signature": signature}
    cell = {"kind": "cell", "cell": 3, "human_share": 0.3, "model_share": 0.1,
            "human": ["docs/000007#0"], "model": ["docs/000001#0", "docs/000008#0"]}  # fmt: skip
    missed = {"kind": "missed", "side": "human", "count": 12, "texts": ["docs/000009#0"]}
    ratio = {"kind": "ratio", "side": "model", "texts": ["docs/000010#0"], "log_ratio": [-2.5]}
    lines = [{**head, **one} for one in (cell, missed, ratio)]
    write_jsonl(run / "explain.jsonl", lines)
