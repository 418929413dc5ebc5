"""The worked example of a plug-in package, installed beside the others as any package is."""

import shutil
import subprocess
import sys

import pytest

import openended as oe
from openended.harness.core import registry
from tests.docs.commands import PLUGIN, read_commands
from tests.harness.app.test_api import HUMAN, NUCLEUS
from tests.helpers import ROOT, openended, read_records, write_jsonl

EXAMPLE = ROOT / "docs/examples/plugin"
NAMES = {"metric": "avg_word_len", "decoder": "lower_p", "task": "poems"}
BROKEN = """
from dataclasses import dataclass
from typing import ClassVar
from openended_example.avg_word_len import AvgWordLen

@dataclass(frozen=True, kw_only=True)
class Raises(AvgWordLen):
    name: ClassVar[str] = "raises"

    def prepare(self, features):
        raise KeyError("of the plug-in")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Where pip has put the package; no index is asked."""
    target, source = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("source") / "plugin"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    words = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(target), str(source)]
    subprocess.run([sys.executable, "-m", "pip", "install", *words], check=True, capture_output=True, timeout=240)
    broken = target / "broken-1.dist-info"
    broken.mkdir()
    (target / "raising.py").write_text(BROKEN)
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    points = "raises = raising:Raises\ngone = no_such_module:Gone\n"
    (broken / "entry_points.txt").write_text(f"[openended.metrics]\n{points}")
    return target


@pytest.fixture
def plugin(installed, monkeypatch):
    """The package can be seen, in this test alone."""
    monkeypatch.syspath_prepend(str(installed))

    def forget():
        registry.load_plugin.cache_clear()
        registry.list_plugins.cache_clear()
        registry._read_entry_points.cache_clear()

    forget()
    yield installed
    forget()
    for members in registry._members.values():
        for name, cls in list(members.items()):
            if cls.__module__.startswith(("openended_example", "raising")):
                del members[name]
    for name in [name for name in sys.modules if name.startswith(("openended_example", "raising"))]:
        del sys.modules[name]


def test_its_names_and_options_work_with_and_without_a_yaml(plugin, tmp_path):
    assert not (EXAMPLE / "openended_example/conf/metric").exists()  # the defaults of the dataclass
    done = openended(
        "task=poems", "task.words=2", "decoder=lower_p", "decoder.by=0.5", "metric=[avg_word_len,distinct_n]",
        "metric.avg_word_len.letters_only=true", "num_examples=4", "max_new_tokens=6", cwd=tmp_path, code=0
    )  # fmt: skip
    assert "Word length" in done.stdout
    assert "lower_p p=0.9 by=0.5" in done.stdout
    (found,) = read_records(tmp_path / "outputs/runs")
    assert found["axes"]["task.words"] == 2
    signatures = {row["metric"]: row["signature"] for row in found["results"]}
    assert "|letters_only:yes|" in signatures["avg_word_len"]


def test_its_mistakes_are_told_as_ours_are(plugin, tmp_path):
    done = openended("task=poems", "decoder=lower_p", "decoder.by=2", cwd=tmp_path, code=2)
    assert "lower_p.by: expected 0 or more, less than p, got 2" in done.stderr
    done = openended("task=poem", cwd=tmp_path)
    assert "did you mean 'poems'" in done.stderr


def test_from_python(plugin, tmp_path):
    found = oe.evaluate(human=HUMAN, systems={"x": NUCLEUS}, metrics=["avg_word_len"], outputs_dir=tmp_path)
    words = " ".join(NUCLEUS).split()
    assert found.values["x"]["avg_word_len"] == sum(map(len, words)) / len(words)


@pytest.mark.slow
@pytest.mark.parametrize("grid", [False, True])
def test_one_that_raises_is_a_note_the_others_stand_and_the_end_is_1(plugin, tmp_path, grid):
    words = ["task=poems", "metric=[raises,distinct_n]", "num_examples=4", "max_new_tokens=4"]
    words = ["-m", "decoder=greedy,lower_p", *words] if grid else ["decoder=greedy", *words]
    done = openended(*words, cwd=tmp_path, code=1)
    printed = " ".join(done.stdout.split())
    assert "No column, for lack of values: raises: failed with KeyError: 'of the plug-in'" in printed
    assert "metric raises" in done.stderr
    line = BROKEN[: BROKEN.index("raise KeyError")].count("\n") + 1
    assert f"failed with KeyError: 'of the plug-in' (raising.py, line {line})" in done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.strip().startswith(("greedy", "lower_p"))]
    assert len(rows) == 1 + grid
    for row in rows:
        assert any(cell.startswith(("0.", "1.")) for cell in row)


def test_they_are_listed_and_described(plugin, tmp_path):
    helped = openended("--help", cwd=tmp_path)
    for group, name in NAMES.items():
        assert name in registry.load_members(group)
        assert name in helped.stdout
    listed = openended("list", "decoders", cwd=tmp_path, verbose=False).stdout
    assert "(from the package openended-example)" in next(line for line in listed.splitlines() if "lower_p" in line)
    for name, part in (("avg_word_len", "letters_only: false"), ("lower_p", "by: "), ("poems", "words: ")):
        done = openended("describe", name, cwd=tmp_path, verbose=False, code=0)
        assert part in done.stdout


def test_one_that_cannot_be_imported_is_named_with_its_error(plugin, tmp_path):
    why = "ModuleNotFoundError: No module named 'no_such_module' (package broken)"
    for words in ("metric=[gone]", "describe gone", "score x.jsonl --human x.jsonl --metrics gone"):
        (tmp_path / "x.jsonl").write_text('{"text": "a b c"}\n')
        done = openended(*words.split(), cwd=tmp_path, verbose=False, code=2)
        assert f"metric 'gone' is a plug-in that cannot be used: {why}" in done.stderr


@pytest.mark.slow
def test_the_commands_of_its_readme_run(plugin, tmp_path):
    write_jsonl(tmp_path / "mine.jsonl", [{"text": "a few words"}, {"text": "and more words"}])
    (tmp_path / "poems.txt").write_text("a line\nanother line\n")
    commands = read_commands(PLUGIN)
    assert len(commands) == 2
    for words in commands:
        openended(*words, cwd=tmp_path, verbose=False, code=0)
