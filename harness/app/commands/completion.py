"""`openended completion bash|zsh`: a script for your shell that completes commands, flags and options."""

import contextlib
import importlib
import io
import re
import sys
from collections.abc import Callable, Sequence
from importlib.resources import files

from openended.harness.core import GROUPS, argument, list_names, list_options, make_main

_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"
_SCRIPT = """\
# Completion of openended. Add to your shell's start file: eval "$(openended completion {shell})"
{setup}_openended() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} option=${{COMP_WORDS[COMP_CWORD-1]}} words=  # words are split at =
  [[ $option == = ]] && option="${{COMP_WORDS[COMP_CWORD-2]}}="
  [[ $word == = ]] && option="$option=" word=
  case "$option ${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [[ ${{#COMPREPLY[@]}} == 0 ]] && COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o nospace -o filenames -F _openended openended
"""


SHELLS = ("bash", "zsh")
_EXAMPLE = "openended completion bash"
_ARGUMENTS = {"shell": argument(f'for this shell: eval "$({_EXAMPLE})"', choices=SHELLS)}


def write_script(shell: str) -> str:
    """Return the completion script of a shell, with the flags that each command's `--help` lists."""
    from openended.harness.app.cli import list_commands

    words = {f"{group}= ": list_names(group) for group in GROUPS}
    for name, module in list_commands().items():
        if name == "finetune":  # Hydra reads its options, from a configuration of its own
            root = (files("openended.conf") / "finetune.yaml").read_text(encoding="utf-8")
            options = [*re.findall(r"^(?!hydra|defaults)(\w+):", root, re.MULTILINE), "task", "model"]
            words[f" {name} "] = [f"{option}=" for option in options]
            continue
        command = importlib.import_module(module)
        run, subcommands = command.main, getattr(command, "COMMANDS", SHELLS if name == "completion" else ())
        if name == "rate":
            words |= {f" {name} {sub}": _list_flags(run, sub) for sub in subcommands}
        words[f" {name} "] = [*subcommands, *_list_flags(run)]
    options = [f"{group}=" for group in GROUPS] + [f"{option}=" for option in list_options()]
    words[""] = [*options, *list_commands()]
    cases = [f'    *"{pattern}"*) words="{" ".join(listed)}" ;;' for pattern, listed in words.items()]
    return _SCRIPT.format(shell=shell, setup=_ZSH if shell == "zsh" else "", cases="\n".join(cases))


def _list_flags(run: Callable[[Sequence[str]], int], *words: str) -> list[str]:
    """Return the flags of a command, as its help prints them."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        run([*words, "--help"])
    return sorted(set(_FLAG.findall(out.getvalue())))


main = make_main(
    "completion", __doc__, _ARGUMENTS, lambda args: sys.stdout.write(write_script(args.shell)), example=_EXAMPLE
)
