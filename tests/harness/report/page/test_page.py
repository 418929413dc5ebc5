"""The page is one file that needs nothing else, shows text as text, and knows of each text what is known."""

import base64
import dataclasses
import hashlib
import json
import re
from collections import Counter
from typing import Any, cast

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models

from openended.harness.report.build import make_tables
from openended.harness.report.page import explanations, parts as page_parts
from openended.harness.report.page.page import collect_cell_details, list_settings, write_page
from openended.harness.report.page.parts import build_parts, to_script_json
from openended.harness.report.page.sources import PageTexts, TextSource, collect_page_texts
from openended.harness.report.tables.formats.latex import to_latex
from openended.harness.report.tables.frame import make_quantity
from openended.harness.report.tables.pictures import Picture
from openended.harness.results import Layout, read_results
from tests.harness.report.page.made import COUNT, HOSTILE, TOKENIZER, make_report, text_of
from tests.harness.report.synthetic import change_record, print_rows, write_run

EVIL = "<script>alert(1)</script>"


def part_of(page, name):
    """A part of the page's data, as a browser reads it."""
    found = re.search(rf'<script type="application/json" id="part-{name}">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1]) if found else None


def written(results, tmp_path, figures=(), **layout):
    (path,) = write_page(results, make_tables(results, Layout(**layout), "t"), figures, tmp_path / "report.html")
    return path.read_text(encoding="utf-8")


def test_page_is_escaped_self_contained_and_holds_every_text(tmp_path):
    write_run(tmp_path, "nucleus", 0, texts=True, title=f"nucleus {EVIL}")
    write_run(tmp_path, "greedy", None, texts=True)
    picture = tmp_path / "a_b.png"
    # The head of a PNG that is 1400 pixels wide: both columns of a page, at 200 dots an inch.
    picture.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (1400).to_bytes(4) + (900).to_bytes(4))
    page = written(read_results([tmp_path]), tmp_path, [Picture(picture, "a b", "")], title=f"T {EVIL}")
    assert EVIL not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<script>") == 1
    assert page.count("<script") == page.count("</script>")
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert '<figure class="page"' in page
    assert 'width="980"' in page
    assert "data:image/png;base64,iVBORw" in page
    sources = part_of(page, "contents")["sources"]
    assert [(one["system"], one["seed"], one["n"]) for one in sources] == [
        ("human", "", 6), ("greedy", "–", 6), (f"nucleus {EVIL}", "0", 6),
    ]  # fmt: skip
    assert part_of(page, "texts-0-0")["text"][0] == " what people wrote & text 0 </script>"
    assert part_of(page, "texts-1-0")["text"][5] == " greedy wrote & text 5 </script>"
    assert part_of(page, "ids-0")[0] == "docs/000000"


def test_the_policy_names_what_may_run(tmp_path):
    write_run(tmp_path, "greedy", None, texts=True)
    page = written(read_results([tmp_path]), tmp_path)
    for kind in ("script", "style"):
        inside = re.search(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "file:" not in policy  # all of it is inside


def test_sources_are_named_like_the_rows_and_every_seed_is_there(tmp_path):
    write_run(tmp_path, "nucleus", 0, texts=True)
    write_run(tmp_path, "nucleus", 1, texts=True)
    write_run(tmp_path, "greedy", None, texts=True)
    for rows in tmp_path.glob("store/human/*/*/human.arrow"):  # as a run leaves it: beside the halves of the ceiling
        (rows.parent / "ceiling_a.arrow").write_bytes(b"not the human side")
    shelf = collect_page_texts([("", read_results([tmp_path]))])
    assert shelf.systems == ("human", "greedy", "nucleus p=0.95")
    assert [(s.system, s.seed) for s in shelf.sources] == [
        ("human", ""), ("greedy", "–"), ("nucleus p=0.95", "0"), ("nucleus p=0.95", "1"),
    ]  # fmt: skip
    assert [side.name for side in shelf.sides] == ["docs"]


def test_sides_of_one_task_are_told_apart(tmp_path):
    write_run(tmp_path, "greedy", None, texts=True)
    write_run(tmp_path, "greedy", None, texts=True, length=32)
    shelf = collect_page_texts([("", read_results([tmp_path]))])
    assert {side.name for side in shelf.sides} == {"docs, length=32", "docs, length=96"}


def test_runs_without_texts_make_a_page_without_a_reader(tmp_path):
    write_run(tmp_path, "greedy", None)
    results = read_results([tmp_path])
    assert collect_page_texts([("", results)]).sources == ()
    page = written(results, tmp_path)
    assert 'id="texts"' not in page
    assert 'id="figures"' not in page


def test_the_page_says_settings_date_and_command(tmp_path):
    folder = write_run(tmp_path, "greedy", None, texts=True, created="2026-02-03T10:20:30+00:00")
    write_run(tmp_path, "nucleus", 0, created="2026-01-03T10:20:30+00:00")
    change_record(folder, command=["/x/openended", "decoder=greedy", "a=<b>"])
    results = read_results([tmp_path])
    page = written(results, tmp_path)
    head = page[page.index('<h2 id="about"') :]
    assert "Newest run: 2026-02-03 10:20 UTC." in head
    assert "Command: openended decoder=greedy &#39;a=&lt;b&gt;&#39;" in head
    assert "<tr><td>max_new_tokens</td><td>96</td></tr>" in head
    assert list_settings(results.runs)[0] == ("decoder", "greedy, nucleus"), "what was swept comes first"


def test_each_level_of_labels_and_headings_stands_by_itself_and_columns_of_text_are_wrapped(tmp_path):
    write_run(tmp_path, "greedy", 0)
    columns = [make_quantity("m", "m", "M") | {"levels": ("GPT-2", "Small")}, make_quantity("", "w", "W")]
    rows = [(f"xl, {name}", "model", (0.5, "a sentence"), 0, False, ("xl", name)) for name in ("Greedy", "Top-5")]
    table = print_rows(columns, rows, heads=("Size", "Decoding"), show_seeds=False)
    write_page(read_results([tmp_path]), [table], [], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert '<th scope="col">Size</th><th scope="col">Decoding</th>' in page
    assert '<th scope="row">xl</th><th scope="row">Top-5</th>' in page
    assert 'data-lead="2"' in page
    assert ">GPT-\u20602 <br>Small</th>" in page, "no break after a hyphen"
    assert page.count('class="words"') == 3, "the heading and the cells of the second column"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return read_results([make_report(tmp_path_factory.mktemp("grid"))])


@pytest.fixture(scope="module")
def shelf(results):
    return collect_page_texts([("", results)])


def test_values_of_texts_come_from_the_store(shelf, monkeypatch):
    monkeypatch.setattr(page_parts, "ROWS", 3)
    human, greedy, *_ = shelf.sources
    values = page_parts.compute_text_values(greedy, page_parts.read_token_nll(greedy))
    assert values["gen_ppl.gen_ppl"].values[:3].tolist() == [100, 99, 98]
    assert values["gen_ppl.gen_ppl"].direction == "match_human"
    assert values["words"].values[5] == len(HOSTILE[5].split())
    nll = page_parts.read_token_nll(greedy)
    assert values["nll"].values[7] == pytest.approx(nll[7].mean())
    run = greedy.results.runs[0]
    mine, theirs = (np.load(run.store / run.find_vectors(s.role) / "embeddings.npy") for s in (greedy, human))
    alike = [[float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for b in theirs] for a in mine]
    best, where = page_parts.find_nearest_human_texts(greedy, human)
    assert best == pytest.approx([max(row) for row in alike])
    assert where.tolist() == [row.index(max(row)) for row in alike]
    own, other = page_parts.find_nearest_human_texts(human, human)
    assert own.max() < 1
    assert all(at != i for i, at in enumerate(other))


def test_tokens_spell_their_text_or_are_not_told(shelf):
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    for text in (*(t[:5_000] for t in HOSTILE), text_of("human", 0, 0, 3)):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        lengths = page_parts.measure_tokens(tokenizer, text, ids, len(ids))
        assert sum(lengths) == len(text.encode("utf-16-le")) // 2
        assert len(lengths) == len(ids)
        assert page_parts.measure_tokens(tokenizer, text, ids[:-1], len(ids) - 1) is None
        assert page_parts.measure_tokens(tokenizer, text, [], len(ids)) == lengths
    vocabulary = {name: number for number, name in enumerate(("hello", "<0x0A>", "<0xF0>", "<0x9F>", "▁hello"))}
    of_bytes = Tokenizer(models.WordLevel(vocabulary, unk_token="hello"))
    of_bytes.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    # bytes of no character
    assert page_parts.measure_tokens(of_bytes, "hello\n\ufffd\ufffd hello", range(5), 5) is None
    assert page_parts.encode_letters([3, 1, 63.9]) == "".join(page_parts.DIGITS[n] for n in (3, 1, 63))
    assert page_parts.load_tokenizer(shelf.sources[0].results.runs[0]) is not None


def test_parts_are_whole_and_the_same_again(shelf):
    contents, made = build_parts(shelf)
    parts = dict(made)
    assert page_parts.fits_inside(shelf)
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


def test_a_page_without_the_scorers_tokenizer_says_so(shelf, monkeypatch):
    monkeypatch.setattr(page_parts, "load_tokenizer", lambda run: None)
    contents, made = build_parts(shelf)
    assert not any("surprise" in part for _, part in made if isinstance(part, dict))
    assert contents["uncolored"]


def test_of_two_reports_each_system_is_compared_with_the_human_texts_of_its_own():
    first, second, rows = (cast("Any", object()) for _ in range(3))
    sources = [
        ("human", "human", first),
        ("human", "two · human", second),
        ("model", "one · a", first),
        ("model", "two · a", second),
    ]
    humans_and_models = [TextSource(role, name, 0, "", rows, results, ()) for role, name, results in sources]
    texts = PageTexts((), (), tuple(humans_and_models))
    assert list(map(texts.find_human, humans_and_models[2:])) == humans_and_models[:2]
    assert PageTexts((), (), texts.sources[:1]).find_human(texts.sources[3]) == texts.sources[0], "which both share"


def test_reasons_name_texts_by_their_places_and_damage_is_said(shelf, results, caplog):
    told = explanations.read_explanations(shelf)
    systems = [("greedy", "–"), ("nucleus p=0.95", "0"), ("nucleus p=0.95", "1")]
    assert [(one["system"], one["seed"]) for one in told] == systems
    (cell,) = told[0]["cells"]
    assert (cell["human"], cell["model"]) == (0.3, 0.1)
    assert (cell["human_texts"], cell["model_texts"]) == ([[7, 0]], [[1, 0], [8, 0]])
    assert told[0]["missed"]["human"] == {"count": 12, "texts": [[9, 0]]}
    path = results.runs[0].folder / "explain.jsonl"
    kept = path.read_text()
    path.write_text('{"kind": "cell"}\n')
    assert len(explanations.read_explanations(shelf)) == 2
    assert "is skipped" in caplog.text
    path.write_text(kept)
    results.damaged.clear()


def test_a_cells_story_has_signature_seeds_and_latex(results):
    table = make_tables(results, Layout(), "t")[0]
    told = collect_cell_details([table])
    row = next(r for r in told["tables"][0]["rows"] if r["label"].startswith("nucleus"))
    place = next(i for i, c in enumerate(table.rows[-1].cells) if c.name == "mauve")
    cell = row["cells"][place]
    assert cell["seeds"] == {"0": 0.85, "1": 0.86}
    assert told["texts"][cell["signature"]].startswith("mauve|v:1")
    assert told["settings"][cell["settings"]]["decoder"] == "nucleus"
    assert row["latex"].endswith(r"\\")
    assert row["latex"] in to_latex(dataclasses.replace(table, tex_width=2000.0))


CELLS = [{"human": 0.30, "model": 0.05, "cell": 1}, {"human": 0.02, "model": 0.11, "cell": 2}]


def test_the_cell_that_explains_the_loss_is_overfilled_or_missed():
    assert explanations.find_worst_cell(CELLS) is CELLS[1]
    assert explanations.summarize_cells("greedy", 0.89, 0.95, CELLS, "“The method is…”") == (
        "greedy has MAUVE 0.89, 0.06 below the human–human reference of 0.95: 11 % of its texts fall into a cell with 2 % of the "
        "human text, for example “The method is…”."
    )
    above = explanations.summarize_cells("greedy", 0.96, 0.95, CELLS, "")
    assert above.startswith("greedy has MAUVE 0.96, at the human–human reference of 0.95:")
    assert explanations.summarize_cells("greedy", 0.89, None, CELLS, "").startswith("greedy has MAUVE 0.89: 11 %")
    assert explanations.summarize_cells("greedy", None, None, CELLS[:1], "") == (
        "greedy: only 5 % of its texts fall into a cell with 30 % of the human text."
    )


def test_missed_texts_typical_words_and_quotes():
    missed = {"human": {"count": 12}, "model": {"count": 3}}
    assert explanations.summarize_missed("greedy", missed, {"model": "“a b”"}) == (
        "greedy: 3 of its texts have no human text nearby (precision), such as “a b”; 12 human texts have no text of "
        "it nearby (recall)."
    )

    texts = ["the tensor shape", "the Tensor input", "the tensor input 12", "the cat"]
    counts = Counter(explanations.count_words(texts)) + Counter({"the": 96, "input": 10, "shape": 50})
    # Of 100 texts 100 have "the": too many. "tensor": 3 log(100 / 3) = 10.5; "input": 2 log(100 / 12) = 4.2.
    assert explanations.find_typical_words(texts, counts, 100) == ["tensor", "input"]
    assert explanations.find_typical_words([], counts, 100) == []
    assert explanations.find_typical_words(["which cat", "which cat"], counts, 100) == [
        "cat"
    ]  # function words say nothing

    assert explanations.quote_beginning(" one two ") == "“one two”"
    assert explanations.quote_beginning("a b c d e f g h i") == "“a b c d e f g h…”"
