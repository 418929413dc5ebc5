"""Escape text for LaTeX and estimate its printed width."""

from __future__ import annotations

import unicodedata

from openended.harness.core import load_members

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "|": r"\textbar{}",
    "<": r"\textless{}", ">": r"\textgreater{}",
    "\"": r"\textquotedbl{}", "`": r"\textasciigrave{}", "±": r"$\pm$", "–": "--", "—": "---", "−": "$-$",
    "×": r"$\times$",
    "≪": r"$\ll$",
    "≈": r"$\approx$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "≤": r"$\leq$", "≥": r"$\geq$", "…": r"\ldots{}",
    "Δ": r"$\Delta$", "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "ε": r"$\epsilon$", "η": r"$\eta$",
    "θ": r"$\theta$", "κ": r"$\kappa$", "λ": r"$\lambda$", "μ": r"$\mu$", "π": r"$\pi$", "ρ": r"$\rho$",
    "σ": r"$\sigma$", "τ": r"$\tau$",
    "→": r"$\rightarrow$", "∞": r"$\infty$", "·": r"$\cdot$", "’": "'", "‘": "`", "“": "``", "”": "''",
    "†": r"$\dagger$", "\u00a0": "~",
    "∪": r"$\cup$", "²": r"$^2$", "‖": r"$\|$",
}  # fmt: skip
# Decoders and options whose names in an article are not those of the command line.
NAMES = {"dry": "DRY", "llada": "LLaDA", "mdlm": "MDLM", "remdm": "ReMDM", "xtc": "XTC", "top_n_sigma": "Top-nσ"}
GREEK = {"temperature": "T", "eps": "ε", "tau": "τ", "alpha": "α"}
OPTIONS = {
    "num_beams": " {value}", "b": " {value}", "no_repeat_ngram_size": " + no {value}-gram repeat",
    **{name: f", {letter}\u00a0=\u00a0{{value}}" for name, letter in GREEK.items()},
}  # fmt: skip
DIGIT, THIN, BROAD = 4.25, 2.5, 6.2  # widths of characters in points at 8 points (\\footnotesize)


def escape(text: str) -> str:
    """Escape text for LaTeX; letters that are neither ASCII nor similar to ASCII need XeLaTeX or LuaLaTeX."""
    return "".join(_escape_char(c) for c in text)


def _escape_char(char: str) -> str:
    if char in SPECIAL:
        return SPECIAL[char]
    if char.isascii():
        return char if char.isprintable() else " "
    if "À" <= char <= "ſ":  # in the encoding T1
        return char
    plain = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
    return "".join(SPECIAL.get(c, c) for c in plain) or char


def list_other_letters(text: str) -> list[str]:
    """Return the characters that pdfLaTeX does not print."""
    return sorted({char for char in text if char > "ſ"})


def write_label(text: str) -> str:
    r"""Write the name of a system as in an article: "Nucleus, p = 0.95" for `nucleus p=0.95`.

    >>> write_label("docs-s beam num_beams=4 no_repeat_ngram_size=4, length=96")
    'docs-s Beam 4 + no 4-gram repeat, length\xa0=\xa096'
    """
    names, decoders, out = {"human": "Human"}, load_members("decoder"), ""
    for word in text.split(" "):
        bare = word.removesuffix(",")
        name, sign, value = bare.partition("=")
        plain = name.replace("-", "_")
        if sign and plain.isidentifier():
            out += OPTIONS.get(plain, ", {name}\u00a0=\u00a0{value}").format(name=name.replace("_", " "), value=value)
        elif plain in decoders:
            out += " " + NAMES.get(plain, plain.replace("_", "-").capitalize())
        else:
            out += " " + names.get(bare, bare)
        out += "," if word.endswith(",") else ""
    return out.replace(",,", ",").strip(" ,")


def estimate_points(text: str) -> float:
    r"""Estimate the width of a text in points at \footnotesize."""
    broad = "mw±+=≈↑↓→"
    return sum(
        THIN if c in " \u00a0.,:;()[]|'ijl" else 8.0 if unicodedata.east_asian_width(c) in "WF" else
        BROAD if c.isupper() or c in broad else DIGIT for c in text
    )  # fmt: skip
