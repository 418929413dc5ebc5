"""What a search varies, and what it seeks: values of metrics to maximize, minimize or bring near the human value.

The space is overrides in Hydra's sweep syntax (`decoder.p=interval(0.5,1)`), converted to parameters of Optuna. Those
of one choice alone stand under its name: `spaces.nucleus.p=interval(0.5,1)`. Every setting is run with each seed.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep, ValueType
from hydra.errors import HydraException

from openended.harness.app.hydra.grid import check_axes, check_grid_size
from openended.harness.core import GROUPS, DataError, Metric, SpecError, format_error, list_names, suggest
from openended.harness.storage import RunRecord

if TYPE_CHECKING:
    from optuna.trial import BaseTrial

DIGITS = 6  # significant digits of tried numbers, which keeps them readable
SEED = "seed"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One searched option: a choice among words, or a number from a range."""

    name: str  # name in the study: the option's key, or for example `nucleus.p` for an option of only one choice
    key: str  # key of the option
    choices: tuple[str, ...] = ()  # words, as they are typed; empty for a number
    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    log: bool = False
    whole: bool = False
    when: tuple[str, str] | None = None  # option and word that activate this parameter; None: always active

    def suggest(self, trial: "BaseTrial") -> str:
        """Let the study choose a value; return it as typed on the command line."""
        if self.choices:
            return str(trial.suggest_categorical(self.name, self.choices))
        if self.whole:
            step = int(self.step or 1)
            return str(trial.suggest_int(self.name, int(self.low), int(self.high), step=step, log=self.log))
        return format_number(trial.suggest_float(self.name, self.low, self.high, step=self.step, log=self.log))

    def ends(self) -> tuple[str, ...]:
        """Return the values to check before anything runs: every word, or the lowest and highest number."""
        return self.choices or tuple(str(int(v)) if self.whole else format_number(v) for v in (self.low, self.high))


@dataclass(frozen=True, slots=True)
class Space:
    """The searched options and the fixed ones."""

    fixed: tuple[str, ...]  # overrides from the command line and the experiment that every trial has
    parameters: tuple[Parameter, ...]  # always active parameters come first
    extra_words: Mapping[tuple[str, str], tuple[str, ...]]
    """(option, word) → overrides added when that word is chosen."""
    seeds: tuple[str, ...]  # every setting is run with each seed; an empty seed: the configured one

    def suggest(self, trial: "BaseTrial") -> dict[str, str]:
        """Let the study choose a setting; return option → value as typed."""
        chosen: dict[str, str] = {}
        for parameter in self.parameters:
            if parameter.when is None or chosen.get(parameter.when[0]) == parameter.when[1]:
                chosen[parameter.key] = parameter.suggest(trial)
        return chosen

    def words(self, chosen: Mapping[str, str], seed: str) -> list[str]:
        extra = [word for pair, words in self.extra_words.items() if chosen.get(pair[0]) == pair[1] for word in words]
        return [*self.fixed, *(f"{k}={v}" for k, v in chosen.items()), *extra, *([f"seed={seed}"] if seed else [])]

    def corners(self) -> Iterator[dict[str, str]]:
        """Yield settings that cover every word and both bounds of every number, varying one parameter at a time."""
        first = {p.key: p.ends()[0] for p in self.parameters if p.when is None}
        for parameter in self.parameters:
            for end in parameter.ends():
                outer = first | ({parameter.key: end} if parameter.when is None else dict([parameter.when]))
                inner = {p.key: p.ends()[0] for p in self.parameters if p.when and outer.get(p.when[0]) == p.when[1]}
                yield outer | inner | {parameter.key: end}


def format_number(value: float) -> str:
    """Format a number for the command line with `DIGITS` significant digits."""
    return repr(float(f"{value:.{DIGITS}g}"))


def parse_space(params: Mapping[str, Any], spaces: Mapping[str, Mapping[str, Any]], words: Sequence[str]) -> Space:
    """Read a space."""
    typed_keys = {_parse_word(word).key_or_group for word in words}
    # `null` removes an axis that comes from the experiment this one builds on.
    axes = {key: f"{key}={value}" for key, value in params.items() if value is not None and key not in typed_keys}
    seeds: tuple[str, ...] = ("",)
    parameters: list[Parameter] = []
    fixed: list[str] = []
    for override in (_parse_word(word) for word in (*axes.values(), *words)):
        typed = str(override.input_line)
        if override.key_or_group == SEED:
            if override.value_type == ValueType.INTERVAL_SWEEP:
                raise SpecError(f"{typed}: a seed is not searched: list those that every setting is run with, seed=0,1")
            seeds = (
                tuple(override.sweep_string_iterator()) if override.is_sweep_override() else (str(override.value()),)
            )
        elif override.is_sweep_override():
            parameters.append(_parse_parameter(override, override.key_or_group))
        else:
            fixed.append(typed)
    inner, extra = _parse_conditional(parameters, spaces)
    space = Space(tuple(fixed), (*parameters, *inner), extra, seeds)
    check_axes(parameter.key for parameter in space.parameters)
    if not space.parameters:
        raise SpecError("nothing to search: give an option a space, as in 'decoder.p=interval(0.5,1)'")
    return space


def _parse_conditional(
    searched: Sequence[Parameter], spaces: Mapping[str, Mapping[str, Any]]
) -> tuple[list[Parameter], dict[tuple[str, str], tuple[str, ...]]]:
    """Return the parameters of single choices, and the values that are set with them."""
    homes = {word: p.key for p in searched if p.key in GROUPS for word in p.choices}
    parameters: list[Parameter] = []
    extra: dict[tuple[str, str], tuple[str, ...]] = {}
    for choice, options in spaces.items():
        if choice not in homes:
            group = next((g for g in GROUPS if choice in list_names(g)), "decoder")
            hint = f": type {group}={choice},… to search over it, or {group}.OPTION=… if it is the only one"
            raise SpecError(f"spaces.{choice}: {choice} is none of the choices of this search{hint}")
        if not isinstance(options, Mapping):
            raise SpecError(f"spaces.{choice}: expected options with their values, as in spaces.{choice}.p=…")
        when = (homes[choice], choice)
        for option, value in options.items():
            override = _parse_word(f"{homes[choice]}.{option}={value}")
            if override.is_sweep_override():
                parameters.append(_parse_parameter(override, f"{choice}.{option}", when))
            else:
                extra[when] = (*extra.get(when, ()), str(override.input_line))
    return parameters, extra


def _parse_word(word: str) -> Override:
    try:
        return OverridesParser.create().parse_override(word)
    except (HydraException, ValueError) as err:
        raise SpecError(f"cannot read {word!r}: {format_error(err)[:120]}") from err


def _parse_parameter(override: Override, name: str, when: tuple[str, str] | None = None) -> Parameter:
    key, typed, value = override.key_or_group, str(override.input_line), override.value()
    tags: set[str] = set(getattr(value, "tags", ()))
    if unknown := tags - {"log"}:
        raise SpecError(f"{typed}: no tag {min(unknown)!r}; known: log")
    if override.value_type == ValueType.GLOB_CHOICE_SWEEP:
        raise SpecError(f"{typed}: wildcards are not allowed in a search: list the choices, as in {key}=a,b")
    if isinstance(value, IntervalSweep):
        low, high = float(value.start or 0), float(value.end or 0)
        parameter = Parameter(name, key, (), low, high, None, bool(tags), isinstance(value.start, int), when)
    elif isinstance(value, RangeSweep):
        check_grid_size([override])
        values = [float(text) for text in override.sweep_string_iterator()]
        is_integer = all(isinstance(v, int) for v in (value.start, value.stop, value.step))
        if len(values) < 2:
            raise SpecError(f"{typed}: expected two values or more, got {len(values)}")
        if tags:
            raise SpecError(f"{typed}: a range has equal steps: type tag(log,interval(…)) for a logarithm")
        low, high = min(values), max(values)
        parameter = Parameter(name, key, (), low, high, abs(float(value.step)), False, is_integer, when)
    else:
        words = tuple(dict.fromkeys(override.sweep_string_iterator()))
        if tags:
            raise SpecError(f"{typed}: log is for numbers: type tag(log,interval(…))")
        return Parameter(name, key, words, when=when)
    if not parameter.low < parameter.high:
        raise SpecError(f"{typed}: expected a first end below the second, got {parameter.low:g} and {parameter.high:g}")
    if parameter.log and parameter.low <= 0:
        raise SpecError(f"{typed}: a logarithm needs numbers above 0, got {parameter.low:g}")
    return parameter


def add_integer_hint(error: str, parameters: Sequence[Parameter]) -> str:
    """Add to an error what to type where an interval of fractions is given to an option of whole numbers."""
    for p in parameters:
        if not p.choices and not p.whole and p.key.rpartition(".")[2] in error.partition(":")[0]:
            return f"{error}; whole numbers are searched as int(interval({p.low:g},{p.high:g}))"
    return error


Aim = Literal["maximize", "minimize", "toward_human", "stop_if", "decide"]
AIMS: tuple[Aim, ...] = ("maximize", "minimize", "toward_human")


@dataclass(frozen=True, slots=True)
class Objective:
    """One value and its direction."""

    aim: Aim
    name: str  # `metric`, `metric.key`, or a key of one of the metrics

    @property
    def direction(self) -> Literal["maximize", "minimize"]:
        """The direction for Optuna; the distance to a human value is minimized."""
        return "maximize" if self.aim == "maximize" else "minimize"

    @property
    def title(self) -> str:
        """Name of the value, or of its distance to the human value."""
        return f"|Δ {self.name}|" if self.aim == "toward_human" else self.name

    def check(self, metrics: Sequence[Metric]) -> Metric:
        """Check that the runs will measure the value; return its metric."""
        by_name = {m.name: m for m in metrics}
        head, _, _ = self.name.partition(".")
        metric = by_name.get(head) or next((m for m in metrics if self.name in {*m.titles, *m.directions}), None)
        if metric is None:
            raise SpecError(
                f"{self.aim}: {self.name!r} is in none of metric=[{','.join(by_name)}]{suggest(head, by_name)}; "
                "add its metric, or name a value as metric.key"
            )
        if metric.reads_grid:
            raise SpecError(f"{self.aim}: {metric.name} is measured after the last run, so a search cannot use it")
        if self.aim == "toward_human" and metric.sides != "one":
            raise SpecError(
                f"toward_human: {metric.name} has no human value (it compares with the human text): maximize it"
            )
        return metric

    def value(self, record: RunRecord) -> float:
        """Read the value from the record of a finished run."""
        rows = [row for row in record.results if row.system == "model"]
        head, _, key = self.name.partition(".")
        row = next((row for row in rows if row.metric == head), None)
        if row is None:
            row, key = next((row for row in rows if self.name in row.values), None), self.name
        elif key and row.status == "ok" and key not in row.values:
            raise SpecError(f"{self.aim}: {head} has no value {key!r}{suggest(key, row.values)}")
        if row is None:
            raise DataError(f"{self.name} was not measured")
        key = key or row.primary
        value = row.values.get(key, math.nan)
        if not math.isfinite(value):
            raise DataError(f"{self.name} has no value: {'; '.join(row.notes) or row.status}")
        if self.aim != "toward_human":
            return value
        same = (r for r in record.results if (r.system, r.metric) == ("human", row.metric))
        human = next((r.values.get(key, math.nan) for r in same), math.nan)
        if not math.isfinite(human):
            raise DataError(f"toward_human: there is no human value of {self.name}")
        return abs(value - human)


def parse_objectives(node: Mapping[str, object]) -> tuple[Objective, ...]:
    """Read the objectives of a search from its options."""
    objectives: list[Objective] = []
    for aim in AIMS:
        value = node.get(aim) or []
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise SpecError(f"{aim}: expected a list of values, as in {aim}=[mauve], got {value!r:.60}")
        objectives += [Objective(aim, name) for name in names]
    if not objectives:
        raise SpecError(
            "no objective: say what to search for, maximize=[mauve], minimize=[…] or toward_human=[gen_ppl]"
        )
    names = [objective.name for objective in objectives]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SpecError(f"{min(twice)} is an objective twice: choose one of maximize, minimize and toward_human")
    return tuple(objectives)
