"""Published generations as systems: every form, the pairing, hostile and broken files, and real texts."""

from __future__ import annotations

import gzip
import hashlib
import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError
from openended.harness.core.types import Generation
from openended.harness.imported import generations as sources, pairing as g
from openended.harness.imported.pickles import load_plain_pickle
from openended.harness.storage.rows import Row, write_rows
from tests.helpers import write_jsonl

SHARED = Path(__file__).parents[3].parent / "shared" / "data"
NAN = float("nan")


class Codes:
    """One token a character; the end token is 50256."""

    def encode(self, text: str) -> list[int]:
        return [ord(c) for c in text]

    def decode(self, ids: Any) -> str:
        return "".join(map(chr, ids))


def read_plain_pickle(path: Path) -> Any:
    with path.open("rb") as handle:
        return load_plain_pickle(handle, path)


def prompts_file(tmp_path: Path, prompts: dict[str, str]) -> Path:
    rows = [
        Row(p, tuple(Codes().encode(p)), Generation(i, 0, "", (), "length", NAN)) for i, p in sorted(prompts.items())
    ]
    write_rows(tmp_path / "prompts.arrow", rows)
    return tmp_path / "prompts.arrow"


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    return prompts_file(tmp_path, {f"jsonl/{i:06d}": f"P{i}" for i in range(3)})


def lines(tmp_path: Path, rows: list[Any], name: str = "g.jsonl") -> Path:
    path = tmp_path / name
    return write_jsonl(path, rows)


def taken(*asked: Any) -> tuple[list[Row], list[str]]:
    made = g.import_rows(*asked)
    return list(made), made.notes


def texts(rows: list[Row]) -> list[str]:
    return [row.generation.text for row in rows]


@pytest.mark.parametrize("field", ["text", "generation", "generated_text", "gen_text", "completion", "continuation"])
def test_texts_are_paired_by_id(tmp_path: Path, prompts: Path, field: str) -> None:
    path = lines(tmp_path, [{"id": i, field: f" g{i}"} for i in (2, 0, 1)])
    rows, notes = taken(path, prompts, None, None)
    assert texts(rows) == [" g0", " g1", " g2"]
    assert [r.prompt for r in rows] == ["P0", "P1", "P2"]
    assert notes == [
        "its ids were taken for numbers of the task's records, counted from 0",
        "no stop reasons in the file; texts not truncated here count as complete",
    ]


@pytest.mark.parametrize("identity", ["jsonl/000001", "000001", "1", 1])
def test_ids_may_be_long_or_short(tmp_path: Path, identity: Any) -> None:
    prompts = prompts_file(tmp_path, {"jsonl/000001": "P"})
    rows, _ = taken(lines(tmp_path, [{"id": identity, "text": " x"}]), prompts, None, None)
    assert rows[0].generation.example_id == "jsonl/000001"


def test_ids_that_count_from_one_do_not_pair_where_prompts_disagree(tmp_path: Path, prompts: Path) -> None:
    path = lines(tmp_path, [{"id": i + 1, "prompt": f"P{i}", "text": f" g{i}"} for i in range(3)])
    assert texts(taken(path, prompts, None, None)[0]) == [" g0", " g1", " g2"]


def test_texts_are_paired_by_prompt_and_the_rest_counted(tmp_path: Path, prompts: Path) -> None:
    path = lines(tmp_path, [{"prompt": f"P{i}", "text": f" g{i}"} for i in (7, 2, 1, 0)])
    rows, notes = taken(path, prompts, None, None)
    assert texts(rows) == [" g0", " g1", " g2"]
    assert "1 texts of the file answer no example of this run" in notes


def test_texts_are_paired_by_order_where_neither_side_has_ids(tmp_path: Path) -> None:
    prompts = prompts_file(tmp_path, {f"webtext/{i:06d}": "P" for i in (0, 2)})
    path = lines(tmp_path, [{"text": f" g{i}"} for i in range(4)])
    rows, notes = taken(path, prompts, None, None)
    assert texts(rows) == [" g0", " g2"]
    assert notes[:2] == [
        "paired by order: neither file has ids, so line i answers record i",
        "2 texts of the file answer no example of this run",
    ]


def test_examples_with_ids_are_not_paired_by_order(tmp_path: Path) -> None:
    prompts = prompts_file(tmp_path, {"jsonl/a": "P", "jsonl/b": "Q"})
    with pytest.raises(DataError, match=r"the examples have ids \('jsonl/a', 'jsonl/b'\), its lines have neither"):
        taken(lines(tmp_path, [{"text": "x"}, {"text": "y"}]), prompts, None, None)


def test_a_partial_match_of_ids_names_the_first_that_fail(tmp_path: Path) -> None:
    prompts = prompts_file(tmp_path, {f"jsonl/{i}": "P" for i in "abcde"})
    rows = [{"id": i, "text": "x"} for i in ("a", "v", "w", "y", "z")]
    with pytest.raises(DataError) as told:
        taken(lines(tmp_path, rows), prompts, None, None)
    assert "no text for 4 of 5 examples: 'jsonl/b', 'jsonl/c', 'jsonl/d', …" in str(told.value)
    assert "ids of the file that are none of the task: 'v', 'w', 'y', …" in str(told.value)


def test_ids_that_match_nothing_never_fall_back_to_order(tmp_path: Path, prompts: Path) -> None:
    rows = [{"id": f"x{i}", "text": f" g{i}"} for i in range(3)]
    with pytest.raises(DataError, match="no text for 3 of 3 examples"):
        taken(lines(tmp_path, rows), prompts, None, None)


def test_every_line_has_an_id_or_none_has(tmp_path: Path, prompts: Path) -> None:
    rows = [{"id": 0, "text": "a"}, {"text": "b"}, {"id": 2, "text": "c"}]
    with pytest.raises(DataError, match=r"g\.jsonl:2: no id, though other lines have one"):
        taken(lines(tmp_path, rows), prompts, None, None)


def test_prompts_that_disagree_with_the_ids_are_an_error_where_they_cannot_pair(tmp_path: Path) -> None:
    prompts = prompts_file(tmp_path, {"jsonl/a": "P", "jsonl/b": "P"})
    rows = [{"id": "a", "prompt": "P", "text": "x"}, {"id": "b", "prompt": "other", "text": "y"}]
    with pytest.raises(DataError, match=r"g\.jsonl:2: its prompt is not that of jsonl/b"):
        taken(lines(tmp_path, rows), prompts, None, None)


def test_a_prompt_that_begins_every_text_is_cut_off(tmp_path: Path, prompts: Path) -> None:
    rows = [[{"prompt": f"P{i}", "gen_text": f"P{i} g{i}", "gold_ref": f"P{i} h"}] for i in range(3)]
    made, notes = taken(lines(tmp_path, rows), prompts, None, None)
    assert texts(made) == [" g0", " g1", " g2"]
    assert "every text began with its prompt, which was cut off" in notes
    path = lines(tmp_path, [{"id": 0, "text": "P0 x"}, {"id": 1, "text": "y"}, {"id": 2, "text": "z"}])
    assert texts(taken(path, prompts, None, None)[0]) == ["P0 x", "y", "z"]


def test_tokens_and_the_cut(tmp_path: Path, prompts: Path) -> None:
    path = lines(tmp_path, [{"id": i, "text": "abcdef"[: 2 * i], "stop": "eos"} for i in range(3)])
    rows, notes = taken(path, prompts, Codes(), 3)
    assert texts(rows) == ["", "ab", "abc"]
    assert [r.generation.stop for r in rows] == ["eos", "eos", "length"]
    assert rows[2].generation.token_ids == (97, 98, 99)
    assert notes[1:] == ["1 of 3 generations are empty"]


def test_draws_of_one_prompt_are_numbered(tmp_path: Path) -> None:
    prompts = prompts_file(tmp_path, {"jsonl/000000": "P"})
    path = lines(tmp_path, [{"id": 0, "sample": s, "text": f"s{s}"} for s in (1, 0)])
    assert texts(taken(path, prompts, None, None)[0]) == ["s0", "s1"]
    path = lines(tmp_path, [{"id": 0, "text": "a"}, {"id": 0, "text": "b"}])
    with pytest.raises(DataError, match=r"g\.jsonl:1: duplicate id: a second text for 'jsonl/000000'"):
        taken(path, prompts, None, None)


def test_gpt2_output_samples_answer_no_prompt(tmp_path: Path, prompts: Path) -> None:
    rows = [{"id": 255000 + i, "ended": i != 1, "length": 3, "text": f"doc {i}"} for i in range(5)]
    made, notes = taken(lines(tmp_path, rows, "xl-1542M-k40.test.jsonl"), prompts, None, None)
    assert texts(made) == ["doc 0", "doc 1", "doc 2"]
    assert [r.prompt for r in made] == ["", "", ""]
    assert [r.generation.stop for r in made] == ["eos", "length", "eos"]
    assert "answer no prompt" in notes[0]


def test_grover_machine_articles(tmp_path: Path) -> None:
    prompts = prompts_file(tmp_path, {"realnews/000007": "Title: T\n\n"})
    rows = [
        {"article": "human text", "label": "human", "ind30k": 7, "split": "test"},
        {"article": "machine text", "label": "machine", "ind30k": 7, "split": "test", "top_p": 0.94},
        {"article": "other", "label": "machine", "ind30k": 8, "split": "val"},
    ]
    made, _ = taken(lines(tmp_path, rows), prompts, None, None)
    assert texts(made) == ["machine text"]
    rows = [{"title": "T", "text": "h", "inst_index": 7, "gens_article": ["a", "b"], "top_ps": [0.9, 0.9]}]
    made, _ = taken(lines(tmp_path, rows), prompts, None, None)
    assert [(r.generation.sample, r.generation.text) for r in made] == [(0, "a"), (1, "b")]


def archive_of(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "sample_test_p0.95_k0_t1.0_seed1.p"
    path.write_bytes(pickle.dumps(value))
    return path


IDS = [[80, 48, 97, 98, 50256, 50256], [80, 49, 99, 100, 101, 102], [80, 50, 50256]]


@pytest.mark.parametrize("protocol", range(6))
def test_the_mauve_archive(tmp_path: Path, prompts: Path, protocol: int) -> None:
    path = tmp_path / "a.p"
    path.write_bytes(pickle.dumps([IDS, [True, False, True], 0.5, "x"], protocol=protocol))
    rows, notes = taken(path, prompts, Codes(), 1024)
    assert texts(rows) == ["ab", "cdef", ""]
    assert rows[1].generation.token_ids == (99, 100, 101, 102)
    assert [r.generation.stop for r in rows] == ["eos", "length", "eos"]
    assert notes[1:] == ["1 of 3 generations are empty"]


def test_the_mauve_archive_needs_a_tokenizer_and_the_official_prompts(tmp_path: Path, prompts: Path) -> None:
    path = archive_of(tmp_path, [IDS])
    with pytest.raises(DataError, match="GPT-2 tokenizer"):
        taken(path, prompts, None, None)
    other = prompts_file(tmp_path, {f"webtext/{i:06d}": "Q" for i in range(3)})
    with pytest.raises(DataError, match="do not begin with the prompts"):
        taken(path, other, Codes(), None)


def test_a_member_is_read_from_the_verified_archive(
    tmp_path: Path, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = archive_of(tmp_path, [IDS])
    packed = tmp_path / "mauve_generations.tgz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(inner, f"mauve_generations/webtext_gpt2/{inner.name}")
    path = Path(f"{packed}#webtext_gpt2/{inner.name}")
    with pytest.raises(DataError, match=r"its MD5 is .* its authors state 63bae977e3ce5f3c86d9e35188c1b8e6"):
        sources.compute_fingerprint(path)
    md5 = hashlib.md5(packed.read_bytes()).hexdigest()
    monkeypatch.setattr(sources, "MAUVE_MD5", md5)
    assert sources.compute_fingerprint(path) != sources.compute_fingerprint(Path(f"{packed}#other.p"))
    assert texts(taken(path, prompts, Codes(), None)[0]) == ["ab", "cdef", ""]
    with pytest.raises(DataError, match=r"holds no other\.p"):
        taken(Path(f"{packed}#other.p"), prompts, Codes(), None)
    packed.write_bytes(packed.read_bytes()[:-30])
    with pytest.raises(DataError):
        taken(path, prompts, Codes(), None)


class Hostile:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


def _touch(path: str) -> None:
    Path(path).touch()


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    import os
    import subprocess

    victim = tmp_path / "victim"
    for evil in (
        Hostile(os.system, f"touch {victim}"),
        Hostile(eval, f"open({str(victim)!r}, 'w')"),
        Hostile(subprocess.Popen, ["touch", str(victim)]),
        [[1, 2, Hostile(_touch, str(victim))]],
        Hostile(getattr, "x", "upper"),
        Path("x"),
        {1, 2},
        bytearray(b"x"),
        range(3),
        1j,
    ):
        path = tmp_path / "evil.p"
        path.write_bytes(pickle.dumps(evil, protocol=protocol))
        with pytest.raises(DataError, match="refused"):
            read_plain_pickle(path)
    assert not victim.exists()


@pytest.mark.parametrize(
    "stream",
    [
        b"cos\nsystem\n(S'true'\ntR.",  # GLOBAL and REDUCE
        b"(S'true'\nios\nsystem\n.",  # INST
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",  # STACK_GLOBAL
        b"\x80\x02\x82\x01.",  # EXT1
        b"Pid\n.",  # PERSID
        b"\x80\x05\x97.",  # NEXT_BUFFER
        b"",
        b"no pickle at all",
        b"\x80\x04]\x94(K\x01",  # cut short
        b"\x80\x04N.",  # None
        b"\x80\x04}.",  # a dict
        b"\x80\x04).",  # a tuple
        b"\x80\x04C\x01a.",  # bytes
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fa.",  # a string of absurd size
        b"\x80\x04e.",
        b"\x80\x04h\x05.",
    ],
)
def test_streams_that_are_no_plain_lists_are_refused(tmp_path: Path, stream: bytes) -> None:
    path = tmp_path / "x.p"
    path.write_bytes(stream)
    with pytest.raises(DataError, match=r"x\.p"):
        read_plain_pickle(path)


def test_plain_data_is_read_even_if_a_list_holds_itself(tmp_path: Path) -> None:
    value: list[Any] = [1, 2.5, "s", True, [[3]]]
    value.append(value)
    path = tmp_path / "x.p"
    path.write_bytes(pickle.dumps(value))
    assert read_plain_pickle(path)[:5] == value[:5]


@pytest.mark.parametrize("value", [[], "text", [1], [["x"]], [[[1, 60000]]], [[[True]]], [[1]]])
def test_pickles_of_another_shape_are_refused(tmp_path: Path, prompts: Path, value: Any) -> None:
    with pytest.raises(DataError, match="expected a list"):
        taken(archive_of(tmp_path, value), prompts, Codes(), None)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"id": 0, "txt": "a", "lang": "en"}],
            r":1: no field with the text; expected one of text, .*got id, txt, lang",
        ),
        ([{"id": 0, "text": None}], r":1: field 'text': expected text, got null"),
        ([{"id": 0, "text": 5}], r":1: field 'text': expected text, got int"),
        ([{"id": 0, "text": "\ud800"}], r":1: .*surrogate"),
        ([{"id": 1.5, "text": "a"}], r":1: expected an id"),
        ([{"id": 0, "text": "a", "sample": -1}], r":1: field 'sample'"),
        ([{"id": 0, "text": "a", "stop": "bored"}], r":1: field 'stop': expected eos or length"),
        ([{"id": 0, "text": "a"}], r"no text for 2 of 3 examples: 'jsonl/000001', 'jsonl/000002'"),
        ([{"prompt": "none of them", "text": "a"}], r"neither its ids nor its prompts"),
        ([{"text": "a"}], r"holds 1 texts for 3 examples; set num_examples=1"),
        ([{"gens_article": "x"}], r"expected a list of texts"),
        ([["x", "y"]], r":1: expected a JSON object, got list"),
        ([], r"holds no generation"),
    ],
)
def test_wrong_records_are_one_line_errors(tmp_path: Path, prompts: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        taken(lines(tmp_path, rows), prompts, None, None)
    assert "\n" not in str(caught.value)


# The published forms, three texts each, all for the prompts of the fixture.
FORMS = {
    "own": [{"id": i, "text": f" g{i}"} for i in range(3)],
    "gpt2 output": [{"id": i, "ended": True, "length": 9, "text": f" g{i}"} for i in range(3)],
    "grover": [{"article": f" g{i}", "label": "machine", "ind30k": i} for i in range(3)],
    "grover generator": [{"gens_article": [f" g{i}"], "inst_index": i} for i in range(3)],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: gzip.compress(data * 999)[:-30], r"g\.jsonl\.gz:\d+: cannot be read to its end"),
        (lambda data: data.replace(b"g1", b"g\xe9"), r"g\.jsonl:2: not UTF-8"),
        (lambda _data: b"", "holds no generation"),
        (lambda data: data.replace(b"g1", b"x" * 50_000_000), r"g\.jsonl:2: a line of more than 16 MiB"),
        (lambda data: data.partition(b"\n")[0] + b"\n", "no text for 2 of 3 examples|holds 1 texts for 3 examples"),
        (lambda data: data.replace(b'" g1"', b"7"), r"g\.jsonl:2: field '\w+': expected text, got int"),
        (lambda data: data.replace(b'" g1"', b"null"), r"g\.jsonl:2: field '\w+': expected text, got null"),
    ],
    ids=["truncated gz", "encoding", "empty", "50 MB line", "fewer", "mixed types", "null"],
)
def test_malformed_files(tmp_path: Path, prompts: Path, form: str, change: Any, message: str) -> None:
    data = lines(tmp_path, FORMS[form]).read_bytes()
    path = tmp_path / ("g.jsonl.gz" if "gz" in message else "g.jsonl")
    path.write_bytes(change(data))
    with pytest.raises(DataError, match=message) as caught:
        taken(path, prompts, None, None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", ["own", "grover"])
def test_an_id_twice_is_an_error(tmp_path: Path, prompts: Path, form: str) -> None:
    with pytest.raises(DataError, match=r"g\.jsonl:\d: duplicate id: a second text for 'jsonl/000001'"):
        taken(lines(tmp_path, [*FORMS[form], FORMS[form][1]]), prompts, None, None)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("oddity", ["crlf", "bom", "gz"])
def test_harmless_oddities(tmp_path: Path, prompts: Path, form: str, oddity: str) -> None:
    plain = lines(tmp_path, FORMS[form])
    data = plain.read_bytes()
    odd = tmp_path / ("odd.jsonl.gz" if oddity == "gz" else "odd.jsonl")
    changed = {"crlf": data.replace(b"\n", b"\r\n"), "bom": b"\xef\xbb\xbf" + data, "gz": gzip.compress(data)}
    odd.write_bytes(changed[oddity])
    assert texts(taken(odd, prompts, None, None)[0]) == texts(taken(plain, prompts, None, None)[0])


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        sources.compute_fingerprint(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="no file of texts in this folder"):
        sources.compute_fingerprint(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        list(sources.read_generations(tmp_path / "none.p"))


@pytest.mark.reference
@pytest.mark.parametrize(
    "name", ["webtext/gpt2-large-greedy", "webtext/gpt2-large-nucleus", "wikitext/gpt2-xl-contrastive"]
)
def test_real_generations_have_their_stored_lengths(tmp_path: Path, name: str) -> None:
    path = SHARED / "generations" / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    from collections import Counter

    from openended.tasks.jsonl import JsonLines

    task = JsonLines(path=str(path), human_field="reference")
    examples = list(task.examples(None, Counter()))
    prompts = prompts_file(tmp_path, {e.id: e.prompt for e in examples})
    rows, _ = taken(path, prompts, None, None)
    expected = json.loads((SHARED / "generations" / "expected.json").read_text())
    stored = next(e for e in expected["files"] if e["file"] == f"{name}.jsonl")["stored"]["gen_length_words"]
    mean = sum(len(t.split()) for t in texts(rows)) / len(rows)
    assert round(mean, 2) == pytest.approx(round(stored, 2), abs=0.011)
    assert {r.generation.example_id: r.prompt for r in rows} == {e.id: e.prompt for e in examples}
