"""Design of a study: its texts, the items on each sheet, and the key that maps items to systems."""

import hashlib
import hmac
import itertools
import json
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from openended.harness import core, results as measured, storage
from openended.harness.core import DataError, SpecError, suggest
from openended.harness.rating.protocol import AnswerChoice, StudyProtocol
from openended.harness.run import identify_texts
from openended.metrics.judgments import read_rows


@dataclass(frozen=True, slots=True)
class StudyTexts:
    """Prompts and every player's continuation of each."""

    players: tuple[str, ...]  # `human` first, then the systems under the names that the tables use
    prompts: Mapping[str, str]  # example id → prompt
    texts: Mapping[str, Mapping[str, str]]  # example id → player → text; of pairs, at least two players each
    remarks: tuple[str, ...] = ()  # what was left out, and why
    texts_ids: Mapping[str, str] = field(default_factory=dict)  # system → `identify_texts` of its run
    runs: Mapping[str, str] = field(default_factory=dict)  # system → folder of the run whose texts are rated

    def list_examples(self, *players: str) -> list[str]:
        """Return the examples for which each of some players has a text."""
        return [example for example in sorted(self.texts) if all(player in self.texts[example] for player in players)]


# Axes that texts do not depend on: runs that differ in these alone are one system to a rater.
_SCORING_AXES = ("judgments", "scorer", "embedder", "features", *measured.SIZE_AXES)


def read_study_texts(
    words: Sequence[str], outputs: Path, protocol: StudyProtocol, exclude: Path | None, by: Sequence[str] = ()
) -> StudyTexts:
    """Read the texts of runs: the first of each prompt, and of several seeds of a system the first.

    `by` are the axes whose values name a system; none: its name in tables.
    """
    results = measured.read_results(measured.resolve_report_request(words, outputs).paths)
    values = [
        replace(v, axes={a: x for a, x in v.axes.items() if not {a, measured.get_parent_axis(a)} & {*_SCORING_AXES}})
        for v in results.values
        if not v.is_judged_alone
    ]
    texts: dict[str, dict[str, str]] = {}
    prompts: dict[str, str] = {}
    lengths: dict[str, int] = {}
    short = set[tuple[str, str]]()  # player and example
    texts_ids: dict[str, str] = {}
    runs: dict[str, str] = {}
    cut_differently = False
    for system in measured.group_systems(values):
        axes = system.items[0].axes
        if unknown := [axis for axis in by if axis not in axes]:
            raise SpecError(f"--by: no axis {unknown[0]!r}{suggest(unknown[0], axes)}")
        name = " ".join(filter(None, (axes[axis] for axis in by))) or system.name
        if name in texts:
            raise SpecError(f"--by {','.join(by)}: two systems are called {name!r}; add an axis in which they differ")
        run = system.items[0].sources[0][0]
        record = storage.read_record(run.folder)
        texts_ids[name], runs[name] = identify_texts(record.spec, record.axes), str(run.folder.resolve())
        for player, role in ((core.HUMAN, "human"), (name, "model")):
            rows = measured.read_rows_of_run(results, run, role)
            if rows is None:
                raise DataError(f"{run.folder}: its {role} texts are no longer in the store: run it again")
            lengths[player] = max(lengths.get(player, 0), int(rows.token_ids.lengths.max(initial=0)))
            player_texts = texts.setdefault(player, {})
            columns = (rows.ids, rows.samples, rows.prompts, rows.texts, rows.token_ids.lengths)
            for example, sample, prompt, text, length in zip(*columns, strict=True):
                if sample == 0 and 0 < length < (protocol.shortest_tokens or 0):
                    short.add((player, example))
                if prompts.setdefault(example, prompt if protocol.prompt else "") != prompt and protocol.prompt:
                    raise DataError(
                        f"{run.folder}: {example} has another prompt than in another run: rate runs of one task"
                    )
                earlier = player_texts.setdefault(example, text) if sample == 0 else text
                if earlier != text and player == core.HUMAN:
                    if not protocol.prompt and (earlier.startswith(text) or text.startswith(earlier)):
                        cut_differently = True
                        continue
                    raise DataError(
                        f"{run.folder}: {example} has another human text than in another run: rate runs of one task, "
                        "max_new_tokens and tokenizer (--where, or name the runs)"
                    )
    excluded = frozenset[str]()
    if exclude is not None:
        with core.open_text(exclude) as handle:
            excluded = frozenset(line.strip() for line in handle if line.strip())
        if not excluded:
            raise SpecError(f"--exclude {exclude}: expected example ids, one per line; the file is empty")
    players = tuple(player for player in texts if player != core.HUMAN or not cut_differently)
    material = select_usable_texts(players, prompts, texts, lengths, protocol, excluded, short)
    material = replace(material, texts_ids=texts_ids, runs=runs)
    note = ("human texts left out: the runs cut them at different lengths",)
    return replace(material, remarks=material.remarks + note) if cut_differently else material


def select_usable_texts(
    players: Sequence[str], prompts: Mapping[str, str], texts_by_player: Mapping[str, Mapping[str, str]],
    lengths: Mapping[str, int], protocol: StudyProtocol, excluded: frozenset[str] = frozenset(),
    too_short: Collection[tuple[str, str]] = frozenset(),
) -> StudyTexts:  # fmt: skip
    """Keep the prompts that every player has a text for, and of these the texts that are long enough; cut the texts.

    A study of pairs needs two long texts of a prompt, one of ratings those of all players.
    """
    longest = max(lengths.values(), default=0)
    if protocol.longest_tokens is not None and protocol.cut_words is None and longest > protocol.longest_tokens:
        raise DataError(
            f"texts of up to {longest} tokens, the protocol has {protocol.longest_tokens}: run with "
            f"max_new_tokens={protocol.longest_tokens}, or give --cut-words N or --longest-tokens null"
        )
    everywhere = [e for e in sorted(prompts) if all(e in texts_by_player[p] for p in players)]
    unknown = sorted(excluded - set(prompts))
    if unknown:
        raise DataError(f"exclude: no example {unknown[0]!r} in these runs")
    texts: dict[str, dict[str, str]] = {}
    by_chars = core.mostly_lack_spaces(text for of_player in texts_by_player.values() for text in of_player.values())
    short = 0
    for example in (e for e in everywhere if e not in excluded):
        cut_texts = {p: texts_by_player[p][example] for p in players}
        if protocol.cut_words is not None:
            cut_texts = {p: core.take_first_words(text, protocol.cut_words, by_chars) for p, text in cut_texts.items()}
        long_texts = {player: text for player, text in cut_texts.items() if len(text.split()) >= protocol.min_words}
        usable = {player: text for player, text in long_texts.items() if (player, example) not in too_short}
        short += len(cut_texts) - len(usable)
        if len(usable) == len(players) or (protocol.kind == "pairs" and len(usable) >= 2):
            texts[example] = usable
    remarks = [
        f"{count} prompts left out: {why}"
        for count, why in (
            (len(prompts) - len(everywhere), "not every system has a text for them"),
            (len(excluded & set(everywhere)), "named in exclude"),
        )
        if count
    ]
    if short:
        limits = f"{protocol.min_words} words" + f" or {protocol.shortest_tokens} tokens" * bool(
            protocol.shortest_tokens
        )
        what = "their pairs" if protocol.kind == "pairs" else "their prompts"
        remarks.append(f"{short} texts have fewer than {limits}: {what} are left out")
    if not texts:
        raise DataError(f"no prompt is left to be rated ({'; '.join(remarks) or 'the runs hold none'})")
    uncounted = [player for player in players if not lengths.get(player)]
    if uncounted and protocol.longest_tokens is not None and protocol.cut_words is None:
        whose = f"the texts of {', '.join(uncounted)} have no tokens"
        remarks.append(f"longest_tokens={protocol.longest_tokens} is not checked: {whose}; --cut-words N cuts them")
    return StudyTexts(tuple(players), {e: prompts[e] for e in texts}, texts, tuple(remarks))


CONTROL = "control/"  # prefix of the example id of a control item


@dataclass(frozen=True, slots=True)
class Control:
    """One control item with its expected answer."""

    prompt: str
    texts: tuple[str, ...]  # `pairs`: A and B; `ratings`: one
    expected: str  # `pairs`: `a`, `b` or `tie`; `ratings`: `low..high`, the ratings that pass
    criterion: str  # the question that is checked

    def accepts(self, answer: AnswerChoice) -> bool:
        if answer.rating is None:
            return answer.outcome == self.expected
        low, _, high = self.expected.partition("..")
        return float(low) <= answer.rating <= float(high)


def read_controls(path: Path, protocol: StudyProtocol) -> tuple[Control, ...]:
    """Read a CSV or JSON-lines file of controls.

    Columns: `prompt`; `text_a`, `text_b` (or `text`); `expected` (`a`, `b` or `tie`; a rating, or `4..5`);
    `criterion` where the protocol has several questions (else all mean the first).
    """
    columns, rows = read_rows(path)
    names = ("text_a", "text_b") if protocol.kind == "pairs" else ("text",)
    missing = [name for name in ("prompt", *names, "expected") if name not in columns]
    if missing:
        raise DataError(f"{path}: expected the columns prompt, {', '.join(names)}, expected; no {missing[0]!r} there")
    controls = []
    for row in rows:
        criterion = row.text("criterion") if "criterion" in columns else next(iter(protocol.questions))
        if criterion not in protocol.questions:
            raise DataError(
                f"{row.where}: criterion: no question {criterion!r}{suggest(criterion, protocol.questions)}"
            )
        expected = _parse_expected(row.text("expected"), protocol.choices, row.where)
        controls.append(Control(row.text("prompt"), tuple(row.text(n) for n in names), expected, criterion))
    return tuple(controls)


def _parse_expected(text: str, answers: Sequence[AnswerChoice], where: str) -> str:
    outcomes = sorted({str(answer.outcome) for answer in answers if answer.outcome})
    if outcomes:
        if text.lower() not in outcomes:
            raise DataError(f"{where}: expected: one of {', '.join(outcomes)}, got {text!r}")
        return text.lower()
    low, _, high = text.partition("..")
    try:
        ends = float(low), float(high or low)
    except ValueError as err:
        raise DataError(f"{where}: expected: a rating, or two as 4..5, got {text!r}") from err
    ratings = [answer.rating for answer in answers if answer.rating is not None]
    if not any(ends[0] <= rating <= ends[1] for rating in ratings):
        raise DataError(
            f"{where}: expected: no answer is in {text!r}; ratings go from {min(ratings):g} to {max(ratings):g}"
        )
    return f"{ends[0]:g}..{ends[1]:g}"


@dataclass(frozen=True, slots=True)
class RatingTask:
    """One item that one rater rates."""

    id: str  # id on sheets; it does not reveal prompt or players
    example: str
    sides: tuple[str, ...]  # `pairs`: the players shown as A and B; `ratings`: the player; of a control empty

    @property
    def is_control(self) -> bool:
        """True for an item whose answer is known."""
        return self.example.startswith(CONTROL)


def derive_opaque_id(secret: bytes, *words: str | int) -> str:
    """Return an id that can be traced back only with the secret."""
    text = "\x1f".join(map(str, words)).encode()
    return hmac.new(secret, text, hashlib.sha256).hexdigest()[:20]


def design_study(
    material: StudyTexts, protocol: StudyProtocol, *, controls: Sequence[Control], secret: bytes, seed: int,
    people: int | None = None,
) -> list[list[RatingTask]]:  # fmt: skip
    """Draw prompts, choose sides, and assign all tasks to sheets, as many as people; return the tasks of each sheet."""
    check_sizes(material, protocol, people, len(controls))
    examples = sorted(material.texts)
    draw_tasks = _draw_pairs if protocol.kind == "pairs" else _draw_singles
    tasks = draw_tasks(material, protocol, examples, secret, seed)
    controls_a_sheet = min(protocol.controls_a_sheet, len(controls))
    if people is not None:
        rated_items, count = math.ceil(len(tasks) / people), people
    else:
        rated_items = max(1, protocol.items_a_sheet - controls_a_sheet)
        count = max(math.ceil(len(tasks) / rated_items), protocol.raters)
    dealt = _deal_tasks(tasks, count, rated_items, seed)
    sheets = []
    for number, sheet in enumerate(dealt):
        rng = core.make_random_stream(seed, "sheet", number)
        chosen = rng.permutation(len(controls))[:controls_a_sheet]
        checks = [
            RatingTask(derive_opaque_id(secret, "control", number, int(c)), f"{CONTROL}{int(c)}", ()) for c in chosen
        ]
        both = [*sheet, *checks]
        sheets.append([both[i] for i in rng.permutation(len(both))])
    return sheets


def check_sizes(material: StudyTexts, protocol: StudyProtocol, people: int | None, num_controls: int) -> None:
    """Raise `SizesError` with all options to set, if there are too few prompts, or too few people for the raters."""
    prompts, each = count_prompts(material, protocol), len(material.players)
    unit = "text"
    if protocol.kind == "pairs":
        each, unit = math.comb(each, 2), "pair"
    problems, flags = [], {}
    if protocol.items > prompts:
        of = " for each pair of systems" if unit == "pair" else ""
        problems.append(f"items={protocol.items}: there are {prompts} prompts{of}")
        flags["items"] = prompts
    if people is not None and each * protocol.raters > people:
        flags |= {"raters": max(people // each, 1)} | ({"people": each} if people < each else {})
        subject = f"each of the {each} {unit}s" if each > 1 else f"the {unit}"
        needed = "a rater" if protocol.raters == 1 else f"{protocol.raters} raters"
        problems.append(
            f"people={people}: {subject} of a prompt needs {needed}, and nobody sees a prompt twice: "
            f"that takes {each * protocol.raters} people"
        )
    items, raters = (int(flags.get(name, getattr(protocol, name))) for name in ("items", "raters"))
    most = items if unit == "text" else len(material.texts)
    on_a_sheet = max(1, protocol.items_a_sheet - min(protocol.controls_a_sheet, num_controls))
    tasks = each * items * raters
    if people is None and math.ceil(tasks / max(math.ceil(tasks / on_a_sheet), raters)) > most:
        problems.append(f"items_a_sheet={protocol.items_a_sheet}: nobody sees a prompt twice, and there are {most}")
        flags["items-a-sheet"] = most
    if problems:
        raise SizesError("; ".join(problems), flags)


class SizesError(SpecError):
    """Sizes that do not fit together, with the options that fit."""

    def __init__(self, problem: str, flags: Mapping[str, int]) -> None:
        self.problem, self.flags = problem, flags
        super().__init__(f"{problem}; set {' '.join(f'--{name} {value}' for name, value in flags.items())}")


def count_prompts(material: StudyTexts, protocol: StudyProtocol) -> int:
    """Return how many items a study can have: prompts of the pair of players with the fewest, or all."""
    pairs = itertools.combinations(material.players, 2) if protocol.kind == "pairs" else ()
    return min((len(material.list_examples(*pair)) for pair in pairs), default=len(material.texts))


def _draw_pairs(
    material: StudyTexts, protocol: StudyProtocol, examples: Sequence[str], secret: bytes, seed: int
) -> list[RatingTask]:
    """Draw `items` prompts without replacement for every pair of players; the sides alternate."""
    pairs = list(itertools.combinations(material.players, 2))
    order = {}
    for pair in pairs:
        shuffled = core.make_random_stream(seed, "prompts", *pair).permutation(len(examples))
        usable = set(material.list_examples(*pair))
        order[pair] = [examples[e] for e in shuffled if examples[e] in usable]
    first = {pair: int(core.make_random_stream(seed, "side", *pair).integers(2)) for pair in pairs}
    tasks = []
    for k in range(protocol.items):
        # In blocks of all pairs, so that any prefix of the tasks is balanced.
        for p in core.make_random_stream(seed, "block", k).permutation(len(pairs)):
            pair = pairs[p]
            example = order[pair][k]
            for copy in range(protocol.raters):
                sides = pair if (k + copy + first[pair]) % 2 == 0 else pair[::-1]
                tasks.append(RatingTask(derive_opaque_id(secret, "pair", example, *pair, copy), example, sides))
    return tasks


def _draw_singles(
    material: StudyTexts, protocol: StudyProtocol, examples: Sequence[str], secret: bytes, seed: int
) -> list[RatingTask]:
    """Draw `items` prompts for the texts of all players, each rated by `raters`."""
    chosen = sorted(core.make_random_stream(seed, "prompts").choice(len(examples), size=protocol.items, replace=False))
    tasks = []
    for copy in range(protocol.raters):
        texts = [(examples[e], player) for e in chosen for player in material.players]
        for t in core.make_random_stream(seed, "block", copy).permutation(len(texts)):
            example, player = texts[t]
            tasks.append(RatingTask(derive_opaque_id(secret, "text", example, player, copy), example, (player,)))
    return tasks


def _deal_tasks(tasks: Sequence[RatingTask], count: int, most: int, seed: int) -> list[list[RatingTask]]:
    """Assign each task to one of the emptiest sheets without its prompt, where its players are rarest.

    A task that fits on no sheet starts a new one. A sheet is example → task.
    """
    sheets: list[dict[str, RatingTask]] = [{} for _ in range(count)]
    rng = core.make_random_stream(seed, "deal")
    for task in tasks:
        free = [sheet for sheet in sheets if len(sheet) < most and task.example not in sheet]
        if not free:
            free = _free_a_slot(sheets, task, most)
        if not free:
            sheets.append({})
            free = sheets[-1:]
        least = min(map(len, free))
        near = [sheet for sheet in free if len(sheet) <= least + 1]
        draw = rng.random(len(near))
        best = min(range(len(near)), key=lambda i: (*_measure_load(near[i], task), draw[i]))
        near[best][task.example] = task
    return [list(sheet.values()) for sheet in sheets if sheet]


def _measure_load(sheet: Mapping[str, RatingTask], task: RatingTask) -> tuple[int, int, int]:
    """Return how often the players of a task and their pair are on a sheet, and the sheet's size."""
    sides = [other.sides for other in sheet.values()]
    players = sum(player in of for of in sides for player in task.sides)
    return players, sum({*of} == {*task.sides} for of in sides), len(sheet)


def _free_a_slot(sheets: Sequence[dict[str, RatingTask]], task: RatingTask, most: int) -> list[dict[str, RatingTask]]:
    """Move a task from a full sheet without this prompt to one that has room and the prompt; returns the first."""
    for room in (sheet for sheet in sheets if len(sheet) < most):
        for full in (sheet for sheet in sheets if task.example not in sheet):
            moved = next((example for example in full if example not in room), None)
            if moved is not None:
                room[moved] = full.pop(moved)
                return [full]
    return []


KEY = "key.json"
_SCHEMA = 3
_PRIVATE = 0o600


@dataclass(frozen=True)
class StudyKey:
    """The confidential part of a study: the origin of each item."""

    study: str  # its id, which is on every sheet
    secret: str  # hexadecimal
    created: str
    protocol: StudyProtocol
    material: StudyTexts
    tasks: tuple[RatingTask, ...]
    sheets: Mapping[str, tuple[str, ...]]  # name of a sheet → ids of its items, in order
    controls: tuple[Control, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[str, RatingTask]:
        return {task.id: task for task in self.tasks}

    def show_item(self, task: RatingTask) -> tuple[str, tuple[str, ...]]:
        """Return the prompt and the texts of an item, as raters see them, stripped of surrounding blanks."""
        if task.is_control:
            control = self.control(task)
            return control.prompt.strip(), tuple(text.strip() for text in control.texts)
        texts = self.material.texts[task.example]
        return self.material.prompts[task.example].strip(), tuple(texts[player].strip() for player in task.sides)

    def control(self, task: RatingTask) -> Control:
        return self.controls[int(task.example.removeprefix(CONTROL))]

    def save(self, folder: Path) -> Path:
        path = folder / KEY
        if path.exists():
            raise DataError(f"{folder} holds a study whose key would be lost; choose another folder with -o")
        with core.open_for_replacement(path) as handle:
            make_private(handle)
            json.dump(core.to_json({"schema": _SCHEMA, "key": self}), handle, ensure_ascii=False, allow_nan=False)
        return path


def make_private(handle: IO[Any]) -> None:
    """Make an open file readable only by its owner, before anything is written to it."""
    os.chmod(handle.fileno() if os.chmod in os.supports_fd else handle.name, _PRIVATE)


def read_key(path: Path) -> StudyKey:
    """Read the key of a study, given its file or its folder."""
    file = path / KEY if path.is_dir() else path
    if not path.exists():
        raise DataError(f"no such file: {path}; openended rate make RUNS -o {path} makes a study")
    if path.is_dir() and not file.exists():
        raise DataError(f"{path}: is no study, it has no {KEY}; openended rate make writes one")
    node = core.read_json(file)
    if not isinstance(node, Mapping) or node.get("schema") != _SCHEMA:
        raise DataError(f"{file}: not the key of a study; `openended rate make` writes key.json")
    return core.decode(StudyKey, node.get("key"), str(file))
