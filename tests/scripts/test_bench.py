import subprocess

import pytest

from scripts import bench
from tests.helpers import ROOT


def work(**fields):
    return bench.Benchmark(**({"name": "w", "harness": len} | fields))


def timing(seconds, result=None):
    return {"seconds": seconds, "peak": 10 << 20, "result": result or {"x": 1.0}, "versions": {}}


def test_a_row_says_ratio_memory_and_agreement():
    line = bench.format_row(
        work(name="sum", against="peer", at_least=3, agree=bench.format_max_gap, peer=len, peer_share=0.1),
        {"harness": timing(0.5), "peer": timing(5.0, {"x": 1.25})},
    )
    assert line == "| sum | peer | 500 ms | 5,000 ms (extrapolated) | 10.0× | 3× | 10 MiB / 10 MiB | ≤ 2e-01 |"


def test_a_peer_that_is_missing_is_skipped_with_the_reason(monkeypatch):
    monkeypatch.setattr(bench, "launch", lambda *_: {"seconds": 2.0, "peak": 1 << 20, "result": 1, "versions": {}})
    work_with_peer = work(peer=len, peer_imports=("no_such_module_here",))
    sides = bench.measure("text", work_with_peer, 3)
    assert "skipped: no_such_module_here is not installed" in bench.format_row(work_with_peer, sides)
    assert sides["harness"]["seconds"] == 2.0


def test_medians_of_the_repeats_over_the_share_of_the_work(monkeypatch):
    times = iter([3.0, 2.0, 1.0, 6.0, 2.0, 4.0])
    monkeypatch.setattr(bench, "launch", lambda *_: {"seconds": next(times), "peak": 0, "result": 1, "versions": {}})
    sides = bench.measure("text", work(peer=len, peer_share=0.5), 3)
    assert (sides["harness"]["seconds"], sides["peer"]["seconds"]) == (2.0, 8.0)


def test_a_side_that_fails_is_not_run_again(monkeypatch):
    sides = []
    monkeypatch.setattr(bench, "launch", lambda area, work, side: sides.append(side) or {"skipped": "killed"})
    assert bench.measure("text", work(peer=len), 3) == {side: {"skipped": "killed"} for side in ("harness", "peer")}
    assert sides == ["harness", "peer"]


def test_the_page_keeps_other_areas_and_works_not_run_now(tmp_path):
    page = tmp_path / "docs" / "benchmarks.md"
    one, two = work(name="one"), work(name="two")
    bench.write_section(page, "text", [one, two], {"one": "| one | old |", "two": "| two | old |"}, {"numpy": "2.0"})
    bench.write_section(page, "people", [one], {"one": "| one | other |"}, {})
    bench.write_section(page, "text", [one, two], {"two": "| two | new |"}, {"numpy": "2.1"})
    text = page.read_text(encoding="utf-8")
    assert text.count("| two |") == 1
    assert "| two | new |" in text
    assert "| one | old |" in text
    assert "| one | other |" in text
    assert text.index("## text") < text.index("## people")
    assert str(ROOT) not in text


def test_only_takes_a_whole_area_by_its_name():
    named = {"text": [work(name="a")], "people": [work(name="rated texts"), work(name="b")]}
    assert {area: [w.name for w in works] for area, works in bench.select_works(named, "text").items()} == {
        "text": ["a"]
    }
    assert [w.name for w in bench.select_works(named, "rated")["people"]] == ["rated texts"]
    assert list(bench.select_works(named, "")) == ["text", "people"]


def test_every_area_lists_works_with_names_of_their_own():
    for area in bench.AREAS:
        names = [listed.name for listed in bench.load_area(area)]
        assert len(set(names)) == len(names), area
        assert names or area == "engines"  # its rows need vLLM
        assert all("|" not in name for name in names)


@pytest.mark.long
def test_everything_for_a_gpu_runs_on_the_simulated_device(tmp_path):
    page = tmp_path / "gpu.md"
    subprocess.run(["bash", "scripts/gpu.sh", "--simulate", str(page)], cwd=ROOT, check=True)
    text = page.read_text()
    assert text.count("waits per step, on sim:0") == 4
    assert text.count("dependent on the batch, on sim:0") == 3
    assert "mauve, 500 + 500" in text
    assert "skipped" not in text.split("## two_sample")[0]  # mauve-text may be missing
