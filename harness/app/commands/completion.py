"""`openended completion bash|zsh`: a script for your shell that completes commands, flags and options."""

import contextlib
import importlib
import io
import re
import sys
from collections.abc import Callable, Sequence
from importlib.resources import files

from openended.harness.core import make_main

_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"
_SCRIPT = """\
# Completion of openended. Add to your shell's start file: eval "$(openended completion {shell})"
{setup}_openended() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words=
  case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
{cases}
    *)
      [[ $COMP_CWORD == 1 ]] && words="{commands}"
      words="$words $(COMP_POINT=$COMP_POINT COMP_LINE=$COMP_LINE openended -sc query=bash 2>/dev/null)" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [[ ${{#COMPREPLY[@]}} == 0 ]] && COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o nospace -o filenames -F _openended openended
"""


_ARGUMENTS = {"shell": {"choices": ("bash", "zsh"), "help": 'for this shell: eval "$(openended completion bash)"'}}


def write_script(shell: str) -> str:
    """Return the completion script of a shell, with the flags that each command's `--help` lists."""
    from openended.harness.app.cli import list_commands

    cases = []
    for name, module in list_commands().items():
        if name == "finetune":  # Hydra reads its options, from a configuration of its own
            root = (files("openended.conf") / "finetune.yaml").read_text(encoding="utf-8")
            options = [*re.findall(r"^(?!hydra|defaults)(\w+):", root, re.MULTILINE), "task", "model"]
            cases.append(f'    "{name} "*) words="{" ".join(f"{option}=" for option in options)}" ;;')
            continue
        command = importlib.import_module(module)
        run, subcommands = command.main, tuple(getattr(command, "COMMANDS", ()))
        cases += [f'    "{name} {sub}"*) words="{_list_flags(run, sub)}" ;;' for sub in subcommands]
        more = " ".join(subcommands) if subcommands else "bash zsh" if name == "completion" else ""
        cases.append(f'    "{name} "*) words="{f"{more} {_list_flags(run)}".strip()}" ;;')
    setup = _ZSH if shell == "zsh" else ""
    return _SCRIPT.format(shell=shell, setup=setup, cases="\n".join(cases), commands=" ".join(list_commands()))


def _list_flags(run: Callable[[Sequence[str]], int], *words: str) -> str:
    """Return the flags of a command, separated by blanks."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        run([*words, "--help"])
    return " ".join(sorted(set(_FLAG.findall(out.getvalue()))))


main = make_main(
    "completion", __doc__, _ARGUMENTS, lambda args: sys.stdout.write(write_script(args.shell)),
    example="openended completion bash",
)  # fmt: skip
