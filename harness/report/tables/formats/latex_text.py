"""Escape text for LaTeX and estimate its printed width."""

from __future__ import annotations

import unicodedata

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
    "†": r"$\dagger$",
    "∪": r"$\cup$", "²": r"$^2$", "‖": r"$\|$",
}  # fmt: skip
DIGIT, THIN, BROAD = 4.25, 2.5, 6.2  # widths of characters in points at 8 points (\\footnotesize)


def escape(text: str) -> str:
    """Escape text for LaTeX; characters that pdfLaTeX lacks lose their accent or become `?`."""
    return "".join(_escape_char(c) for c in text)


def _escape_char(char: str) -> str:
    if char in SPECIAL:
        return SPECIAL[char]
    if char.isascii():
        return char if char.isprintable() else " "
    if "À" <= char <= "ÿ":
        return char
    plain = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
    return "".join(SPECIAL.get(c, c) for c in plain) or "?"


def estimate_points(text: str) -> float:
    r"""Estimate the width of a text in points at \footnotesize."""
    wide = (THIN if c in " .,:;()[]|'ijl" else BROAD if c.isupper() or c in "mw±≈↑↓→" else DIGIT for c in text)
    return sum(wide)
