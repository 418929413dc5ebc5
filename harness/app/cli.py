"""`openended`, and how each of our commands that Hydra configures is started."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable
from importlib import resources
from typing import Any

from openended.harness.core import terminal

_COMMANDS = "openended.harness.app.commands"
_TRUST = "--trust-config"


def main() -> None:
    """Run `openended` with the process's arguments: a command by its name, else a run or a grid.

    Raises:
        SystemExit: With one of `exitcodes`, unless all went well.
    """
    words = sys.argv[1:]
    named = next((i for i, word in enumerate(words) if not word.startswith("-")), None)  # `-v score …` is one too
    if named is not None and words[named] in commands():
        module = importlib.import_module(f"{_COMMANDS}.{commands()[words.pop(named)]}")
        raise SystemExit(module.main(words))
    if "--version" in words:
        from openended import __version__

        sys.stdout.write(f"openended {__version__}\n")
        return
    if {"--help", "-h"} & set(words):
        sys.stdout.write(help_text())
        return
    from openended.harness.app.hydra.job import Job

    start("openended", "config", Job())


def start(command: str, config: str, job: Callable[[Any], None]) -> None:
    """Compose a configuration from the process's arguments and run what it configures.

    Args:
        command: Name of the command.
        config: Name of its root in `conf/`.
        job: What Hydra calls with the composed configuration.

    Raises:
        SystemExit: With one of `exitcodes`, unless all went well.
    """
    # Hydra would print its own report of several lines and leave with 1; ours is one line.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    terminal.start()
    words = sys.argv[1:]
    import hydra

    from openended.harness.app.hydra import trust
    from openended.harness.app.hydra.command_line import hide_shared_files, hydra_words
    from openended.harness.app.hydra.show import leave_with_code

    os.environ[trust.TRUST] = str(int(_TRUST in words))
    trust.guard()
    hide_shared_files()

    def work() -> None:
        sys.argv[1:] = hydra_words([word for word in words if word != _TRUST])
        hydra.main(version_base="1.3", config_path="pkg://openended.conf", config_name=config)(job)()

    leave_with_code(command, work)


def commands() -> dict[str, str]:
    """Return command → its module; `import` is a word of Python, so its module has another name."""
    found = pkgutil.iter_modules(importlib.import_module(_COMMANDS).__path__)
    names = sorted(module.name for module in found if not module.name.startswith("_"))
    return {name.removesuffix("_"): name for name in names}


def help_text() -> str:
    """Return what `openended --help` prints: commands, options, and the choices of every group."""
    from openended.harness.core.catalogue import GROUPS, choices, options

    out = ["openended: a benchmark harness for open-ended text generation", "", *_EXAMPLES, "", "Commands:"]
    # Read, not imported: help must be quick.
    folder = resources.files(_COMMANDS)
    for name in commands().values():
        said = ast.get_docstring(ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))) or ""
        out.append(f"  {said.splitlines()[0] if said else name}")
    out += [
        "  `openended-report NAME|GRID_FOLDER|RUNS…`: tables, figures and a page from finished runs.",
        "  `openended-rate make|collect|serve|judge …`: forms for raters from finished runs, and their judgments.",
        "",
    ]
    out += [
        "Flags: -m (a grid), -v (every step), -q (only what went wrong), --json (a plan for programs), --version,",
        "       --trust-config (a configuration may name classes that are not ours)",
        "",
    ]
    out += ["Options (option=value) and their defaults:", *(f"  {line}" for line in options())]
    for group in GROUPS:
        wide = max(map(len, choices(group)), default=0)
        listed = "metric=[a,b]" if group == "metric" else f"{group}=…"
        out += ["", f"{listed}", *(f"  {name:{wide}}  {line}".rstrip() for name, line in choices(group).items())]
    return "\n".join([*out, ""])


_EXAMPLES = (
    "  One run:   openended task=docs decoder=nucleus decoder.p=0.9 seed=1",
    "  A grid:    openended -m name=first decoder=greedy,nucleus seed=0,1,2",
    "  A paper's: openended experiment=quickstart",
    "  Plan only: openended experiment=quickstart plan_only=true",
    "  Report:    openended-report quickstart",
)

if __name__ == "__main__":
    main()
