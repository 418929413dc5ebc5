"""Make a study, forecast its cost, fill it by simulated raters, and write one HTML file per rater."""

import base64
import hashlib
import itertools
import json
import math
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from openended.harness.core import HUMAN, SpecError, UndefinedMetric, make_random_stream, write_json, write_text
from openended.harness.rating.design import KEY, Control, RatingTask, StudyKey, StudyTexts, design_study
from openended.harness.rating.protocol import StudyProtocol
from openended.metrics.bradley_terry import bradley_terry
from openended.metrics.huse import huse

FORM_VERSION = "openended-rate/1"  # version of the form and of what it saves


def build_form_policy(*, connect: bool) -> str:
    """Return the Content-Security-Policy: only the form's own script and style, by their hashes."""
    digests = {part: hashlib.sha256(_read_form_file(f"form.{part}").encode()).digest() for part in ("js", "css")}
    hashes = {part: f"'sha256-{base64.b64encode(digest).decode()}'" for part, digest in digests.items()}
    talk = " connect-src 'self';" if connect else ""
    sources = f"script-src {hashes['js']}; style-src {hashes['css']};{talk}"
    return f"default-src 'none'; {sources} base-uri 'none'; form-action 'none'"


@cache
def _read_form_file(name: str) -> str:
    return (resources.files("openended.harness.rating") / "form" / name).read_text(encoding="utf-8")


def render_form(key: StudyKey, sheet: str, items: Sequence[Mapping[str, Any]] | None) -> str:
    """Return the page of a sheet."""
    protocol = key.protocol
    names = ("title", "guidelines", "examples", "prompt", "prompt_label", "text", "text_label", "most_ties")
    study_data = {name: getattr(protocol, name) for name in names} | {"questions": dict(protocol.questions)}
    study_data |= {"form": FORM_VERSION, "study": key.study, "sheet": sheet, "items": items}
    study_data["answers"] = [{"say": a.say, "more": a.more, "tie": a.outcome == "tie"} for a in protocol.choices]
    data = json.dumps(study_data, ensure_ascii=True)
    for sign in "<>&":  # they occur in JSON strings alone; escaped, no text can close the script element
        data = data.replace(sign, rf"\u{ord(sign):04x}")
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    parts = {"data": data, "script": _read_form_file("form.js"), "style": _read_form_file("form.css")}
    return environment.from_string(_read_form_file("form.html")).render(
        title=protocol.title,
        policy=build_form_policy(connect=items is None),
        **{name: Markup(text) for name, text in parts.items()},  # noqa: S704 - ours, and JSON without markup
    )


def build_items(key: StudyKey, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the id, prompt and texts of items as a sheet shows them."""
    visible = ((name, *key.show_item(key.by_id[name])) for name in ids)
    return [{"id": name, "prompt": prompt, "texts": list(texts)} for name, prompt, texts in visible]


@dataclass(frozen=True, kw_only=True)
class RaterModel:
    """A probabilistic model of raters."""

    strengths: Mapping[str, float]
    """Player → natural-log ability (`pairs`), or shift of its typicality in steps of the scale (`ratings`)."""
    ties: float = 0.05  # share of pairs that a rater calls a tie, whoever wrote them
    text_spread: float = 0.6  # `ratings`: standard deviation of typicality over texts, in steps
    noise: float = 0.7  # `ratings`: standard deviation of a rater around a text's typicality, in steps
    seed: int = 0

    def answer(self, key: StudyKey, sheet: str, task: RatingTask) -> dict[str, int]:
        """Return question → number of the answer, from 1; depends on rater, item and seed alone."""
        answers = key.protocol.choices
        outcomes = np.array([str(answer.outcome) for answer in answers])
        chosen = {}
        for question in key.protocol.questions:
            rng = make_random_stream(self.seed, "simulated", sheet, question, task.example, *task.sides)
            if task.is_control:  # answered correctly with probability 0.95
                control = key.control(task)
                right = [
                    i for i, answer in enumerate(answers) if control.criterion != question or control.accepts(answer)
                ]
                good = rng.random() < 0.95
                number = int(rng.choice(right if good else range(len(answers))))
            elif key.protocol.kind == "pairs":
                first, second = (self.strengths[player] for player in task.sides)
                if "tie" in outcomes and rng.random() < self.ties:
                    number = int(np.argmax(outcomes == "tie"))
                else:
                    side = "a" if rng.random() < 1.0 / (1.0 + math.exp(second - first)) else "b"
                    number = int(rng.choice(np.flatnonzero(outcomes == side)))
            else:
                levels = np.array([answer.rating for answer in answers], dtype=np.float64)
                # The typicality of the text is the same for all raters.
                stream = make_random_stream(self.seed, "text", question, task.example, *task.sides)
                middle = 0.5 * (levels.min() + levels.max()) + self.strengths[task.sides[0]]
                seen = middle + stream.normal(0.0, self.text_spread) + rng.normal(0.0, self.noise)
                number = int(np.argmin(np.abs(levels - seen)))
            chosen[question] = number + 1
        return chosen

    def fill(self, key: StudyKey, sheet: str) -> dict[str, Any]:
        """Return the answers to a sheet in the form that a sheet saves, marked as simulated."""
        rows = []
        for name in key.sheets[sheet]:
            task = key.by_id[name]
            rng = make_random_stream(self.seed, "seconds", sheet, task.example, *task.sides)
            seconds = 60.0 * math.exp(rng.normal(0.0, 0.4))
            rows.append({"id": name, "answers": self.answer(key, sheet, task), "ms": round(1000 * seconds)})
        saved = {"form": FORM_VERSION, "study": key.study, "sheet": sheet, "started": key.created}
        return {**saved, "saved": key.created, "complete": True, "simulated": True, "answers": rows}


def fill_all_sheets(key: StudyKey, folder: Path, *, strengths: Mapping[str, float] | None = None, seed: int = 0) -> int:
    """Fill every sheet of a study and return their number; strengths default to `derive_strengths_from_texts`."""
    raters = RaterModel(strengths=strengths or derive_strengths_from_texts(key), seed=seed)
    for sheet in key.sheets:
        write_json(folder / f"answers-{sheet}.json", raters.fill(key, sheet))
    return len(key.sheets)


def derive_strengths_from_texts(key: StudyKey) -> dict[str, float]:
    """Return a strength for each player: the share of 3-grams not repeated, scaled to a deviation of 0.6."""
    from openended.metrics.repetition import seq_rep_n

    material = key.material
    means = {
        player: 1.0
        - seq_rep_n([material.texts[e][player].split() for e in material.list_examples(player)], orders=(3,))[3]
        for player in material.players
    }
    values = np.array(list(means.values()))
    spread = float(values.std()) or 1.0
    return {player: 0.6 * float(value - values.mean()) / spread for player, value in means.items()}


def make_forecast_raters(protocol: StudyProtocol, players: Sequence[str]) -> RaterModel:
    """Return the raters that a forecast assumes."""
    spread = 0.5 if protocol.kind == "pairs" else 0.3
    ties = protocol.most_ties if any(answer.outcome == "tie" for answer in protocol.choices) else 0.0
    steps = np.linspace(1.0, -1.0, len(players))  # evenly spaced abilities of mean 0
    scale = spread / float(steps.std())
    strengths = {player: float(scale * step) for player, step in zip(players, steps, strict=True)}
    return RaterModel(strengths=strengths, ties=ties)


SHEETS, DATASHEET = "sheets", "datasheet.md"
Z95 = 1.959963984540054  # of a two-sided 95 % interval of a normal
_STUDIES = 100
# Log-probability a word of people's texts and of a model's, mean and standard deviation in nats: as in the invented
# ratings that come with the harness.
_LOGP = {True: (-3.4, 0.6), False: (-4.2, 0.9)}


class StudyForecast(NamedTuple):
    """Expected precision of a study."""

    what: str  # name of the value that the interval is for
    width: float  # mean width of a 95 % interval; NaN if undefined
    assumed: str


@dataclass(frozen=True, slots=True)
class Study:
    """A study and the forecast of its cost."""

    key: StudyKey
    forecast: StudyForecast

    def lines(self) -> Iterator[str]:
        """Return the lines that the command prints: texts, controls, cost and precision."""
        m, p = self.key.material, self.key.protocol
        yield f"{p.label}: {len(m.players)} systems ({', '.join(m.players)}), {len(m.texts):,} prompts to draw from"
        yield from m.remarks
        if not self.key.controls:
            yield "no control items: --controls FILE adds some with known answers"
        if not p.examples:
            yield "no worked examples on the guidelines page: examples in a YAML of your own (--protocol MY.yaml)"
        hours = p.seconds_an_item / 3600
        longest = max(map(len, self.key.sheets.values())) * hours
        yield (
            f"{len(self.key.tasks):,} items to rate on {len(self.key.sheets)} sheets: "
            f"{len(self.key.tasks) * hours:,.1f} hours of rating, {60 * longest:,.0f} minutes for the longest sheet"
        )
        if p.pay is not None:
            by_hour = f" at {p.hourly_pay:g} per hour" if p.item_pay is None else ""
            yield f"pay{by_hour}: {p.pay:.2f} per item, {len(self.key.tasks) * p.pay:,.2f} in all"
        for exclusion in p.exclusions:
            yield f"the published study left out {exclusion}"
        what, width, assumed = self.forecast
        interval = "no interval" if math.isnan(width) else f"95 % interval of width {width:.2f} (±{width / 2:.2f})"
        yield f"{what}: {interval}; {'' if math.isnan(width) else 'assumed: '}{assumed}"


def write_datasheet(study: Study) -> Iterator[str]:
    """Yield a datasheet in the sections of Pillutla et al. 2021, E.4; what is marked … is left to fill in."""
    key, p = study.key, study.key.protocol
    m, rated = key.material, [task for task in key.tasks if not task.is_control]
    rated_by = Counter(player for task in rated for player in task.sides)
    limits = {name: getattr(p, name) for name in ("cut_words", "min_words", "shortest_tokens", "longest_tokens")}
    by_hour = f" ({p.hourly_pay:g} per hour)" if p.item_pay is None and p.hourly_pay is not None else ""
    pay = "…" if p.pay is None else f"{p.pay:.2f} per item{by_hour}"
    unit = "pair of texts of one prompt" if p.kind == "pairs" else "text"
    outputs = [f"{len(rated):,} items, each a {unit}, of {len(m.players)} systems"]
    outputs += [f"{player}: in {rated_by[player]:,} items" for player in m.players]
    prompts = [f"{len(m.texts):,} to draw from, {len({task.example for task in rated}):,} used", *m.remarks]
    prompts += [f"{name}: {value}" for name, value in limits.items() if value is not None]
    evaluators = [f"{len(key.sheets)} sheets, one per evaluator; {p.raters} evaluators of each item"]
    evaluators += [f"selection: {p.selection or '…'}", f"pay: {pay}; {p.seconds_an_item:g} seconds per item"]
    control = [f"{len(key.controls)} control items, up to {p.controls_a_sheet} on a sheet"]
    control += [f"answers under {p.min_seconds:g} seconds are left out"] * bool(p.min_seconds and p.kind == "pairs")
    control += [f"left out in the published study: {exclusion}" for exclusion in p.exclusions]
    sections = {"Outputs evaluated": outputs, "Prompts": prompts, "Evaluators": evaluators}
    sections["Training and instructions"] = [*p.guidelines, f"{len(p.examples)} worked examples"]
    sections["Quality control"] = control
    sections["Quality criteria"] = [f"{name}: {question}" for name, question in p.questions.items()]
    sections["Answers"] = [f"{answer.say} {answer.more}".strip() for answer in p.choices]
    sections["Source of the wording"] = [p.source or "…"]
    yield f"# Datasheet of the human study {key.study}: {p.label}"
    for title, lines in sections.items():
        yield from ("", f"## {title}", "", *(f"- {line}" for line in lines))
    yield ""


def make_study(
    material: StudyTexts, protocol: StudyProtocol, *, controls: Sequence[Control] = (), seed: int | None = None,
    people: int | None = None,
) -> Study:  # fmt: skip
    """Design a study; writes nothing."""
    secret = secrets.token_bytes(32)
    design_seed = secrets.randbits(48) if seed is None else seed
    sheets = design_study(material, protocol, controls=controls, secret=secret, seed=design_seed, people=people)
    if people is not None:
        protocol = replace(protocol, items_a_sheet=max(map(len, sheets)))
    wide, tasks = len(str(len(sheets))), tuple(itertools.chain.from_iterable(sheets))
    item_ids = {f"rater-{i:0{wide}d}": tuple(t.id for t in s) for i, s in enumerate(sheets, 1)}
    study, created = secrets.token_hex(6), datetime.now(UTC).isoformat(timespec="seconds")
    key = StudyKey(study, secret.hex(), created, protocol, material, tasks, item_ids, tuple(controls))
    forecast = _forecast_abilities if protocol.kind == "pairs" else _simulate_typicality
    return Study(key, forecast(protocol, tasks))


def write_study(study: Study, folder: Path) -> list[Path]:
    """Write the key, a datasheet and one sheet per rater."""
    if (folder / SHEETS).exists() and not (folder / KEY).exists() and any((folder / SHEETS).iterdir()):
        raise SpecError(f"{folder / SHEETS} holds other files; choose another folder with -o")
    study.key.save(folder)
    write_text(folder / DATASHEET, "\n".join(write_datasheet(study)))
    paths = {folder / SHEETS / f"{sheet}.html": ids for sheet, ids in study.key.sheets.items()}
    for path, ids in paths.items():
        write_text(path, render_form(study.key, path.stem, build_items(study.key, ids)))
    return list(paths)


def _forecast_abilities(protocol: StudyProtocol, tasks: Sequence[RatingTask]) -> StudyForecast:
    """Fit the wins that are expected of raters with known abilities."""
    what = "Bradley-Terry score"
    met = Counter(tuple(sorted(t.sides)) for t in tasks if not t.is_control)
    players = sorted({player for pair in met for player in pair}, key=lambda p: (p != HUMAN, p))
    raters = make_forecast_raters(protocol, players)
    truth = np.array([raters.strengths[player] for player in players])
    expected = np.zeros((len(players), len(players)))
    for (i, a), (j, b) in itertools.combinations(enumerate(players), 2):
        share = raters.ties / 2 + (1 - raters.ties) / (1.0 + math.exp(truth[j] - truth[i]))
        expected[i, j], expected[j, i] = met[min(a, b), max(a, b)] * np.array([share, 1 - share])
    try:
        width = 2 * Z95 * float(bradley_terry(expected, players=players).std_errors.mean())
    except UndefinedMetric as err:
        return StudyForecast(what, math.nan, f"{err}; raise items")
    assumed = f"abilities with standard deviation {truth.std():.2g}, {raters.ties:.0%} ties counted half"
    return StudyForecast(what, width, f"{assumed}, independent answers")


def _simulate_typicality(protocol: StudyProtocol, tasks: Sequence[RatingTask]) -> StudyForecast:
    levels = np.array([answer.rating for answer in protocol.choices], dtype=np.float64)
    players = list(dict.fromkeys(p for t in tasks for p in t.sides))
    if HUMAN not in players or len(players) < 2:
        return StudyForecast("HUSE", math.nan, "it needs texts of people and of a system")
    raters = make_forecast_raters(protocol, [HUMAN, "model"])
    n, k = protocol.items, 16
    if 2 * n <= k:
        return StudyForecast("HUSE", math.nan, f"it needs more than {k} texts; raise items")
    middle, values = 0.5 * (levels.min() + levels.max()), []
    for number in range(_STUDIES):
        rng = make_random_stream(0, "forecast", number)
        ratings, logp = [], []
        for is_model, player in ((False, HUMAN), (True, "model")):
            typicality = middle + raters.strengths[player] + rng.normal(0, raters.text_spread, n)
            seen = typicality[:, None] + rng.normal(0, raters.noise, (n, protocol.raters))
            ratings.append(levels[np.abs(seen[..., None] - levels).argmin(axis=-1)].mean(axis=1))
            logp.append(np.minimum(rng.normal(*_LOGP[is_model], n), -0.5))
        rated, log_probs, marks = np.concatenate(ratings), np.concatenate(logp), np.arange(2 * n) >= n
        result = huse(judgments=rated, log_probs=log_probs, lengths=np.ones(2 * n), is_model=marks, k=k)
        values.append(result.huse)
    assumed = f"two sides {2 * raters.strengths[HUMAN]:.1f} steps apart, sd {raters.text_spread:g} over texts"
    width = 2 * Z95 * float(np.std(values, ddof=1))
    return StudyForecast("HUSE", width, f"{assumed} and {raters.noise:g} over raters")
