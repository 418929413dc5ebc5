"""The docs corpus: what is kept, what is dropped, and that nothing leaks between splits."""

from __future__ import annotations

import dataclasses
import sys
from itertools import combinations
from pathlib import Path

import pytest

from openended.tasks._docstrings import (
    DEFAULT_PACKAGES,
    TEST_SHARE,
    VALID_SHARE,
    Passage,
    fingerprint,
    load_passages,
    package_versions,
    split_of,
)
from openended.tasks._prose import prose_paragraphs

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
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


def load(workers: int = 1) -> dict[str, Passage]:
    return {p.id: p for p in load_passages(packages=("hues",), workers=workers)}


@pytest.mark.usefixtures("tree")
def test_prose_is_kept_and_the_rest_dropped() -> None:
    passages = load()
    assert passages["docs/hues.mixing/mix/0"].text == (
        "Mix two colours of the same family. "
        "The result of a and b is computed in linear light, which is what paint.blend and "
        "the palette do as well. "
        "Light is additive, pigments are not. "
        "Old screens need a correction before they show this."
    )
    assert passages["docs/hues.drying/dry/0"].text == "Wait until the paint is dry."
    assert "hues" not in sys.modules


@pytest.mark.usefixtures("tree")
def test_ids_name_the_definition_and_count_its_repetitions() -> None:
    passages = load()
    assert passages["docs/hues.mixing/mix.helper/0"].text == "Convert one colour to linear light."
    assert passages["docs/hues.mixing/Palette.take/0"].text == "Take a colour from the palette."
    assert passages["docs/hues.mixing/Palette.take/1"].text == "Take any colour that is left over."
    assert not [p for p in passages.values() if "test" in p.module or "broken" in p.module]


@pytest.mark.usefixtures("tree")
def test_a_paragraph_is_kept_once_and_the_first_module_wins() -> None:
    passages = load()
    # `a_copy` differs in case and punctuation only, and comes first by name.
    assert "docs/hues.a_copy/__doc__/0" in passages
    assert "docs/hues.mixing/__doc__/0" not in passages
    holders = [p.id for p in passages.values() if "sold in tins" in p.text]
    assert holders == ["docs/hues.shades.s00/__doc__/0"]


@pytest.mark.usefixtures("tree")
def test_no_sentence_is_in_two_splits() -> None:
    paragraphs: dict[str, set[str]] = {"train": set(), "valid": set(), "test": set()}
    for passage in load().values():
        paragraphs[passage.split].add(passage.text.split(". ")[0])
    assert all(paragraphs[split] for split in ("train", "test"))
    for one, other in combinations(paragraphs.values(), 2):
        assert not one & other


@pytest.mark.usefixtures("tree")
def test_split_is_one_of_a_module() -> None:
    for passage in load().values():
        assert passage.split == split_of(passage.package, passage.module)


def test_split_is_stable_and_has_its_shares() -> None:
    splits = [split_of("package", f"package.module{number}") for number in range(4000)]
    # Three standard deviations of a share near a quarter over 4,000 draws: 0.02.
    assert splits.count("test") / 4000 == pytest.approx(TEST_SHARE, abs=0.022)
    assert splits.count("valid") / 4000 == pytest.approx(VALID_SHARE, abs=0.011)
    # Frozen: the bundled models were trained on the split that this hash gives.
    assert [split_of("scipy", f"scipy.{name}") for name in "abcd"] == ["test", "train", "test", "train"]


@pytest.mark.usefixtures("tree")
def test_workers_change_nothing() -> None:
    alone = load_passages(packages=("hues",), workers=1)
    assert load_passages(packages=("hues",), workers=2) == alone
    assert len({p.id for p in alone}) == len(alone)


def test_fingerprint_follows_the_content(tree: Path) -> None:
    before = load_passages(packages=("hues",))
    assert fingerprint(before) == fingerprint(before[::-1])
    moved = [dataclasses.replace(before[0], split="valid"), *before[1:]]
    assert fingerprint(moved) != fingerprint(before)
    (tree / "drying.py").write_text('"""Wait until the paint is very dry."""\n')
    assert fingerprint(load_passages(packages=("hues",))) != fingerprint(before)


def test_attached_docstrings_are_read(tree: Path) -> None:
    (tree / "drying.py").write_text(
        'add_docstr(hues.dry, r"""dry(paint)\n\nDries the paint of a wall.""")\n'
        'add_newdoc("hues.core", "wet", """Wets the paint of a wall.""")\n'
        'print("""Prints are no documentation at all.""")\n'
    )
    found = {p.id: p.text for p in load().values() if p.module == "hues.drying"}
    assert found == {
        "docs/hues.drying/hues.dry/0": "Dries the paint of a wall.",
        "docs/hues.drying/wet/0": "Wets the paint of a wall.",
    }


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
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
    ],
)  # fmt: skip
def test_prose_of_one_docstring(docstring: str, expected: list[str]) -> None:
    assert prose_paragraphs(docstring) == expected


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        load_passages(packages=("no_such_package",))
    with pytest.raises(ValueError, match="at least 1, got 0"):
        load_passages(workers=0)


def test_versions_name_every_package() -> None:
    assert set(package_versions(("python", "numpy"))) == {"python", "numpy"}
    assert "python" in DEFAULT_PACKAGES
