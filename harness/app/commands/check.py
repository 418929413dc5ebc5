"""`openended check BASELINE CANDIDATE…`: exit with 1 if a candidate is worse than the baseline, for scripts and CI."""

import argparse
import json
import math
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from openended.harness import core, report, results as measured
from openended.harness.core import OUTPUTS, Arguments, DataError, SpecError, argument, make_main
from openended.harness.report import NOT_WORSE, UNDECIDED, WORSE, Worsening
from openended.harness.results import Pair, Results, SystemValue

COMMAND = "openended check"
UNDECIDED_CODE = 3
MARGIN = 0.02
EPILOG = """\
BASELINE and CANDIDATE are runs, names, folders of runs, a record.json (of an earlier release, for example), or the
results.parquet of a report or of `openended export --format parquet`. A candidate is compared with the baseline's
system of equal task, decoder and other options; a baseline of one system is compared with all.

Exit code: 0 not worse, 1 worse, 2 bad input, 3 undecided (--undecided pass|fail: 0 or 1 instead), 70 an unexpected
error. A value is not worse if its interval excludes a worsening by more than the margin, and worse if the worsening is
significant after Holm's correction over all lines.
Examples:
  openended check main candidate
  openended check release.json candidate --worse mauve,loop_rate --margin 0.02 --junit check.xml
  openended check release/record.json nightly --undecided pass --json
  openended check main step-1000 step-2000 --margin mauve=0.02,gen_ppl=1
"""
_MARGIN = f"the largest worsening that is accepted: of all values, or VALUE=NUMBER,…; default: {MARGIN}"
_WORSE = "metric, metric.key or key; default: the first value of every metric"
_ARGUMENTS: Arguments = {
    "baseline": argument("what the candidates are compared with", "BASELINE"),
    "candidates": argument("the systems that are checked", "CANDIDATE", nargs="+"),
    "--worse": argument(_WORSE, "VALUES", synonyms=("--metric", "--metrics", "--values")),
    "--margin": argument(_MARGIN, "NUMBER", default=str(MARGIN), synonyms=("--tolerance", "--threshold", "--tol")),
    "--alpha": argument("of tests and intervals; default: 0.05", "LEVEL", type=float, default=0.05),
    "--where": argument("keep only these runs", "AXIS=VALUE", action="append", default=[]),
    "--undecided": argument("exit code of what is undecided: 0 or 1; default: 3", choices=("pass", "fail")),
    "--json": argument("print JSON instead of lines", action="store_true"),
    "--junit": argument("write JUnit XML", "FILE", type=Path),
    "--markdown": argument("write a table for a pull request", "FILE", type=Path),
    **OUTPUTS,
}


def _choose_code(outcomes: Collection[str], undecided: str | None) -> int:
    """Return the exit code of some outcomes."""
    codes = {None: UNDECIDED_CODE, "pass": core.OK, "fail": core.FAILED}
    return core.FAILED if WORSE in outcomes else codes[undecided] if UNDECIDED in outcomes else core.OK


def _check(args: argparse.Namespace) -> None:
    if not 0 < args.alpha < 1:
        raise SpecError(f"--alpha: expected a number between 0 and 1, got {args.alpha:g}")
    if twice := core.find_repeated(args.candidates):
        raise SpecError(f"{twice} is listed twice; name each candidate once")
    for option, path in (("--junit", args.junit), ("--markdown", args.markdown)):
        if path is not None and path.is_dir():
            raise SpecError(f"{option}: expected a file, got the folder {path}")
    where = measured.parse_filters(args.where)
    joined = _read(args.baseline, args.outputs, where)
    baselines, candidates = joined.values, list[SystemValue]()
    for word in args.candidates:
        candidate = _read(word, args.outputs, where)
        joined, candidates = measured.join_results(joined, candidate), [*candidates, *candidate.values]
    margins = _parse_margins(args.margin, _choose_values([*baselines, *candidates], args.worse))
    if args.baseline in args.candidates:
        core.print_error(COMMAND, f"warning: {args.baseline} is compared with itself")
    tested: list[Worsening] = []
    systems = measured.group_systems(baselines)
    for system in measured.group_systems(candidates):
        baseline = measured.find_counterpart(system, systems)
        if baseline is None:
            names = ", ".join(other.name for other in systems)
            raise SpecError(
                f"{system.name}: expected one system of the baseline that differs from it in the model alone, got "
                f"none or several among {names}; choose one, for example --where decoder=nucleus"
            )
        for pair, margin in margins.items():
            value, reference = system.value(*pair), baseline.value(*pair)
            if value is None or reference is None:
                lacking = system.name if value is None else f"the baseline {baseline.name}"
                raise DataError(f"{lacking} has no {'.'.join(pair)}; add metric {pair[0]}, or leave it out of --worse")
            if reference.signature != value.signature:
                fields = map(core.parse_signature, (reference.signature, value.signature))
                differ = measured.describe_differences(next(fields), next(fields))
                raise DataError(f"{pair[0]} of {system.name} is not comparable with the baseline's: {differ}")
            items = [*baselines, *candidates]
            tested.append(report.measure_worsening(joined, items, system.name, value, reference, margin, args.alpha))
    if not tested:
        raise DataError("nothing can be checked: no value of these runs has a better direction")
    worsenings = report.decide_together(tested, args.alpha)
    rows = [_format_cells(worsening) for worsening in worsenings]
    code = _choose_code({worsening.outcome for worsening in worsenings}, args.undecided)
    if args.json:
        values = [_convert_to_json(worsening) for worsening in worsenings]
        sys.stdout.write(json.dumps({"exit_code": code, "values": values}, indent=1, allow_nan=False) + "\n")
    for label, outcome, before, after, worse, p_value, reason in rows if not args.json else ():
        core.print_line(f"{outcome:<10} {label}  {before} → {after}, worse by {worse}, p {p_value}: {reason}")
    if args.markdown:
        core.write_text(args.markdown, format_markdown(rows))
    if args.junit:
        core.write_text(args.junit, format_junit(worsenings, rows, args.undecided))
    if code:
        raise SystemExit(code)


def _convert_to_json(worsening: Worsening) -> dict[str, core.Json]:
    """Return a line for programs; a number that there is not is null."""
    (metric, key), value = worsening.value.pair, worsening.value
    numbers = {"baseline": worsening.baseline.mean, "candidate": value.mean, "worse_by": worsening.amount}
    numbers |= {"low": worsening.low, "high": worsening.high, "p": worsening.p_value, "margin": worsening.margin}
    texts = {"system": worsening.system, "metric": metric, "key": key, "outcome": worsening.outcome}
    finite = {name: number if math.isfinite(number) else None for name, number in numbers.items()}
    return {**texts, **finite, "reason": worsening.reason}


def _read(word: str, outputs: Path, where: Mapping[str, str]) -> Results:
    """Read the results of a run, a name, a folder, a record or an exported file."""
    path = Path(word)
    if path.suffix == ".parquet":
        results = measured.read_frame(path)
        return measured.filter_results(results, where, every=True) if where else results
    if path.suffix in (".csv", ".zip"):
        hint = measured.suggest_command(path) if path.suffix == ".zip" else "; give the results.parquet next to it"
        missing = "" if path.is_file() else "no such file; "
        raise DataError(f"{word}: {missing}expected runs, a name, a record.json or a results.parquet{hint}")
    return measured.read_results(measured.resolve_report_request([word], outputs).paths, where)


def _find_value(name: str, pairs: Iterable[Pair], option: str) -> Pair:
    """Return the value that is called `metric`, `metric.key` or `key`; of several, that of the metric, the first."""
    named = sorted((pair for pair in pairs if name in (*pair, ".".join(pair))), key=lambda pair: pair[0] != name)
    if not named:
        choices = {word for pair in pairs for word in pair}
        raise SpecError(f"{option}: {name!r} is not among the values{core.suggest(name, choices)}")
    return named[0]


def _choose_values(items: Sequence[SystemValue], typed: str | None) -> list[Pair]:
    """Return the values that `--worse` names, else the first of every metric that has a better direction."""
    models = sorted((item for item in items if item.system == "model"), key=lambda item: not item.primary)
    directions = {item.pair: item.direction for item in models}
    if typed is None:
        return [pair for pair in report.select_pairs(items, companions=False) if directions[pair] != "none"]
    pairs = [_find_value(name.strip(), directions, "--worse") for name in typed.split(",")]
    if wrong := next((pair for pair in pairs if directions[pair] == "none"), None):
        raise SpecError(f"--worse: of {'.'.join(wrong)}, neither more nor less is worse; leave it out")
    return pairs


def _parse_margins(typed: str, pairs: Sequence[Pair]) -> dict[Pair, float]:
    """Return the margin of each value: of all, or of those that `VALUE=NUMBER` names; the default for the others."""
    margins, names = dict.fromkeys(pairs, MARGIN), set[str]()
    for part in typed.split(","):
        name, sign, text = part.strip().rpartition("=")
        try:
            margin = float(text)
        except ValueError:
            margin = math.nan
        if not 0 <= margin < math.inf:
            raise SpecError(f"--margin: expected a number of 0 or more, or VALUE=NUMBER, got {part!r}")
        if (what := name if sign else part) in names:
            raise SpecError(f"--margin: {what} is given twice, in {typed!r}; give it once")
        names.add(what)
        margins |= dict.fromkeys([_find_value(name, pairs, "--margin")] if sign else pairs, margin)
    return margins


def _format_cells(worsening: Worsening) -> list[str]:
    """Return label, outcome, both values, the worsening with its interval, its p-value and the reason."""
    value = worsening.value
    label = f"{worsening.system}: {value.title} {report.arrow(value.direction, value.target)}".rstrip()
    texts = (label, worsening.outcome, *report.format_worsening(worsening), worsening.reason)
    return [core.escape_controls_in_line(text) for text in texts]


def format_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Format the rows as a table for a pull request."""
    heads = ("value", "outcome", "baseline", "candidate", "worse by", "p", "why")
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def format_junit(worsenings: Sequence[Worsening], rows: Sequence[Sequence[str]], undecided: str | None = None) -> str:
    """Format the rows as JUnit XML, with sentences as messages.

    What is undecided is an error, since nothing failed and nothing passed; `pass` makes it skipped, `fail` a failure.
    """
    tags = {WORSE: "failure", UNDECIDED: {None: "error", "pass": "skipped", "fail": "failure"}[undecided]}
    used = [tags[worsening.outcome] for worsening in worsenings if worsening.outcome != NOT_WORSE]
    counts = {"tests": len(worsenings), "failures": used.count("failure"), "errors": used.count("error")}
    counts["skipped"] = used.count("skipped")
    suite = ElementTree.Element("testsuite", {"name": COMMAND, **{name: str(n) for name, n in counts.items()}})
    for (label, outcome, before, after, worse, p_value, reason), worsening in zip(rows, worsenings, strict=True):
        system, _, title = label.rpartition(": ")
        names = {"classname": system, "name": ".".join(worsening.value.pair)}
        case = ElementTree.SubElement(suite, "testcase", names)
        if outcome != NOT_WORSE:
            verdict = "is worse than the baseline's" if outcome == WORSE else "may be worse than the baseline's or not"
            message = (
                f"{title} of {system} {verdict}: {after}, and the baseline has {before}. It is worse by {worse}, where "
                f"{worsening.margin:g} is accepted (p {p_value}): {reason}."
            )
            ElementTree.SubElement(case, tags[outcome], type=outcome, message=message)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


main = make_main("check", __doc__, _ARGUMENTS, _check, example="openended check main candidate", epilog=EPILOG)
