"""Six families of templates, each with a text as its models write them; the reasoning has letters of its own."""

from pathlib import Path
from typing import NamedTuple

from openended.harness.models.chat import ChatTemplate

FOLDER = Path(__file__).parent / "fixtures" / "chat_templates"
LETTER = "ζ"
THOUGHT = "ζζζ ζζ ζζζζ\n\nζζ ζζζ"  # reasoning
ANSWER = "Return the number of rows, or None."


class Case(NamedTuple):
    family: str
    text: str  # as generated, with special tokens
    opened: bool = False  # the prompt ends with the opening tag


CASES = {
    "qwen3": Case("think", f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}"),
    "deepseek_r1": Case("think", f"{THOUGHT}\n</think>\n\n{ANSWER}", opened=True),
    "gpt_oss": Case("harmony", f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final"
                    f"<|message|>{ANSWER}"),
    "magistral": Case("mistral", f"[THINK]{THOUGHT}[/THINK]{ANSWER}"),
    "granite": Case("think", f"<think>{THOUGHT}</think><response>{ANSWER}</response>"),
    "exaone_deep": Case("thought", f"{THOUGHT}\n</thought>\n\n{ANSWER}", opened=True),
}  # fmt: skip


def load_case(name: str) -> tuple[ChatTemplate, str, str]:
    """Return the template of a family on a tokenizer of its own, a text as generated, and the family."""
    from transformers import AutoTokenizer

    from openended.harness.models import ModelSpec

    inner = AutoTokenizer.from_pretrained(str(ModelSpec(path="bundled:docs-s").folder))
    inner.chat_template = (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
    return ChatTemplate(name, inner), CASES[name].text, CASES[name].family
