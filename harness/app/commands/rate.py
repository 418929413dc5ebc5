"""`openended rate make|score|serve|judge|simulate|collect|frequency`: human studies, from forms to their table."""

import argparse
import dataclasses
import itertools
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from openended.harness import core
from openended.harness.core import DataError, SpecError, argument

if TYPE_CHECKING:
    from openended.harness.rating import StudyAnswers

EPILOG = """\
Examples:
  openended rate make quickstart --protocol mauve --items 20 --raters 2 -o study
  openended rate make outputs/runs --protocol typicality --people 10
  openended rate score study answers/*.json
  openended rate serve study
  openended rate judge study model=openai model.path=my-judge --people judgments.csv
`openended rate COMMAND --help` lists a command's options.
"""


def make(args: argparse.Namespace) -> None:
    """Make one HTML file per rater from finished runs."""
    from openended.harness import rating

    names = [field.name for field in dataclasses.fields(rating.StudyProtocol)]
    protocol = rating.load_protocol(args.protocol, {name: getattr(args, name) for name in names if hasattr(args, name)})
    if not args.words:
        raise SpecError("which runs? the name of an experiment or grid, or a folder of runs")
    for word in args.words:
        name, sign, value = word.partition("=")
        if sign and name.isidentifier() and not Path(word).exists():
            raise SpecError(f"{word}: options are flags here: --{name.replace('_', '-')} {value}")
    material = rating.read_study_texts(args.words, args.outputs, protocol, args.exclude, args.by)
    controls = rating.read_controls(args.controls, protocol) if args.controls else ()
    try:
        study = rating.make_study(material, protocol, controls=controls, seed=args.seed, people=args.people)
    except rating.SizesError as err:
        names = [f"--{name}" for name in err.flags]
        rest = [
            word
            for before, word in itertools.pairwise(["", *args.typed])
            if not {before, word.partition("=")[0]} & {*names}
        ]
        changes = [part for name, value in err.flags.items() for part in (f"--{name}", str(value))]
        raise SpecError(f"{err.problem}; type: openended rate make {shlex.join([*rest, *changes])}") from err
    sys.stdout.write("\n".join([*study.lines(), ""]))
    if args.dry:
        return
    sheets = rating.write_study(study, args.out)
    sys.stdout.write(
        f"{args.out / rating.SHEETS}: {len(sheets)} sheets, one per rater; they do not name the systems\n"
        f"{args.out / 'key.json'}: maps items to systems; keep it private\n"
        f"{args.out / rating.DATASHEET}: facts of the study for its report; fill in what is marked …\n"
        f"next: send each rater a sheet, then: openended rate score {args.out} FILES…\n"
        f"      (a trial first, without people: openended rate simulate {args.out})\n"
    )


def _write_answers(out: Path, studies: Sequence["StudyAnswers"]) -> str:
    """Write the judgments of studies, and a table of their raters for each; return the lines to print."""
    from openended.harness.rating import tabulate_answers, write_study_files
    from openended.harness.report import write_rater_table

    count = write_study_files(out, studies)
    lines = [remark for answers in studies for remark in answers.remarks]
    lines.append(f"{out}: {count:,} judgments of {sum(len(answers.sheets) for answers in studies)} raters")
    for answers in studies:
        protocol = answers.key.protocol
        name = f"{out.stem}.quality" + (f"-{protocol.label}" if len(studies) > 1 else "")
        title = f"Raters of study {answers.key.study} ({protocol.label})"
        table = tabulate_answers(answers)
        path = write_rater_table(table, out.parent, name, title, protocol.min_seconds, answers.remarks)
        lines.append(f"{path}: speed, side preference and consistency of each rater")
    return "".join(f"{line}\n" for line in lines)


def collect(args: argparse.Namespace) -> None:
    """Collect judgments.csv and a quality sheet from what raters sent back."""
    from openended.harness import rating as reading
    from openended.harness.rating import KEY

    if args.out.suffix.lower() != ".csv":
        raise DataError(f"-o {args.out}: expected the name of a .csv file")
    files = [path for path in reading.find_answer_files(args.files) if path.name != KEY]
    if not files:
        raise DataError(f"{args.files[0]}: the key of a study holds no answers; name answers-….json or answers.db")
    studies = [
        reading.gather_answers(study_files, key, leave_out=args.leave_out)
        for key, study_files in reading.group_files_by_study(files, args.key or args.files, args.key)
    ]
    lines = _write_answers(args.out, studies)
    folders = [path for path in args.key or args.files if (path / KEY).is_file()]
    steps = [f"openended rate score {folder}" for folder in folders] or [f"openended judgments={args.out}"]
    sys.stdout.write(f"{lines}next: {' and '.join(steps)}\n")


def score(args: argparse.Namespace) -> None:
    """Take a study from its raters' files to its table: HUSE, Bradley-Terry scores or mean ratings, with intervals."""
    from openended.harness import rating as reading
    from openended.harness.app.hydra.study_runs import score_study
    from openended.harness.rating import read_key

    key, folder = read_key(args.study), args.study if args.study.is_dir() else args.study.parent
    files = [word for word in args.words if "=" not in word or Path(word).exists()]
    options = [word for word in args.words if word not in files]
    judgments = folder / "judgments.csv"
    gathered = reading.gather_answers([Path(file) for file in files] or [folder], key, leave_out=args.leave_out)
    sys.stdout.write(_write_answers(judgments, [gathered]))
    score_study(key, judgments, args.out or folder / "report", options)


def simulate(args: argparse.Namespace) -> None:
    """Fill a study's sheets with simulated raters, for a complete trial run."""
    from openended.harness.rating import fill_all_sheets, read_key

    key = read_key(args.study)
    folder = args.out or args.study / "simulated"
    count = fill_all_sheets(key, folder, seed=args.seed)
    sys.stdout.write(
        f"{folder}: {count} sheets filled in by simulated raters; no person rated anything\n"
        f"next: openended rate score {args.study}\n"
    )


def judge(args: argparse.Namespace) -> None:
    """Let a language model rate in place of people."""
    from openended.harness.app.hydra.study_runs import ask_judge
    from openended.harness.rating import build_questions, judge_study, read_key, write_judgments_of_judge
    from openended.metrics.calibration import describe_agreement
    from openended.metrics.judgments import UNCALIBRATED

    studies = [Path(word) for word in args.words if "=" not in word or Path(word).exists()]
    options = [word for word in args.words if "=" in word and not Path(word).exists()]
    if not studies:
        raise SpecError("which study? the folder that openended rate make wrote")
    out = args.out or studies[0] / "judge.csv"
    if out.suffix.lower() != ".csv":
        raise DataError(f"-o {out}: expected the name of a .csv file")
    if args.people is not None and not args.people.is_file():
        raise DataError(f"--people {args.people}: no such file")
    keys = [read_key(study) for study in studies]
    questions = [build_questions(key, limit=args.limit) for key in keys]
    log = out.with_suffix(".replies.jsonl")
    replies, title = ask_judge([question for of_study in questions for question in of_study], options, log)
    rest = iter(replies)
    judged = [
        judge_study(key, of_study, list(itertools.islice(rest, len(of_study))), title)
        for key, of_study in zip(keys, questions, strict=True)
    ]
    agreements = dict.fromkeys(
        UNCALIBRATED if args.people is None else describe_agreement(result.rows, args.people, key.protocol.scale)
        for key, result in zip(keys, judged, strict=True)
    )
    write_judgments_of_judge(keys, judged, out, "; ".join(agreements))
    lines = [line for result in judged for line in result.lines()]
    lines.append(f"agreement with people: {'; '.join(agreements)}")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    if args.people is not None:
        from openended.harness.report import show_correction

        for key, result in zip(keys, judged, strict=True):
            show_correction(result.rows, args.people, key.material.players, out.with_suffix(""))
    sys.stdout.write(f"{log}: prompts and replies\nnext: openended judgments={out}\n")


def serve(args: argparse.Namespace) -> None:
    """Serve a study on a local network: a link per rater, answers stored at once."""
    for package in ("starlette", "uvicorn"):
        core.require_package(package, "rate")
    if args.host in ("0.0.0.0", "::"):  # noqa: S104 - refused
        raise SpecError(f"--host {args.host}: expected the address that raters will type, for example 192.168.1.20")
    if not 0 <= args.port <= 65535:
        raise SpecError(f"--port {args.port}: expected 0 to 65535 (0: a free one)")
    from openended.harness.rating import read_key, serve_study

    key = read_key(args.study)
    folder = args.study if args.study.is_dir() else args.study.parent
    serve_study(key, folder, host=args.host, port=args.port, raters=args.raters)


def frequency(args: argparse.Namespace) -> None:
    """Correlate typicality with the frequency of a sentence in a corpus."""
    from openended.harness.report import write_frequency_files

    if args.out.suffix.lower() != ".csv":
        raise DataError(f"-o {args.out}: expected the name of a .csv file")
    lines = write_frequency_files(args.ratings, args.corpus, args.out)
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _declare_protocol_flags() -> core.Arguments:
    """Declare a flag for each field of a protocol; those that are not typed stay out of the namespace."""
    import yaml

    from openended.harness.rating import StudyProtocol

    def parse_yaml(text: str) -> Any:  # noqa: ANN401 - whatever YAML holds
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as err:
            message = f"{text!r} cannot be read as YAML ({core.format_error(err)})"
            raise argparse.ArgumentTypeError(message) from err

    arguments = {}
    for field in dataclasses.fields(StudyProtocol):
        meaning = field.metadata.get("help") or "of the protocol, as in YAML"
        flag = argument(meaning, "VALUE", dest=field.name, type=parse_yaml, default=argparse.SUPPRESS)
        arguments[f"--{field.name.replace('_', '-')}"] = flag
    return arguments


class Command(NamedTuple):
    """A subcommand of `openended rate`; the docstring of its function describes it."""

    work: Callable[[argparse.Namespace], None]
    after: str  # what remains if it is interrupted
    example: str = ""
    epilog: str | None = None


_STUDY: core.Arguments = {"study": argument("the folder of a study", type=Path)}
_SKIP: core.Arguments = {"--leave-out": argument("skip files that cannot be used, and list them", action="store_true")}
_RUNS = ("--runs", "--run", "--name", "--grid", "--experiment")
_BY = "name systems by these axes, as model,decoder.p; default: as in tables"
_ANSWERS = "answers-….json or folders of them; default: those in the study's folder. OPTION=VALUE is set in the runs"
_JUDGE = "model=openai model.path=my-judge model.base_url=http://localhost:8000"
_STUDIES = f"folders of studies of the same systems, and options of the judge's run: {_JUDGE}"
_ARGUMENTS: Mapping[str, core.Arguments] = {
    "make": {
        "words": argument("names of experiments or grids, or folders of runs", "RUNS", nargs="*", synonyms=_RUNS),
        "-o/--out": argument("default: study", "DIR", type=Path, default=Path("study")),
        **core.OUTPUTS,
        "--dry": argument("print hours and intervals, and write nothing", action="store_true"),
        "--protocol": argument("what raters are asked; default: mauve", "NAME", default="mauve"),
        "--by": argument(_BY, "AXES", type=core.split_names, default=""),
        "--people": argument("deal all items to N sheets, one each", "N", type=core.positive_int),
        "--controls": argument("items with known answers, mixed in", "FILE", type=Path),
        "--exclude": argument("ids of examples to leave out, one per line", "FILE", type=Path),
        "--seed": argument("of the order of items; default: drawn anew", "N", type=int),
    },
    "score": {
        **_STUDY,
        "words": argument(f"{_ANSWERS} that HUSE reads, as model.path=FOLDER", "FILES", nargs="*"),
        **_SKIP,
        "-o/--out": argument("of the report; default: STUDY/report", "DIR", type=Path),
    },
    "collect": {
        "files": argument("answers-….json, a server's answers.db, or folders of them", "FILES", nargs="+", type=Path),
        "-o/--out": argument("default: judgments.csv", "FILE", type=Path, default=Path("judgments.csv")),
        "--key": argument("a study's folder or its key.json; else looked for", "STUDY", type=Path, action="append"),
        **_SKIP,
    },
    "simulate": {
        **_STUDY,
        "-o/--out": argument("default: STUDY/simulated", "DIR", type=Path),
        "--seed": argument("of their answers; default: 0", type=int, default=0),
    },
    "judge": {
        "words": argument(_STUDIES, "STUDY", nargs="+"),
        "-o/--out": argument("default: judge.csv in the first study", "FILE", type=Path),
        "--people": argument("judgments of people, to measure the judge's agreement with them", "FILE", type=Path),
        "--limit": argument("the first N items; default: all", "N", type=core.positive_int),
    },
    "frequency": {
        "ratings": argument("a file of ratings with a column text", "RATINGS", type=Path),
        "--corpus": argument("sentences, one per line or record", "FILE", type=Path, required=True),
        "-o/--out": argument("default: frequency.csv", "FILE", type=Path, default=Path("frequency.csv")),
    },
    "serve": {
        **_STUDY,
        "--raters": argument("links to make; default: as many as the study has sheets", "N", type=core.positive_int),
        "--host": argument("the address that raters type; default: localhost", default="127.0.0.1"),
        "--port": argument("default: 8123; 0: a free one", type=int, default=8123),
    },
}
_PROTOCOLS = "Protocols: {names}, or a YAML of your own (docs/human_studies.md)."
_HUSE = "HUSE reads the model's probabilities: its runs are done again with metric=[huse], from the store."
_SIMULATED = "A system with less repetition in its texts is preferred."
_GREEDY = "The judge answers greedily, by any model and engine that generates; see openended --help."
_HTTPS = "Traffic is not encrypted: on a network of others, put it behind a proxy that speaks HTTPS."
_REPLACED = "files are replaced as a whole; none is half-written"
_COLLECTED = "the judgments are collected; the same command resumes"
_JUDGED = "every reply is in the store; the same command resumes"
COMMANDS = {
    "make": Command(make, "no key was written, so the sheets that exist cannot be used", epilog=_PROTOCOLS),
    "score": Command(score, _COLLECTED, "openended rate score study answers/*.json", _HUSE),
    "collect": Command(collect, _REPLACED, "openended rate collect study answers/*.json -o judgments.csv"),
    "simulate": Command(simulate, "the files written so far are complete", "openended rate simulate study", _SIMULATED),
    "judge": Command(judge, _JUDGED, f"openended rate judge study {_JUDGE}", _GREEDY),
    "frequency": Command(frequency, _REPLACED, "openended rate frequency ratings.csv --corpus sentences.txt"),
    "serve": Command(serve, "every acknowledged answer is in answers.db", "openended rate serve study", _HTTPS),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a rating command and return its exit code."""
    core.terminal.set_up()
    words = list(sys.argv[1:] if argv is None else argv)
    listed = "\n".join(f"  {name:9} {command.work.__doc__}" for name, command in COMMANDS.items())
    names: core.Arguments = {"command": {"choices": COMMANDS, "metavar": "COMMAND"}}
    parser = core.make_parser(
        "rate", f"{__doc__}\n\n{listed}", names, "openended rate make quickstart --protocol mauve", EPILOG
    )
    if words and words[0] not in COMMANDS and (core.OUTPUTS["--outputs"]["default"] / "runs" / words[0]).is_dir():
        parser.error(f"{words[0]} is a name of runs: openended rate make {words[0]} makes a study of them")
    name = parser.parse_args(words[:1]).command
    command = COMMANDS[name]
    arguments, epilog = _ARGUMENTS[name], command.epilog
    if name == "make":
        from openended.harness.rating import list_protocol_names

        arguments = {**arguments, **_declare_protocol_flags()}
        epilog = str(epilog).format(names=", ".join(list_protocol_names()))
    options: dict[str, Any] = {"example": command.example, "after": command.after, "epilog": epilog}
    options["takes_run_options"] = name == "judge"
    run = core.make_main(f"rate {name}", command.work.__doc__, arguments, command.work, **options)
    return run(words[1:])


if __name__ == "__main__":
    sys.exit(main())
