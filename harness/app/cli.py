"""The command line `openended`: finds the command, and starts those that Hydra configures."""

import ast
import atexit
import gc
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path

from openended.harness import core
from openended.harness.core import BAD_INPUT, CRASHED, INTERRUPTED, MEMORY_RAN_OUT, print_error


def main() -> None:
    """Run `openended` with the process's arguments: a command by its name, else a run or a grid.

    Raises:
        SystemExit: With an exit code, unless all went well.
    """
    # Cycles are few and small: looking for them after every 700 new objects and at the end took a fifth of a command.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    try:
        _run(sys.argv[1:])
    except KeyboardInterrupt:  # before the command itself, which says what it leaves behind
        sys.stderr.write("\n")
        print_error("openended", "interrupted")
        raise SystemExit(INTERRUPTED) from None
    except MemoryError:
        print_error("openended", MEMORY_RAN_OUT)
        raise SystemExit(CRASHED) from None
    except Exception:  # a code of its own: 1 says that a job or a check failed
        traceback.print_exc()
        raise SystemExit(CRASHED) from None


def _run(words: list[str]) -> None:
    position = next((i for i, word in enumerate(words) if not word.startswith("-")), None)  # `-v score …` is one too
    if position is not None and words[position] in list_commands():
        command = core.load_entry("command", words.pop(position))
        raise SystemExit(command(words))
    if "--version" in words:
        sys.stdout.write(f"openended {core.get_version()}\n")
        return
    if {"--help", "-h"} & set(words):
        sys.stdout.write(format_help())
        return
    word = words[position] if position is not None else "="
    if "=" not in word and (hint := core.explain_foreign_command(word, list_commands())):
        print_error("openended", f"no command {word!r}; {hint}")
        raise SystemExit(BAD_INPUT)
    from openended.harness.app.hydra.run_command import run_hydra, run_options

    run_hydra("openended", words, run_options)


def list_commands() -> dict[str, str]:
    """Return command → module; of those of plug-ins too."""
    return {name: point.module for name, point in core.list_entries("command").items()}


def format_help() -> str:
    """Return what `openended --help` prints: commands, options, and the choices of every group."""
    out = ["openended: a benchmark harness for open-ended text generation", "", *_EXAMPLES, "", "Commands:"]
    # The source is read, not imported, so that help is fast.
    for name, module in list_commands().items():
        spec = find_spec(module)
        source = Path(str(spec.origin)).read_text(encoding="utf-8") if spec is not None else ""
        docstring = ast.get_docstring(ast.parse(source)) or ""
        out.append(f"  {docstring.splitlines()[0] if docstring else name}")
    out += [
        "",
        "Flags: -m (a grid), -v (every step), -q (only what went wrong), --json (a plan for programs), --version,",
        "       --config-dir DIR (your own choices), --trust-config (its files may set any option), --cfg job (print)",
        "",
    ]
    out += ["Options (option=value) and their defaults:", *(f"  {line}" for line in core.list_options().values())]
    for group in core.GROUPS:
        choices = core.list_choices(group)
        wide = max(map(len, choices), default=0)
        listed = "metric=[a,b]" if group == "metric" else f"{group}=…"
        out += ["", f"{listed}", *(f"  {name:{wide}}  {line}".rstrip() for name, line in choices.items())]
    return "\n".join([*out, ""])


_EXAMPLES = (
    "  One run:   openended task=docs decoder=nucleus decoder.p=0.9 seed=1",
    "  A grid:    openended -m name=first decoder=greedy,nucleus seed=0,1,2",
    "  Decide:    openended -m decoder=greedy,nucleus num_examples=1000 decide='nucleus>greedy: mauve'",
    "  A paper's: openended experiment=quickstart",
    "  Plan only: openended experiment=quickstart plan_only=true",
    "  Report:    openended report quickstart",
)

if __name__ == "__main__":
    main()
