"""The docs task: what the corpus keeps and drops, that nothing leaks between splits, and how passages become examples."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from openended.harness.core.errors import DataError
from openended.tasks import _docstrings, _passages, docs
from openended.tasks.docs import Docs
from tests.helpers import cases, check_error
from tests.tasks.reading import read, read_counted

NUMPY_STYLE = '''
"""Mixing of colours, as painters do it."""
# Not a docstring.
"""Nor is this string one, although it is a sentence."""


def mix(a, b):
    """Mix two colours of the same *family*.

    The result of `a` and ``b`` is computed in linear light [1]_, which
    is what :func:`~paint.blend` and :class:`the palette <paint.Palette>`
    do as well. It is written as::

        mix(red, blue)

    Parameters
    ----------
    a : Colour
        The first colour of the mixture.
    b : Colour
        The second colour of the mixture.

    Notes
    -----
    Light is additive, pigments are not.

    ====== =====
    Colour Shade
    ====== =====
    Red.   Dark.
    ====== =====

    .. versionadded:: 1.2
       The function was new in this version.

    .. note::
       Old screens need a correction before they show this.

    Examples
    --------
    The simplest mixture has two primary colours:

    >>> mix(red, blue)
    The doctest prints a sentence.

    References
    ----------
    .. [1] Somebody wrote a book about it.
    """

    def helper():
        """Convert one colour to linear light."""


class Palette:
    if True:
        def take(self):
            """Take a colour from the palette."""
    else:
        def take(self):
            """Take any colour that is left over."""
'''

GOOGLE_STYLE = '''
def dry(paint):
    r"""Wait until the paint is dry.

    Args:
        paint: This is the paint that has to dry.

    Returns:
        How long it took in hours.

    https://example.org/paint

    this paragraph starts like a fragment of code.

    The volume is \\\\(x^2\\\\) for a square of paint.

    - The first item is a sentence.
    - So is the second one of them.
    """
'''


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A package `hues` of a dozen modules, importable and yet failing if it is imported."""
    files = {
        "__init__.py": 'raise RuntimeError("imported")\n',
        "mixing.py": NUMPY_STYLE,
        "drying.py": GOOGLE_STYLE,
        "broken.py": 'def f(:\n    """This file is not valid Python."""\n',
        "tests/test_mixing.py": '"""Tests are never part of the corpus."""\n',
        "test_alone.py": '"""Tests are never part of the corpus at all."""\n',
        "a_copy.py": '"""Mixing of Colours as painters do it!"""\n',
    }
    for number in range(40):
        text = f"Shade number {'x' * number} is one of many. Everybody likes it."
        files[f"shades/s{number:02}.py"] = f'"""{text}\n\nAll shades are sold in tins.\n"""\n'
    root = tmp_path / "site"
    for name, content in files.items():
        path = root / "hues" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    monkeypatch.syspath_prepend(str(root))
    return root / "hues"


@pytest.fixture
def passages(tree):
    return {p.id: p for p in _docstrings.load_passages(packages=("hues",))}


def test_prose_is_kept_under_the_name_of_its_definition(passages):
    assert passages["docs/hues.mixing/mix/0"].text == (
        "Mix two colours of the same family. The result of a and b is computed in linear light, which is what paint.blend "
        "and the palette do as well. Light is additive, pigments are not. Old screens need a correction before they show this."
    )
    assert passages["docs/hues.drying/dry/0"].text == "Wait until the paint is dry."
    assert passages["docs/hues.mixing/mix.helper/0"].text == "Convert one colour to linear light."
    assert passages["docs/hues.mixing/Palette.take/0"].text == "Take a colour from the palette."
    assert passages["docs/hues.mixing/Palette.take/1"].text == "Take any colour that is left over."
    assert not [p for p in passages.values() if "test" in p.module or "broken" in p.module]
    # If it gives other passages, `docs.EXTRACTION` must change, and with it the keys of all runs on the task.
    assert _passages.fingerprint(list(passages.values()))[:16] == "161c8b3b30774bd7"
    assert "hues" not in sys.modules


def test_a_paragraph_is_kept_once_and_the_first_module_wins(passages):
    # `a_copy` differs in case and punctuation only, and comes first by name.
    assert "docs/hues.a_copy/__doc__/0" in passages
    assert "docs/hues.mixing/__doc__/0" not in passages
    holders = [p.id for p in passages.values() if "sold in tins" in p.text]
    assert holders == ["docs/hues.shades.s00/__doc__/0"]


def test_split_is_stable_and_has_its_shares():
    splits = [_docstrings.split_of("package", f"package.module{number}") for number in range(4000)]
    # Three standard deviations of a share near a quarter over 4,000 draws: 0.02.
    assert splits.count("test") / 4000 == pytest.approx(_docstrings.TEST_SHARE, abs=0.022)
    assert splits.count("valid") / 4000 == pytest.approx(_docstrings.VALID_SHARE, abs=0.011)
    # Frozen: the bundled models were trained on the split that this hash gives.
    assert [_docstrings.split_of("scipy", f"scipy.{name}") for name in "abcd"] == ["test", "train", "test", "train"]


def test_the_fingerprint_is_that_of_the_content_and_workers_change_nothing(tree):
    before = _docstrings.load_passages(packages=("hues",))
    assert _docstrings.load_passages(packages=("hues",), workers=2) == before
    assert len({p.id for p in before}) == len(before)
    assert _passages.fingerprint(before) == _passages.fingerprint(before[::-1])
    moved = [before[0]._replace(split="valid"), *before[1:]]
    assert _passages.fingerprint(moved) != _passages.fingerprint(before)
    (tree / "drying.py").write_text('"""Wait until the paint is very dry."""\n')
    assert _passages.fingerprint(_docstrings.load_passages(packages=("hues",))) != _passages.fingerprint(before)
    check_error(ModuleNotFoundError, "no_such_package", _docstrings.load_passages, packages=("no_such_package",))
    check_error(ValueError, "at least 1, got 0", _docstrings.load_passages, workers=0)
    assert set(_docstrings.package_versions(("python", "numpy"))) == {"python", "numpy"}
    assert "python" in _passages.DEFAULT_PACKAGES


def test_attached_docstrings_are_read(tree):
    (tree / "drying.py").write_text(
        'add_docstr(hues.dry, r"""dry(paint)\n\nDries the paint of a wall.""")\n'
        'add_newdoc("hues.core", "wet", """Wets the paint of a wall.""")\n'
        'print("""Prints are no documentation at all.""")\n'
    )
    attached = {p.id: p.text for p in _docstrings.load_passages(packages=("hues",)) if p.module == "hues.drying"}
    assert attached == {
        "docs/hues.drying/hues.dry/0": "Dries the paint of a wall.",
        "docs/hues.drying/wet/0": "Wets the paint of a wall.",
    }


@cases(
    "docstring, expected",
    ("", []),
    ("Too short here.", []),
    ("No full stop at the end", []),
    ("A line that leads to code:\n\n    x = f(y)", []),
    ("One whole sentence stays. The next one leads to code::\n\n    x = f(y)", ["One whole sentence stays."]),
    ("A\nheading of a text\n=================\n\nThe text below is kept.",
     ["The text below is kept."]),
    ("x : int\n    A parameter without any section.\n\nAfter it the prose goes on.",
     ["After it the prose goes on."]),
    ("Some prose stands first.\n>>> f(x)\nThe output is a sentence.\n\nSome prose stands last.",
     ["Some prose stands first.", "Some prose stands last."]),
    ("See [`Model`] and [the guide](https://example.org/guide) for more.",
     ["See Model and the guide for more."]),
    ("Note:\n    An indented note is prose.\n\nBack at the old margin now.",
     ["An indented note is prose.", "Back at the old margin now."]),
    ("```python\nThis is a comment.\n```", []),
)  # fmt: skip
def test_prose_of_one_docstring(docstring, expected):
    assert _docstrings.prose_paragraphs(docstring) == expected


# the task

LONG = " ".join(f"w{i}" for i in range(70)) + "."


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Made-up passages in place of the installed ones; returns how often they were parsed."""
    monkeypatch.setenv("OPENENDED_CACHE", str(tmp_path))
    texts = {f"f{i}": f"P{i} {LONG}" for i in range(9)} | {"short": "Too short.", "train": LONG}
    made_up = [
        _passages.Passage(f"docs/m/{name}/0", "numpy", "numpy.linalg", text, "train" if name == "train" else "test")
        for name, text in texts.items()
    ]
    calls = []

    def load(**_):
        calls.append(1)
        return made_up

    monkeypatch.setattr(_docstrings, "load_passages", load)
    return calls


def by_words(**change):
    return Docs(**{"prompt_unit": "words", "prompt_length": 12} | change)


@pytest.mark.usefixtures("corpus")
def test_prompt_and_human_are_the_passage():
    examples, skipped = read_counted(by_words())
    assert len(examples) == 9
    assert skipped == {"shorter than 60 words": 1}
    for example in examples:
        assert len(example.prompt.split()) == 12
        assert example.human.startswith(" w11")
        assert (example.prompt + example.human).endswith(LONG)
        assert example.meta == {"package": "numpy", "words": 71}
    ids = [e.id for e in examples]
    assert ids != sorted(ids)
    assert ids == [e.id for e in read(by_words(prompt_length=3))] == [e.id for e in read(by_words(min_words=71))]
    assert [e.id for e in read(by_words(split="train"))] == ["docs/m/train/0"]
    assert {text for _, text in by_words().documents(skipped)} == {e.prompt + e.human for e in examples}


def test_the_passages_are_cached_and_verified(tmp_path, corpus):
    first = read(by_words())
    (cached,) = (tmp_path / "docs").glob("*.json")
    assert read(by_words()) == first
    assert len(corpus) == 1
    for broken in (cached.read_text().replace("w1 ", "x1 ", 1), "", "no json", "[1]\n[2]\n"):
        cached.write_text(broken)
        assert read(by_words()) == first
    assert len(corpus) == 5


def test_of_two_that_need_the_passages_one_parses_and_one_waits(corpus, monkeypatch):
    parse = _docstrings.load_passages
    monkeypatch.setattr(_docstrings, "load_passages", lambda **_: (time.sleep(0.2), parse())[1])
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(docs.load_corpus, ["same", "same"])
    assert first == second
    assert len(corpus) == 1


@pytest.mark.usefixtures("corpus")
def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path):
    (tmp_path / "docs").write_text("a file where a folder should be")
    assert len(read(by_words())) == 9


def test_the_tasks_fingerprint_is_cheap_and_moves_with_the_installed_versions(corpus, monkeypatch):
    first = Docs().fingerprint()
    assert first == Docs(min_words=80).fingerprint()
    assert len(first) == 64
    assert not corpus, "planning must not parse the corpus"
    monkeypatch.setattr(docs, "_describe_installed", lambda package: f"{package} 0.0.0")
    assert Docs().fingerprint() != first
    monkeypatch.undo()
    monkeypatch.setattr(_passages, "DEFAULT_PACKAGES", ("no_such_package_here",))
    check_error(DataError, "no_such_package_here is not installed", Docs().fingerprint)


class Letters:
    """A tokenizer of four letters per token."""

    def encode(self, text):
        return [int.from_bytes(text[i : i + 4].encode(), "big") for i in range(0, len(text), 4)]

    def decode(self, ids):
        return b"".join(i.to_bytes(4, "big").lstrip(b"\0") for i in ids).decode()


@pytest.mark.usefixtures("corpus")
def test_prompts_of_the_models_tokens_have_one_length():
    assert Docs().needs_tokenizer()
    examples = read(Docs(), Letters())
    assert {len(Letters().encode(e.prompt)) for e in examples} == {20}
    assert all((e.prompt + e.human).endswith(LONG) for e in examples)
