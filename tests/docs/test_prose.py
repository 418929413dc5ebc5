"""Check the prose of the documentation against a list of phrases that readers stumbled over."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Pattern → what to write instead.
PHRASES = {
    r"\bartefacts?\b": "artifact",
    r"\b(?:colou?red by hand|colour|neighbour|centre|behaviour|licence)s?\b": "American spelling",
    r"\b(?:tokenis|normalis|maximis|minimis|quantis|serialis|vectoris)\w+": "American spelling (-ize)",
    r"\bsomebody(?: else)?(?:'s)?\b|\banybody's\b": "others, another person",
    r"\bthat (?:lie|lies|stand|stands) (?:there|beside|in)\b": "existing, next to, in",
    r"\bstands? (?:beside|there|at|under)\b": "is next to, is in",
    r"\blies? (?:in|beside|under|there|within)\b(?! where)": "is in, is next to",
    r"\bgoes on (?:where|with|from|by|after)\b|\bgone on with\b|\bgo on (?:where|with|from)\b": "resumes",
    r"\b(?:is|are) (?:not )?believed\b|\bbelieves? (?:it|the server)\b": "passed the sampling check",
    r"\bpassed over\b": "skipped",
    r"\bin place of\b": "instead of",
    r"\bbeside\b": "next to, in addition to",
    r"\b(?:told|tell) apart\b|\btells? (?:\w+ ){1,3}apart\b": "separate",
    r"\bno luck\b": "failed",
    r"\bthe whole way\b": "complete",
    r"\bnobody (?:is|judges)\b": "no scorer, simulated",
    r"\b\d+ made, \d+ found\b|\bmade and found\b": "computed, cached",
    r"\bkilled without a word\b": "stopped unexpectedly",
    r"\bfor branches move\b": "because branches change",
    r"\btoy judges?\b": "outside its domain",
    r"\bwhat was measured\b": "measurements",
}
GENERATED = re.compile(r"<!-- (METRICS|DECODERS|TASKS) -->.*?<!-- /\1 -->", flags=re.DOTALL)  # docstrings of the code


def read_prose() -> dict[str, str]:
    """Return the text of every page, without code and without what is copied from docstrings."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    texts = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in pages}
    return {
        name: re.sub(r"```.*?```|`[^`\n]*`", "", GENERATED.sub("", text), flags=re.DOTALL)
        for name, text in texts.items()
    }


PAGES = read_prose()


@pytest.mark.parametrize("pattern", PHRASES)
def test_the_documentation_avoids_a_phrase(pattern):
    matches = [
        f"{name}: {match[0]!r}"
        for name, text in PAGES.items()
        for match in re.finditer(pattern, text, flags=re.IGNORECASE)
    ]
    assert not matches, f"write {PHRASES[pattern]}:\n" + "\n".join(matches)


def test_the_list_finds_the_phrases_it_names():
    sample = "A killed run goes on where it was; the artefact lies in the store beside it and is not believed."
    assert sum(bool(re.search(pattern, sample)) for pattern in PHRASES) >= 5


def test_comments_of_configurations_avoid_the_phrases_too():
    files = list((ROOT / "conf").rglob("*.yaml"))
    comments = {p: " ".join(re.findall(r"#(.*)", p.read_text(encoding="utf-8"))) for p in files}
    matches = [
        f"{path.relative_to(ROOT)}: {match[0]!r} (write {meaning})"
        for path, text in comments.items()
        for pattern, meaning in PHRASES.items()
        for match in re.finditer(pattern, text, flags=re.IGNORECASE)
    ]
    assert not matches, "\n".join(matches)


def test_every_term_of_the_glossary_has_two_sentences():
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^\*\*(.+?)\.?\*\* (.*?)(?=\n\n|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    terms = {term for term, _ in entries}
    assert len(entries) >= 30
    assert {
        "MAUVE",
        "Divergence frontier",
        "Quantization",
        "Gen-PPL",
        "Ceiling",
        "Signature",
        "Artifact",
        "System",
    } <= terms
    wrong = [term for term, body in entries if len(re.findall(r"[.!?](?:\s|$)", body.replace("e.g.", ""))) != 2]
    assert not wrong, f"write two sentences for {', '.join(wrong)}"
