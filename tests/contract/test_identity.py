"""Identity over all registered specs: no option can change without a key, a signature or a system changing with it."""

import dataclasses
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.backends.vllm.spec import VllmSpec
from openended.harness.core import Runtime, Spec, SpecError, build_signature, digest, load_members
from openended.harness.decoders.base import SamplingDecoder
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.transformers import ModelSpec
from openended.harness.report.build import make_tables
from openended.harness.results import SystemValue, group_systems, load_layout, read_results
from openended.harness.run.axes import collect_axes
from openended.harness.run.settings import JudgmentOptions, RunModels, Settings, TextOptions, build_tokens_spec
from openended.harness.storage.store import Recipe
from tests.harness.report.synthetic import result, write_run
from tests.helpers import cases, change_settings

ORDERED = ("distinct_n", "entropy", "ngram_diversity", "novelty", "repetition", "self_bleu")  # have `orders`
COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB = {"path": "somebody/gpt2-small", "revision": COMMIT}
LAYOUT = load_layout("default")


def made(cls: Any) -> Any:
    """A spec of the class; what has no default is a word."""
    if cls in (ModelSpec, VllmSpec):
        return cls(**HUB)
    if cls is ServerSpec:
        return cls(path="served", base_url="http://127.0.0.1:9", chat=True, revision=COMMIT)
    if cls is EmbedderSpec:
        return cls(**HUB, max_length=8)
    if issubclass(cls, SamplingDecoder) and cls.temperature == 1:
        return cls(temperature=0.7)  # at 1 the order of temperature and truncation makes no difference
    missing = [f.name for f in dataclasses.fields(cls) if f.default is f.default_factory is dataclasses.MISSING]
    return cls(**dict.fromkeys(missing, "word"))


def others(hint: Any, value: Any) -> list[Any]:
    """Values of a field's type that are not the one it has."""
    if isinstance(value, dict):
        return [{**value, "path": "bundled:docs-m"}]
    if get_origin(hint) is Literal:
        return [v for v in get_args(hint) if v != value]
    if get_origin(hint) is tuple:
        return [v for v in (value[:1], (*value, *value[-1:]), (1,), (0.5,), (2.0,), ("a",), ("length",)) if v != value]
    if hint is str:
        return ["f" * 40, "another", "bundled:docs-s", "{text}", "a {prompt}", "number"]
    if hint is bool:
        return [not value]
    if hint in (int, float):
        value = 0 if isinstance(value, str) else value
        return [hint(v) for v in (value + 1, value * 2, value * 0.9, value / 2, 2, 1, 3) if hint(v) != value]
    offered = [v for option in get_args(hint) if option is not type(None) for v in others(option, value or 0)]
    return [v for v in offered if v != value]


def changes(spec: Any) -> dict[str, Any]:
    """Field → the spec with another value of that field alone, as far as its own rules let it."""
    hints, found = get_type_hints(type(spec)), {}
    for field in dataclasses.fields(spec):
        # The tokenizer that cuts texts is named in the axes by its digest, so it has to be on this machine.
        values = ["bundled:docs-s"] if field.name == "tokens" else others(hints[field.name], getattr(spec, field.name))
        for value in values:
            try:
                found[field.name] = dataclasses.replace(spec, **{field.name: value})
            except (SpecError, TypeError):
                continue
            if found[field.name] == spec:  # another word for the same system
                del found[field.name]
                continue
            break
    return found


def settings(**parts: Any) -> Settings:
    embedder = EmbedderSpec(**HUB, kind="causal", pooling="last")
    models = RunModels(model=ModelSpec(**HUB), scorer=ModelSpec(**HUB), embedder=embedder)
    texts = TextOptions(num_examples=10, max_new_tokens=8, min_new_tokens=None, samples=1, seed=0, generations=None)
    base = Settings(
        experiment="x", task=made(load_members("task")["jsonl"]), decoder=load_members("decoder")["nucleus"](),
        texts=texts, models=models, metrics=(load_members("metric")["zipf"](),), runtime=Runtime(),
        outputs_dir=Path("outputs"),
    )  # fmt: skip
    return change_settings(base, **parts)


def specs() -> list[tuple[str, Any]]:
    """Every registered spec in its role; the scorer is a model."""
    found = [(role, made(cls)) for role in ("task", "decoder", "metric") for cls in load_members(role).values()]
    models = ((role, made(cls)) for role in ("model", "scorer") for cls in (ModelSpec, ServerSpec, VllmSpec))
    return [*found, *models, ("embedder", made(EmbedderSpec))]


SPECS = specs()
NAMES = [f"{role}-{spec.name}" for role, spec in SPECS]


@pytest.mark.parametrize(("role", "spec"), SPECS, ids=NAMES)
def test_a_class_that_moves_keeps_every_key(role, spec):
    facts = {"n": "5"}

    def keys() -> tuple[str, str]:
        return Recipe("stage", 1, {role: spec}, {}).key, build_signature(spec, facts)

    before = keys()
    cls: Any = type(spec)
    place = cls.__module__, cls.__qualname__
    try:
        cls.__module__, cls.__qualname__ = "somewhere.else", "Renamed"
        assert keys() == before
    finally:
        cls.__module__, cls.__qualname__ = place


@pytest.mark.parametrize(("role", "spec"), SPECS, ids=NAMES)
def test_group_name_version_and_every_option_move_the_key(role, spec, monkeypatch):
    def key(one: Spec) -> str:
        return Recipe("stage", 1, {role: one}, {}).key

    changed = {name: one for name, one in changes(spec).items() if name not in spec.unkeyed}
    assert len({key(one) for one in (spec, *changed.values())}) == 1 + len(changed)
    assert len({build_signature(one, {}) for one in (spec, *changed.values())}) == 1 + len(changed)
    left = {f.name for f in dataclasses.fields(spec)} - set(changed) - spec.unkeyed
    one_way = {"base_url", "endpoints"}  # an address alone, or several in its place
    # Only with a window, for another text, with each other, for another quantizer, or by the file that it is of.
    with_others = {
        "stride", "split", "group_field", "group_value", "training", "least_references",
        "chat_template_kwargs", "max_length", "text_field", "code",
    }  # fmt: skip
    # No other value was found of these; some decoders take one order alone.
    assert left <= {"temperature_order", *one_way, *with_others}
    before = key(spec)
    for name in ("group", "name"):
        with monkeypatch.context() as patch:
            patch.setattr(type(spec), name, "other")
            assert key(spec) != before
    monkeypatch.setattr(type(spec), "version", 99)
    assert key(spec) != before


@cases(
    "group, name, option, value",
    *(("metric", name, "orders", (3, 1, 2)) for name in ORDERED),
    ("metric", "rep_l", "lengths", (32, 16, 16)),
    ("metric", "mauve", "lambdas", (0.5, 0.2)),
    ("metric", "eps_ppl", "grid", (0.1, 0.01)),
    ("decoder", "dry", "breakers", (7, 3)),
)
def test_the_order_of_a_list_without_one_is_in_no_key_and_no_signature(group, name, option, value):
    cls = load_members(group)[name]
    given, reverse = (cls(**{option: items}) for items in (value, value[::-1]))
    assert (digest(given), build_signature(given, {})) == (digest(reverse), build_signature(reverse, {}))
    assert getattr(given, option) == tuple(sorted(value))


def record(folder: Path, used: Settings, value: float, *, human: bool) -> None:
    """Write the run that these settings would leave, with one value of the model and one of the human side."""
    metric = used.metrics[0] if used.metrics else None
    name = metric.name if metric else "m"
    sides = (("model", value), ("human", -value if human else -9.0))
    lines = [result(system, name, {name: one}, facts="task:t") for system, one in sides]
    for line in lines:
        if metric is not None:
            line["signature"] = build_signature(metric, {"n": "10", "task": "t"})
    titles = {"model": used.titles["model"], "title": used.titles["decoder"]}
    own = collect_axes(used, fingerprint="f" * 64)
    experiment = f"run{value:g}"
    write_run(folder, "nucleus", 0, results=lines, options={}, axes=own, experiment=experiment, **titles)


def check_apart(folder: Path, *, human: bool, count: int = 2) -> list[SystemValue]:
    """All values are in the report, of systems or columns of their own, and nothing is an average; return the values."""
    expected = [1.0 + number for number in range(count)]
    results = read_results([folder])
    items = results.values
    models = [i for i in items if i.system == "model"]
    assert sorted(i.mean for i in models) == expected
    assert {i.seeds for i in items} == {1}
    # A model with another tokenizer has human texts of its own, cut in its tokens; their value is the same here.
    sides = len({(i.axes.get("task.tokens"), i.axes.get("task.tokens.digest")) for i in models})
    right = [-value for value in expected[::-1]] if human else [-9.0] * sides
    assert sorted(i.mean for i in items if i.system == "human") == right
    tables = make_tables(results, LAYOUT, "t")
    cells = [c.value for t in tables for r in t.rows for c in r.cells if r.system == "model"]
    assert set(expected) <= set(cells)
    labels = [(t.name, r.label) for t in tables for r in t.rows]
    assert len(set(labels)) == len(labels)
    return items


REFUSED = ("scorer", "chat_template")  # only the model under test chats
IN_TITLE = ("label", "path", "chat_template", "chat", "dialect", "backend")


@pytest.mark.slow
@pytest.mark.parametrize(("role", "spec"), SPECS, ids=NAMES)
def test_runs_that_differ_in_one_option_are_never_merged(role, spec, tmp_path):
    """A run of the spec, and one of each that differs from it in one option."""
    part = {}
    if role == "task" and not spec.paired:
        part["generations"] = str(tmp_path / "texts.jsonl")
        (tmp_path / "texts.jsonl").write_text('{"text": "a"}\n')
    changed = {
        field: other
        for field, other in changes(spec).items()
        if (role, field) != REFUSED
        # the texts' digest differs
        and not (role == "task" and (field in ("path", "cache_dir") or field.endswith("_field")))
        and field not in getattr(spec, "connection_fields", ())  # how a server is reached: see test_openai
    }
    human = role in ("task", "scorer", "embedder", "metric")
    for number, one in enumerate((spec, *changed.values())):
        part |= {role: one} if role != "metric" else {"metrics": (one,)}
        if role == "task":
            part["tokens"] = build_tokens_spec(one)
        record(tmp_path, settings(**part), 1.0 + number, human=human)
    items = check_apart(tmp_path, human=human, count=1 + len(changed))
    if role in ("task", "model", "decoder", "scorer", "embedder"):
        labels = [s.name for s in group_systems(items)]
        assert len(set(labels)) == 1 + len(changed)
        for field in changed if role != "decoder" else ():
            # What changes the model's tokenizer is told by the tokens in which its texts are cut.
            names = ["tokens", field] if field in ("revision", "tokenizer") else [field]
            assert field in IN_TITLE or any(f"{name}=" in label for name in names for label in labels), (field, labels)


@pytest.mark.parametrize(
    "change",
    [{"num_examples": 11}, {"max_new_tokens": 9}, {"min_new_tokens": 3}, {"samples": 2}],
    ids=lambda c: next(iter(c)),
)
def test_runs_of_other_sizes_are_never_merged(change, tmp_path):
    human = "min_new_tokens" not in change
    record(tmp_path, settings(), 1.0, human=human)
    record(tmp_path, settings(**change), 2.0, human=human)
    check_apart(tmp_path, human=human)


@pytest.mark.parametrize("what", ["generations", "judgments"])
def test_files_of_one_name_in_two_folders_are_two_systems(what, tmp_path):
    for number, value in ((1, 1.0), (2, 2.0)):
        path = tmp_path / str(number) / "texts.jsonl"
        path.parent.mkdir()
        path.write_text(f"text {number}")
        imported = {"generations": str(path), "model": None, "decoder": None}
        used = settings(**imported if what == "generations" else {"judgments": JudgmentOptions(file=str(path))})
        record(tmp_path / "out", used, value, human=False)
    check_apart(tmp_path / "out", human=False)
