"""What the page knows of single texts: numbers, tokens, reasons, stories; and how it is cut into parts."""

import dataclasses
import json

import numpy as np
import pytest
from tokenizers import Tokenizer

from openended.harness.report.build import make_tables
from openended.harness.report.page.explanations import read_explanations
from openended.harness.report.page.page import collect_cell_details
from openended.harness.report.page.parts import (
    DIGITS,
    TokenEnds,
    build_parts,
    compute_text_values,
    encode_tokens,
    find_nearest_human_texts,
    fits_inside,
    load_token_ends,
    read_token_nll,
    to_script_json,
)
from openended.harness.report.page.sources import collect_page_texts
from openended.harness.report.tables.formats.latex import to_latex
from openended.harness.results import Layout, read_results
from tests.harness.report.page.made import COUNT, HOSTILE, TOKENIZER, make_report, text_of


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return read_results([make_report(tmp_path_factory.mktemp("grid"))])


@pytest.fixture(scope="module")
def shelf(results):
    return collect_page_texts([("", results)])


def test_values_of_texts_come_from_the_store(shelf):
    human, greedy, *_ = shelf.sources
    values = compute_text_values(greedy, read_token_nll(greedy))
    assert values["gen_ppl.gen_ppl"].values[:3].tolist() == [100, 99, 98]
    assert values["gen_ppl.gen_ppl"].direction == "match_human"
    assert values["words"].values[5] == len(HOSTILE[5].split())
    nll = read_token_nll(greedy)
    assert values["nll"].values[7] == pytest.approx(nll[7].mean())
    mine, theirs = (np.load(s.results.runs[0].store / s.results.runs[0].inputs[f"embed:{s.role} prompt_and_continuation"] / "embeddings.npy")
                    for s in (greedy, human))  # fmt: skip
    alike = [[float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for b in theirs] for a in mine]
    best, where = find_nearest_human_texts(greedy, human)
    assert best == pytest.approx([max(row) for row in alike])
    assert where.tolist() == [row.index(max(row)) for row in alike]
    own, other = find_nearest_human_texts(human, human)
    assert own.max() < 1
    assert all(at != i for i, at in enumerate(other))


def test_tokens_spell_their_text_or_are_not_told(shelf):
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    ends = TokenEnds(tokenizer)
    for text in (*(t[:5_000] for t in HOSTILE), text_of("human", 0, 0, 3)):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        lengths = ends.lengths(text, ids, len(ids))
        assert sum(lengths) == len(text.encode("utf-16-le")) // 2
        assert len(lengths) == len(ids)
        assert ends.lengths(text, ids[:-1], len(ids) - 1) is None
        assert ends.lengths(text, [], len(ids)) == lengths
    assert encode_tokens([3, 1], np.array([0.6, 99.0])) == (f"{DIGITS[3]}{DIGITS[1]}", f"{DIGITS[2]}{DIGITS[-1]}")
    assert encode_tokens([64], np.array([1.0])) is None
    assert load_token_ends(shelf.sources[0].results.runs[0]) is not None


def test_parts_are_whole_and_the_same_again(shelf):
    contents, made = build_parts(shelf)
    parts = dict(made)
    assert fits_inside(shelf)
    assert [s["n"] for s in contents["sources"]] == [COUNT, COUNT, 2 * COUNT, 2 * COUNT]
    assert contents["sources"][2]["samples"] == 2
    assert parts["source-2"]["sample"] == [0, 1] * COUNT
    assert parts["source-2"]["example"] == [at for at in range(COUNT) for _ in range(2)]
    assert parts["source-1"]["cut"] == "1000" * (COUNT // 4)
    assert len(parts["texts-1-0"]["surprise"]) == COUNT
    again = build_parts(shelf)
    assert to_script_json(dict(again[1])) == to_script_json(parts)
    assert again[0] == contents
    assert "<" not in to_script_json(parts)
    assert json.loads(to_script_json(HOSTILE)) == HOSTILE


def test_reasons_name_texts_by_their_places_and_damage_is_said(shelf, results, caplog):
    told = read_explanations(shelf)
    assert [(one["system"], one["seed"]) for one in told] == [
        ("greedy", "–"),
        ("nucleus p=0.95", "0"),
        ("nucleus p=0.95", "1"),
    ]
    (cell,) = told[0]["cells"]
    assert (cell["human"], cell["model"], cell["human_texts"], cell["model_texts"]) == (
        0.3,
        0.1,
        [[7, 0]],
        [[1, 0], [8, 0]],
    )
    assert told[0]["missed"]["human"] == {"count": 12, "texts": [[9, 0]]}
    path = results.runs[0].folder / "explain.jsonl"
    kept = path.read_text()
    path.write_text('{"kind": "cell"}\n')
    assert len(read_explanations(shelf)) == 2
    assert "is skipped" in caplog.text
    path.write_text(kept)
    results.damaged.clear()


def test_a_cells_story_has_signature_seeds_and_latex(results):
    table = make_tables(results, Layout(), "t")[0]
    told = collect_cell_details(results, [table])
    row = next(r for r in told["tables"][0]["rows"] if r["label"].startswith("nucleus"))
    place = next(i for i, c in enumerate(table.columns) if c.metric == "mauve")
    cell = row["cells"][place]
    assert cell["seeds"] == {"0": 0.85, "1": 0.86}
    assert told["texts"][cell["signature"]].startswith("mauve|v:1")
    assert told["settings"][cell["settings"]]["decoder"] == "nucleus"
    assert row["latex"].endswith(r"\\")
    assert row["latex"] in to_latex(dataclasses.replace(table, tex_width=2000.0))
