"""Commands of `openended`, declared as a table of arguments and the function that does the work, and their parser."""

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from openended.harness.core.choices import GROUPS, list_names, list_options
from openended.harness.core.errors import find_spelling
from openended.harness.core.terminal import BAD_INPUT, print_error, run_command

Arguments = Mapping[str, Mapping[str, Any]]
"""Name of an argument or flag → the options of `add_argument`, and `synonyms`: flags that others have for it."""


def argument(meaning: str, metavar: str | None = None, **options: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """Declare an argument by its help, what stands for its value, and other options of `add_argument`."""
    return {"help": meaning, **({"metavar": metavar} if metavar else {}), **options}


OUTPUTS: Arguments = {"--outputs": argument("default: outputs", "DIR", type=Path, default=Path("outputs"))}


def get_version() -> str:
    """Return the version of this package, whose root every module of it has imported."""
    return str(sys.modules["openended"].__version__)


_UNKNOWN = "unrecognized arguments: "  # how argparse begins its messages
_MISSING = "the following arguments are required: "
_ARGUMENT = re.compile(r"argument ([^:]+): (.*)", re.DOTALL)
_CHOICE = re.compile(r"invalid choice: ('[^']*') \(choose from (.*)\)")
_TYPE = re.compile(r"invalid (\w+) value: (.*)", re.DOTALL)
_TYPES = {"int": "a whole number", "float": "a number", "positive_int": "a whole number of 1 or more"}


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line on standard error and exit code 2.

    Args:
        example: A command line that works, printed where an argument is missing.
        **options: As for `argparse.ArgumentParser`.
    """

    def __init__(self, *, example: str = "", **options: Any) -> None:  # noqa: ANN401 - those of argparse
        super().__init__(**options)
        self.example = example
        self.synonyms: dict[str, tuple[str, ...]] = {}
        self.list_run_options: Callable[[], Sequence[str]] = tuple
        self.takes_run_options = False
        for name in (None, "store"):
            self.register("action", name, _StoreOnce)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - as in argparse
        """Check the flags, then parse: a misspelt flag is reported before what is missing because of it."""
        words = sys.argv[1:] if args is None else list(args)
        flags = words[: words.index("--")] if "--" in words else words
        for word, following in zip(flags, [*flags, "…"][1:], strict=True):
            flag, sign, value = word.partition("=")
            meant = [name for name, also in self.synonyms.items() if flag in also] or list(self._option_string_actions)
            if re.match(r"--\w|-[a-zA-Z]$", flag) and not any(name.startswith(flag) for name in meant):
                self.check_flag(flag, value if sign else following)
            if re.match(r"--\w", flag) and not (value if sign else following):
                self.error(f"argument {flag}: expected one argument")
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the error and how to get help, then exit with 2."""
        if message.startswith(_UNKNOWN):
            words = message.removeprefix(_UNKNOWN)
            self.check_flag(next((word.split("=")[0] for word in words.split() if word.startswith("-")), "--help"))
            choice = next((word for word in words.split() if any(word in list_names(group) for group in GROUPS)), "")
            hint = f"; openended describe {choice} says what it is" if choice else ""
            message = f"expected no further words, got {words}{hint}"
        elif message.startswith(_MISSING):
            example = f", as in {self.example}" if self.example else ""
            message = f"missing {message.removeprefix(_MISSING)}{example}"
        elif argument := _ARGUMENT.fullmatch(message):
            action = self._option_string_actions.get(argument[1].split("/")[0])
            value = _explain_value(argument[2])
            if argument[2] == "expected one argument" and action is not None:
                value = f"expected a value, as {argument[1]} {action.metavar or 'VALUE'}" + (
                    f": {action.help % vars(action)}" if action.help else ""
                )
            message = f"{argument[1]}: {value}"
        print_error(self.prog, f"{message}; see {self.prog} --help")
        raise SystemExit(BAD_INPUT)

    def check_flag(self, flag: str, value: str = "") -> None:
        """Exit with 2 if the command has no such flag: say by its meaning, else by its spelling, what to type."""
        from openended.harness.core.foreign_options import explain_foreign_option, find_foreign_option

        if flag in self._option_string_actions:
            return
        name = flag.lstrip("-").replace("-", "_")
        flags = {action.dest: action.option_strings[-1] for action in self._actions if action.option_strings}
        typed = find_foreign_option(name, flags)
        foreign = flags.get(typed.partition("=")[0]) if typed else None
        close = difflib.get_close_matches(flag, self._option_string_actions, n=1, cutoff=0.7)
        if re.fullmatch(r"-\w", flag):
            close = sorted((name for name in self._option_string_actions if name.startswith(f"-{flag}")), key=len)
        files = [a.dest for a in self._actions if not a.option_strings and "FILE" in str(a.metavar)]
        if spelling := find_spelling(flag, self._option_string_actions):
            hint = f"did you mean {spelling}?"
        elif files and name in GROUPS and Path(value).is_file():  # `score --model theirs.jsonl`
            hint = self._describe_argument(files[0])
        elif meant := next((name for name, also in self.synonyms.items() if flag in also), foreign):
            hint = self._describe_argument(meant)
        elif answer := explain_foreign_option(name, "", ()):
            hint = answer
        elif close:
            hint = f"did you mean {close[0]}?"
        elif name in self.list_run_options():
            of_run = f"{name} is an option of a run, which generates: openended {name}=…"
            hint = f"type {name}=…" if self.takes_run_options else of_run
        else:
            names = sorted({*flags.values()} - {"--help"})
            hint = f"it has {', '.join(names) or 'none'}" if len(names) <= 12 else f"it has {len(names)} others"
        self.error(f"no option {flag}; {hint}")

    def _describe_argument(self, name: str) -> str:
        """Say what to type for an argument, and what it is."""
        action = next(action for action in self._actions if name in (action.dest, *action.option_strings))
        words = " ".join(filter(None, [*action.option_strings[-1:], str(action.metavar or "")])) or action.dest
        meaning = f" ({action.help % vars(action)})" if action.help else ""
        is_flag = bool(action.option_strings)
        return f"did you mean {words}{meaning}?" if is_flag else f"{words} is typed without a flag{meaning}"


class _StoreOnce(argparse._StoreAction):
    """Stores the value of an argument, and refuses a flag that is given twice."""

    is_given = False

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:  # noqa: ANN401
        if option_string is not None and self.is_given:
            first = getattr(namespace, self.dest)
            raise argparse.ArgumentError(self, f"given twice, {first} and {values}; give it once")
        self.is_given = True
        super().__call__(parser, namespace, values, option_string)


def _explain_value(message: str) -> str:
    """Rewrite argparse's message about a value in the form of this project's messages."""
    if choice := _CHOICE.fullmatch(message):
        from openended.harness.core.foreign_options import explain_foreign_command

        accepted = choice[2].replace("'", "")
        close = difflib.get_close_matches(choice[1].strip("'"), accepted.split(", "), n=1)
        hint = f"did you mean {close[0]}?" if close else explain_foreign_command(choice[1].strip("'"), ())
        return f"expected one of {accepted}, got {choice[1]}" + (f"; {hint}" if hint else "")
    if unread := message.removeprefix("ignored explicit argument ") if message.startswith("ignored") else "":
        return f"a flag without a value, got {unread}"
    if wrong := _TYPE.fullmatch(message):
        return f"expected {_TYPES.get(wrong[1], wrong[1])}, got {wrong[2]}"
    return message


def positive_int(text: str) -> int:
    """Parse a whole number of at least 1."""
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more, got {text!r}")


def split_names(text: str) -> list[str]:
    """Return the names in a text, separated by commas or blanks, also in brackets."""
    return [name for name in re.split(r"[,\s]+", text.strip("[]")) if name]


def split_commas(text: str) -> list[str]:
    """Return the names in a text, separated by commas; a name may have blanks."""
    return [name for part in text.split(",") if (name := part.strip())]


def format_size(count: int) -> str:
    """Format a number of bytes: `512 bytes`, `1.5 MB`."""
    units = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
    return next((f"{count / size:,.1f} {unit}" for unit, size in units if count >= size), f"{count} bytes")


def make_parser(
    command: str, description: str | None, arguments: Arguments, example: str = "", epilog: str | None = None
) -> CommandParser:
    """Return the parser of a command."""
    style = argparse.RawDescriptionHelpFormatter if epilog else argparse.HelpFormatter
    parser = CommandParser(
        prog=f"openended {command}", description=description, example=example, epilog=epilog, formatter_class=style
    )
    parser.list_run_options = lambda: (*GROUPS, *list_options())
    for name, options in arguments.items():
        names = name.split("/")
        parser.synonyms[names[-1]] = options.get("synonyms", ())
        parser.add_argument(*names, **{key: value for key, value in options.items() if key != "synonyms"})
    return parser


def make_main(
    command: str, description: str | None, arguments: Arguments, work: Callable[[argparse.Namespace], object], *,
    example: str = "", after: str = "nothing was changed", epilog: str | None = None, takes_run_options: bool = False,
) -> Callable[[Sequence[str]], int]:  # fmt: skip
    """Return the function that runs a command with its words and returns its exit code; `SystemExit` sets another."""

    def main(words: Sequence[str]) -> int:
        parser = make_parser(command, description, arguments, example, epilog)
        parser.takes_run_options = takes_run_options
        args = parser.parse_intermixed_args(words)  # flags may come between the other arguments
        args.typed = words
        return run_command(parser.prog, lambda: work(args), after_interrupt=after)

    return main
