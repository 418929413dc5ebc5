"""Run folders become one row per value and one value per system; what a report is asked for, by name, by grid or by path."""

import io
import math
import random
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from openended.harness.app.commands import status
from openended.harness.core import DataError, write_json
from openended.harness.report import read_decision_plan
from openended.harness.report.cli import main
from openended.harness.results import (
    count_prompts,
    find_varying_axes,
    format_axis_value,
    label_system,
    label_systems,
    read_grid,
    read_grids,
    resolve_report_request,
)
from openended.harness.results.frame import filter_results, read_frame, read_results, write_frame
from openended.harness.results.runs import describe_reused_artifacts, find_records, find_run, read_run, serialize_axes
from openended.harness.storage import RunInput, RunRecord, compare_environments, find_input
from tests.harness.report.synthetic import change_record, result, write_run
from tests.helpers import cases, check_error


def write(folder, decoder="nucleus", seed=0, value=1.0, human=5.0, **more):
    lines = [result("model", "m", {"m": value, "n": 1.0})]
    lines += [result("human", "m", {"m": human, "n": 1.0})] if human is not None else []
    return write_run(folder, decoder, seed, results=lines, **more)


def read_models(folder):
    return [i for i in read_results([folder]).values if i.system == "model" and i.key == "m"]


# Rows -----------------------------------------------------------------------------------------------------------------


def test_one_row_per_value_with_every_axis(tmp_path):
    write(tmp_path)
    (tmp_path / "runs" / "synthetic" / "20260102T030405-0123abcd").mkdir()
    results = read_results([tmp_path])
    assert (len(results.runs), len(results.left_out)) == (1, 1), "a folder without a record is passed over and named"
    assert len(results.frame) == 4  # two values of the model, two of the human side
    row = results.frame.iloc[0]
    expected = ("nucleus", 0.95, 0, 1.0, True)
    assert (row["decoder"], row["decoder.p"], row["seed"], row["value"], row["primary"]) == expected
    assert row["signature"].startswith("m|v:1")
    assert tuple(results.axes)[:4] == ("task", "model", "decoder", "decoder.p")
    human = next(row for row in results.rows if row.system == "human")
    assert human.axes["task"] == "docs"
    assert not {"model", "decoder", "decoder.p", "seed"} & human.axes.keys(), "the human text has no axes of the model"
    assert (human.model_title, human.decoder_title) == ("", "")
    assert results.frame.iloc[2]["decoder"] is None


@cases(
    "runs, rows, superseded",
    ((("greedy", 1.0, 5.0), ("greedy", 2.0, 5.0)), [("human", 5.0), ("model", 2.0)], 1),
    # one human side of two systems counts once, with its newest value; the older one that differs is counted
    ((("greedy", 1.0, 5.0), ("nucleus", 2.0, 6.0)), [("human", 6.0), ("model", 1.0), ("model", 2.0)], 1),
    ((("greedy", 1.0, 5.0), ("nucleus", 2.0, 5.0)), [("human", 5.0), ("model", 1.0), ("model", 2.0)], 0),
    ((("greedy", 1.0, None), ("greedy", 2.0, None)), [("model", 2.0)], 1),  # a metric that compares two sides
)
def test_the_newest_run_of_a_system_and_of_a_human_side_counts(tmp_path, runs, rows, superseded):
    for day, (decoder, value, human) in enumerate(runs, 1):
        write(tmp_path, decoder, None, value, human, created=f"2026-01-0{day}T00:00:00+00:00")
    results = read_results([tmp_path])
    frame = results.frame[results.frame["key"] == "m"]
    assert sorted(zip(frame["system"], frame["value"], strict=True)) == rows
    assert results.superseded == superseded


def test_runs_of_an_archive_are_systems_of_their_own_that_are_named_and_have_their_own_store(tmp_path):
    """Whatever their dates, seeds and records say; human values are those of this machine."""
    write(tmp_path, value=1.0)
    for seed in (0, 1):
        later = {"created": "2099-01-01T00:00:00+00:00", "store": "../../../../../store"}
        change_record(write(tmp_path / "imported/theirs", seed=seed, value=9.0, human=7.0), **later)
    results = read_results([tmp_path / "runs", tmp_path / "imported/theirs/runs"])
    models = [value for value in results.values if value.system == "model" and value.key == "m"]
    models.sort(key=lambda value: value.axes["archive"])
    assert [(value.axes["archive"], value.mean, value.seeds) for value in models] == [("", 1.0, 1), ("theirs", 9.0, 2)]
    assert [value.mean for value in results.values if value.system == "human" and value.key == "m"] == [5.0]
    assert label_systems(models) == ["nucleus p=0.95 (archive=none)", "nucleus p=0.95 (archive=theirs)"]
    stores = {run.archive: run.store for run in results.runs}
    assert stores == {"": tmp_path / "store", "theirs": tmp_path / "imported/theirs/store"}


def test_a_run_under_two_experiments_and_a_human_side_count_once(tmp_path):
    for seed in (0, 1):
        for experiment in ("synthetic", "again"):
            write(tmp_path, seed=seed, value=1.0 + seed, experiment=experiment)
    for where in ({}, {"experiment": "synthetic"}, {"experiment": "again"}):
        items = read_results([tmp_path, tmp_path / "runs"], where).values
        assert [(i.system, i.key, i.seeds) for i in items if i.key == "m"] == [("model", "m", 2), ("human", "m", 1)]


def test_one_type_per_column(tmp_path):
    for seed, axes in enumerate(({"x": 1, "y": True, "z": 1}, {"x": None, "y": None, "z": 0.5}, {"x": 2, "z": 1})):
        write(tmp_path, seed=seed, axes={**axes, "mixed": seed or "none"})
    frame = read_results([tmp_path]).frame
    types = {name: str(frame[name].dtype) for name in ("n_human", "value", "x", "y", "z", "mixed")}
    assert types == {
        "n_human": "Int64", "value": "float64", "x": "Int64", "y": "boolean", "z": "float64", "mixed": "object",
    }  # fmt: skip
    models = frame[(frame["system"] == "model") & (frame["key"] == "m")]
    assert (models["mixed"].tolist(), models["z"].tolist()) == (["none", "1", "2"], [1.0, 0.5, 1.0])


def test_axes_are_one_text_whatever_their_order():
    assert serialize_axes({"b": 1, "a": None, "c": "x"}) == serialize_axes({"c": "x", "b": 1}) == '{"b": 1, "c": "x"}'


@cases("value, text", (0.1 + 0.2, "0.3"), (None, ""), (math.nan, ""), (pd.NA, ""), (5, "5"), (True, "True"), ("x", "x"))
def test_axis_values_are_written_as_a_user_writes_them(value, text):
    assert format_axis_value(value) == text


def test_where_keeps_runs_and_the_human_side(tmp_path):
    for decoder in ("nucleus", "top_k", "greedy"):
        write(tmp_path, decoder)
    results = read_results([tmp_path], {"decoder": "nucleus|greedy"})
    assert {i.axes["decoder"] for i in results.values if i.system == "model"} == {"nucleus", "greedy"}
    assert any(i.system == "human" for i in results.values)
    assert filter_results(results, {"decoder.p": "0.95"}).frame["decoder"].dropna().unique().tolist() == ["nucleus"]
    with pytest.raises(DataError, match=r"no axis 'decodr' in these runs; did you mean 'decoder'\?"):
        filter_results(results, {"decodr": "x"})
    check_error(DataError, "no value matches decoder=beam", filter_results, results, {"decoder": "beam"})


def test_the_exported_files_hold_the_same_and_do_not_depend_on_order_or_time(tmp_path):
    # The jobs of a grid end in another order with every launcher; the human side that both share is shown as one's.
    for name, months in {"a": (1, 1), "b": (1, 2), "c": (2, 1)}.items():
        for seed, month in enumerate(months):
            write(tmp_path / name, seed=seed, value=1.0 + seed, created=f"2027-0{month}-01T00:00:00+00:00")
    first, *others = (write_frame(read_results([tmp_path / n]), tmp_path / f"{n}-out") for n in "abc")
    for other in others:
        assert [p.read_bytes() for p in other] == [p.read_bytes() for p in first]
    table = pd.read_parquet(first[0])
    assert len(table) == len(pd.read_csv(first[1])) == 6
    assert "at" not in table.columns
    assert table["seed"].notna().sum() == 4


def test_an_exported_file_keeps_the_types_of_empty_columns_and_every_flipped_bit_is_seen(tmp_path):
    write(tmp_path, axes={"model.revision": None})
    results = read_results([tmp_path])
    path = write_frame(results, tmp_path / "out")[0]
    schema = pq.read_schema(path)
    assert {str(schema.field(name).type) for name in ("reason", "artifact", "low", "n_model")} == {
        "string",
        "double",
        "int64",
    }
    copy = read_frame(path)
    pd.testing.assert_frame_equal(copy.frame, results.frame)
    sound, draw, values = path.read_bytes(), random.Random(0), []
    for _ in range(200):
        data = bytearray(sound)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        try:
            pd.testing.assert_frame_equal(read_frame(path).frame, copy.frame)
        except DataError as err:
            values.append(str(err))
    assert len(values) > 50, "the others are in statistics and in what only pandas reads"
    assert all(str(path) in message for message in values)
    pd.read_parquet(io.BytesIO(sound)).to_parquet(path)
    check_error(DataError, "damaged or changed: its values do not match its digest", read_frame, path)


def test_runs_that_differ_only_in_options_of_a_metric_are_in_their_order_whatever_ended_first(tmp_path):
    for second, number in enumerate((100, 20, 5)):
        lines = [result("model", "m", {"m": 1.0}, options=f"|k:{number}")]
        created = f"2027-01-01T00:00:0{second}+00:00"
        write_run(tmp_path, "greedy", 0, results=lines, created=created, experiment=f"e{number}")
    assert [run.results[0].signature.split("|")[2] for run in read_results([tmp_path]).runs] == ["k:5", "k:20", "k:100"]


# Records --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", ["model", "decoder.amateur"])
def test_the_same_model_at_another_path_is_one_system(tmp_path, axis):
    """The copy is another seed of the same system; other content is another system."""
    for seed, path in enumerate(("/data/tiny", "/home/me/tiny", "/other/tiny")):
        paths = {"model": "tiny", "model.path": path} if axis == "model" else {axis: {"dtype": "float32", "path": path}}
        write(tmp_path, seed=seed, axes={**paths, f"{axis}.digest": ("b" if seed == 2 else "a") * 12})
    assert sorted(item.seeds for item in read_models(tmp_path)) == [1, 2]


RUN = RunRecord(
    created="2026-01-02T03:04:05+00:00", spec={}, axes={}, git={"commit": "1a2b3c4d5e6f", "dirty": False},
    packages={"torch": "2.13.0", "numpy": "2.4.6"}, hardware={"accelerator": None, "processor": "Ours"}, results=(),
)  # fmt: skip
OTHER = {"packages": {"torch": "2.1.0", "faiss-cpu": None}}


@cases(
    "provenance, remark",
    ({}, None),
    ({"read": {"device": "cpu"}}, None),
    ({"read": {"git": {"dirty": True}}}, None),
    (
        {"tokens": OTHER, "read": OTHER},
        "tokens, read; computed with torch 2.1.0 (now 2.13.0), faiss-cpu absent (now absent)",
    ),
    (
        {"generate": {"git": {"commit": "c0ffeec0ffee"}, "hardware": {"processor": "Theirs"}}},
        "generate; computed with code c0ffeec (now 1a2b3c4), processor Theirs (now Ours)",
    ),
)
def test_versions_code_and_processor_of_reused_artifacts_are_told_by_stage(provenance, remark):
    inputs = [RunInput(f"{s}/ab/{r}", r, "", {}, of) for s, of in provenance.items() for r in ("human", "model")]
    remarks = describe_reused_artifacts(replace(RUN, inputs=(*inputs, RunInput("human/ab/x", "human", ""))))
    assert [*map(str, remarks)] == ([f"cached, not computed by this run: {remark}"] if remark else [])


@pytest.mark.parametrize(
    ("other", "seconds"),
    [(None, 8.0), ({"served": {"version": "1"}}, 8.0), ({"reused_tokens": 4}, math.nan), ({"device": "cpu"}, math.nan)],
)
def test_the_time_of_texts_that_were_made_before_is_not_known(other, seconds, tmp_path):
    folder = write(tmp_path)
    texts = RunInput("generate/ab/x", "model", "docs-s nucleus", {}, other)
    change_record(folder, timings={"generate": 8.0}, inputs=[texts])
    np.testing.assert_equal(read_run(folder / "record.json").seconds, seconds)


def test_an_accelerator_is_compared_where_both_are_known():
    one, none = ({"hardware": {"accelerator": name, "cores": 2}} for name in ("H200", None))
    assert compare_environments(one, none) == compare_environments(none, one) == {}
    other = {"hardware": {"accelerator": "A100", "cores": 2}}
    assert compare_environments(one, other) == {"hardware": {"accelerator": "H200"}}


def test_the_table_of_a_run_that_reuses_says_so(tmp_path, monkeypatch):
    from openended.harness.models.spec import list_bundled_models
    from openended.harness.report.build import build_report
    from openended.harness.run.pipeline import run
    from openended.harness.run.session import Session
    from openended.harness.storage import store as store_module
    from openended.harness.storage.record import read_record
    from openended.harness.storage.store import Store
    from tests.harness.run.small import settings

    if "docs-s" not in list_bundled_models():
        pytest.skip("the bundled model is not there")
    environment = store_module.describe_environment()
    environment = {**environment, "packages": {**environment["packages"], "torch": "0.1"}}
    monkeypatch.setattr(store_module, "describe_environment", lambda: environment)
    run(settings(tmp_path, "metric=[distinct_n]"), Session(Store(tmp_path / "out/store")))
    monkeypatch.undo()
    folder = run(settings(tmp_path, "metric=[zipf]"), Session(Store(tmp_path / "out/store"))).folder
    record = read_record(folder)
    assert find_input(record.inputs, "model", "generate").provenance["packages"] == {"torch": "0.1"}
    report = build_report([folder], tmp_path / "report", figures=False)
    text = f"examples, human, generate; computed with torch 0.1 (now {record.packages['torch']})"
    assert [text in remark for remark in report.tables[0].list_notes("remark")].count(True) == 1
    for name in ("report.html", "tables/full.md"):
        assert text in (tmp_path / "report" / name).read_text(encoding="utf-8")


# Values and labels ----------------------------------------------------------------------------------------------------


def test_seeds_are_folded_with_the_sample_standard_deviation(tmp_path):
    for seed, value in enumerate((1.0, 2.0, 4.0)):
        write(tmp_path, seed=seed, value=value)
    (item,) = read_models(tmp_path)
    assert item.mean == pytest.approx(7 / 3, abs=1e-12)
    # deviations -4/3, -1/3, 5/3; squares 16/9 + 1/9 + 25/9 = 42/9; over n - 1 = 2: 7/3
    assert item.sd == pytest.approx(math.sqrt(7 / 3), abs=1e-12)


def test_a_null_value_is_nan_and_an_undefined_result_has_a_row(tmp_path):
    missing = {"primary": "q", "status": "undefined", "notes": ["no Q"]}
    lines = [result("model", "m", {"m": None}, notes=["too few"]), result("model", "q", {}, **missing)]
    write_run(tmp_path, "beam", None, results=lines)
    items = {i.key: i for i in read_results([tmp_path]).values}
    assert math.isnan(items["m"].mean)
    assert items["m"].reason == "too few"
    assert (items["q"].reason, items["q"].seeds) == ("no Q", 0)


MIN = {"axes": {"min_new_tokens": 0}}


@cases(
    "runs, labels",
    ([("greedy", {}), ("nucleus", {})], ["greedy", "nucleus p=0.95"]),
    ([("greedy", {"length": 32}), ("greedy", {"length": 96})], ["greedy, length=32", "greedy, length=96"]),
    # titles that are alike are told apart by a decoder option
    ([("top_k", {"options": {"k": k}, "title": "top-k"}) for k in (5, 40)], ["top-k (k=40)", "top-k (k=5)"]),
    ([("greedy", {"model": "docs-s"}), ("greedy", {"model": "docs-m"})], ["docs-m greedy", "docs-s greedy"]),
    # an option that all who have it share is not said
    ([("greedy", MIN), ("nucleus", MIN), ("top_k", {})], ["greedy", "nucleus p=0.95", "top-k k=40"]),
)
def test_labels_are_short_and_no_two_alike(tmp_path, runs, labels):
    for decoder, more in runs:
        write(tmp_path, decoder, None, **more)
    assert sorted(label_systems(read_models(tmp_path))) == labels


def test_an_axis_that_columns_show_is_not_in_a_label_and_the_human_side_is_named_by_its_data(tmp_path):
    for length in (32, 96):
        write(tmp_path, "greedy", None, length=length)
    items = read_results([tmp_path]).values
    assert find_varying_axes(items) == ["max_new_tokens"]
    assert label_systems(read_models(tmp_path), skip=["max_new_tokens"]) == ["greedy", "greedy"]
    human = next(i for i in items if i.system == "human" and i.axes["max_new_tokens"] == "96")
    label = label_system(human, ["task", "model", "max_new_tokens"], several_models=True)
    assert label == "human, task=docs, length=96"


OPTIONS = {"title": "Mine", "differing": "columns", "metrics": ["m"], "where": {}}


@pytest.fixture
def outputs(tmp_path):
    """Two runs of a name; the last grid over them shows two signatures in two columns."""
    out = tmp_path / "outputs"
    for k, decoder in ((4, "greedy"), (5, "nucleus")):
        line = result("model", "m", {"m": 1.0}, options=f"|k:{k}")
        write_run(out, decoder, 0, results=[line], experiment="mine")
    folders = sorted(str(p.parent.relative_to(tmp_path)) for p in out.rglob("record.json"))
    for time, options in (("20260101T000000", {"title": "Old"}), ("20260102T000000", OPTIONS)):
        grid = out / "grids/mine" / time
        write_json(grid / "grid.json", {"name": "mine", "total": 1, "reports": {"mine": options}})
        write_json(grid / "jobs/00000.json", {"job": "a", "state": "done", "seconds": 1.0, "folder": folders[0]})
    return out


def test_a_name_has_all_its_runs_and_the_options_of_its_last_grid(outputs):
    for word in ("mine", str(outputs / "runs/mine")):
        found = resolve_report_request([word], outputs)
        assert (found.name, found.options) == ("mine", OPTIONS)
        assert [p.resolve() for p in found.paths] == [outputs / "runs/mine"]


def test_a_grid_has_its_own_runs(outputs, tmp_path):
    found = resolve_report_request([str(outputs / "grids/mine/20260101T000000")], outputs)
    assert found.options == {"title": "Old"}
    assert len(found.paths) == 1
    assert resolve_report_request(["20260102T000000"], outputs).options == OPTIONS
    moved = tmp_path / "moved"
    outputs.rename(moved)
    assert all(path.is_dir() for path in read_grids(moved)[0].runs())


def test_an_archive_is_named_where_no_run_of_this_machine_is_and_its_layout_is_its_own(outputs, tmp_path):
    for archive, name in (("a", "mine"), ("a", "theirs"), ("b", "theirs"), ("b", "other")):
        write_run(outputs / "imported" / archive, "greedy", 0, experiment=name)
    grid = outputs / "imported/a/grids/mine/20270101T000000"
    write_json(grid / "grid.json", {"name": "mine", "reports": {"mine": {"title": "Theirs"}}})
    own, (a, b) = outputs / "runs/mine", (outputs / f"imported/{name}/runs" for name in "ab")
    assert (resolve_report_request(["mine"], outputs).paths, resolve_report_request(["mine"], outputs).options) == (
        (own,), OPTIONS,
    )  # fmt: skip
    of_path = resolve_report_request([str(a / "mine")], outputs)
    assert (of_path.paths, of_path.options) == ((a / "mine",), {"title": "Theirs"})
    assert resolve_report_request(["a"], outputs).paths == (a,)
    assert resolve_report_request(["other"], outputs).paths == (b / "other",)
    both = resolve_report_request(["mine", str(a / "mine")], outputs)
    assert (both.paths, both.options) == ((own, a / "mine"), None)
    message = r"several archives have runs of this name; name one or more of .*a/runs/theirs"
    check_error(DataError, message, resolve_report_request, ["theirs"], outputs)
    with pytest.raises(DataError, match=r"no run folder or run name 'mone'; did you mean 'mine'\?$"):
        resolve_report_request(["mone"], outputs)


def test_a_grid_reads_runs_below_runs_alone(outputs, tmp_path):
    write_run(tmp_path / "elsewhere", "greedy", 0)
    outside = next((tmp_path / "elsewhere").rglob("record.json")).parent
    grid, done = outputs / "grids/mine/20270101T000000", {"state": "done", "seconds": 1.0}
    write_json(grid / "grid.json", {"name": "mine", "total": 2})
    write_json(grid / "jobs/00000.json", {**done, "folder": str(outputs / "runs/.." / "../elsewhere")})
    write_json(grid / "jobs/00001.json", {**done, "folder": str(outside)})
    assert [path.parent.parent.parent for path in resolve_report_request([str(grid)], outputs).paths] == [outputs]


def test_lost_records_of_a_grid_are_named_until_their_runs_are_written_again(outputs, capsys):
    lost, other = sorted(p.parent for p in outputs.rglob("record.json"))
    shutil.rmtree(lost)
    for words in (["mine"], [str(outputs / "runs")], [str(outputs / "runs/mine"), str(other)]):
        results = read_results(resolve_report_request(words, outputs).paths)
        assert (len(results.runs), [*results.left_out]) == (1, [str(lost)])
        left = f"Left out: 1 run whose record is lost or damaged ({lost.name}); the same command writes them again."
        assert results.remarks() == (left,)
    with pytest.raises(DataError, match=f"{lost.name}/record.json: no such file"):
        read_results(resolve_report_request(["20260101T000000"], outputs).paths)
    assert status.main(["--outputs", str(outputs)]) == 0
    output = capsys.readouterr().out
    assert output.count("0 of 1 done, 1 lost") == 2
    assert output.count(f"lost: {lost}/record.json is missing") == 2
    again = lost.with_name(f"20270101T000000-{lost.name[-8:]}")
    shutil.copytree(other, again)
    assert not read_results(resolve_report_request(["mine"], outputs).paths).left_out
    assert read_grids(outputs)[0].runs() == [again]


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"total": 4'])
def test_a_damaged_bookkeeping_file_is_left_aside_with_a_warning(content, outputs, caplog, capsys):
    grid = outputs / "grids/mine/20260102T000000"
    for name in ("grid.json", "decisions.json"):
        (grid / name).write_text(content)
    found = resolve_report_request(["mine"], outputs)
    assert found.options == {"title": "Old"}
    assert f"{grid}/grid.json: damaged, left aside" in caplog.text
    assert read_decision_plan(grid) is None
    assert caplog.text.count("damaged, left aside") == 2
    assert [p.name for p in resolve_report_request([str(grid)], outputs).paths] == [read_grid(grid).runs()[0].name]
    assert status.main(["--outputs", str(outputs)]) == 0
    assert "1 of ? done" in capsys.readouterr().out


def test_a_word_that_is_nothing_names_what_there_is(outputs):
    with pytest.raises(DataError, match="no run folder or run name 'mone'; did you mean 'mine'"):
        resolve_report_request(["mone"], outputs)
    assert read_grid(outputs) is None


def test_an_end_of_several_names_is_refused(tmp_path):
    for decoder in ("greedy", "nucleus"):
        write_run(tmp_path, decoder, 0)
    check_error(DataError, "2 runs end with ''", find_run, "", tmp_path)
    (tmp_path / "texts.jsonl").write_text("{}\n")
    check_error(DataError, r"openended score .*texts\.jsonl --human FILE", find_records, [tmp_path / "texts.jsonl"])
    (folder,) = (tmp_path / "runs").iterdir()
    asked = resolve_report_request([str(folder)], tmp_path)
    assert (asked.paths, asked.options) == ((folder,), None), "of no grid"


def test_a_value_rests_on_the_prompts_of_its_smaller_side(tmp_path):
    for decoder, sizes in (("greedy", "100/40"), ("nucleus", "80")):
        line = result("model", "m", {"m": 1.0}) | {"signature": f"m|v:1|n:{sizes}"}
        write_run(tmp_path, decoder, 0, results=[line], axes={"samples": 4})
    assert sorted(map(count_prompts, read_results([tmp_path]).values)) == [20, 40]


def test_a_rebuilt_report_is_laid_out_as_the_grids(outputs, tmp_path, capsys):
    words = ["mine", "--outputs", str(outputs), "--no-figures", "--no-page"]
    assert main(words) == 0
    output = capsys.readouterr().out
    assert "Mine" in output
    assert "k=4" in output
    assert "k=5" in output
    assert (outputs / "reports/mine/tables/results.md").is_file()
    assert main([*words, "--layout", "full"]) == 2
    refused = capsys.readouterr().err
    assert "keep one of them: --where 'm.k=" in refused
    assert "the runs that differ: " in refused
    assert main([*words, "--layout", "full", "--where", "m.k=4"]) == 0
    assert (outputs / "reports/mine/tables/results.md").is_file(), "another layout is written next to it"
    assert (outputs / "reports/mine/layouts/full/tables/full.md").is_file()
    assert main([*words, "--compare", "mauve2021/table3"]) == 0
    assert (outputs / "reports/mine/layouts/compare/tables/compare-mauve2021-table3.md").is_file()
    assert main([*words, "--where", "m.j=4"]) == 2
    assert "no option 'j' of m" in capsys.readouterr().err
    assert main([str(outputs / "reports/mine")]) == 2
    assert "it is a report, whose runs are read by openended report" in capsys.readouterr().err
