"""The completion script, in a real bash."""

import shutil
import subprocess
import sys

import pytest

from openended.harness.app.commands import completion

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


@pytest.fixture(scope="module")
def script():
    return completion.write_script("bash")


def complete(script, *words):
    """Return what a Tab after these words offers."""
    typed = " ".join(words)
    quoted = " ".join(f"'{word}'" for word in words)
    lines = [
        f'openended() {{ "{sys.executable}" -m openended.harness "$@"; }}',
        script,
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMP_LINE='{typed}'; COMP_POINT={len(typed)}",
        '_openended; printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120, check=False)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("report", "--lay"), "--layout"),
        (("score", "a.jsonl", "--hum"), "--human"),
        (("export", "name", "--no"), "--no-store"),
        (("import", "--tr"), "--trust"),
        (("status", "--out"), "--outputs"),
        (("store", "--un"), "--unnamed"),
        (("show", "--te"), "--texts"),
        (("list", "--he"), "--help"),
        (("describe", "--he"), "--help"),
        (("rate", "ma"), "make"),
        (("rate", "make", "--proto"), "--protocol"),
        (("rate", "serve", "--po"), "--port"),
        (("finetune", "epo"), "epochs="),
        (("completion", "ba"), "bash"),
    ],
)
def test_flags_of_every_command_are_offered(script, words, offered):
    assert offered in complete(script, "openended", *words)


@pytest.mark.slow
def test_commands_and_options_are_offered(script):
    assert "report" in complete(script, "openended", "rep")
    assert complete(script, "openended", "seed=1", "decoder=nucl") == ["decoder=nucleus"]
