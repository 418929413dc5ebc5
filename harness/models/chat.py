"""Put prompts of instruction models into the tokenizer's chat template.

In the way of Le Bronnec et al. 2024 (Exploring Precision and Recall to assess the quality and diversity of LLMs): the
prompt is the user's turn but for its last word, which opens the assistant's turn, so that the continuation starts in
the middle of a sentence. A task may say itself where its prompts part, by `user` and `assistant` in an example's meta.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from openended.harness.core import DataError, Json, digest, shorten_error
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import load_transformers_tokenizer

# The last word of a text, with the whitespace after it.
_LAST = re.compile(r"\S+\s*\Z")
# Vicuna's form, which is in none of its files (Le Bronnec et al. 2024, Table B.3).
VICUNA = (
    "{{ bos_token }}{% for m in messages %}{{ 'USER: ' if m['role'] == 'user' else 'ASSISTANT: ' }}{{ m['content'] }}"
    "{{ '\\n' if m['role'] == 'user' else eos_token }}{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
# Stands for an assistant's turn when the template is asked what follows one.
_SENTINEL = "openended"


class Turns(NamedTuple):
    """A prompt split into two turns."""

    user: str  # the user's turn
    assistant: str  # the beginning of the assistant's turn; may be empty
    before: Sequence[Mapping[str, str]] = ()  # the turns before, each with its role and content

    @property
    def messages(self) -> list[Mapping[str, str]]:
        """All turns up to the user's last one."""
        return [*self.before, {"role": "user", "content": self.user}]


@dataclass(frozen=True)
class ChatTemplate:
    """A tokenizer's chat template."""

    name: str  # the model's path, for errors
    inner: Any  # A transformers tokenizer that has a template
    arguments: Mapping[str, Any] | None = None  # further arguments of the template

    @property
    def digest(self) -> str:
        arguments = [dict(self.arguments)] if self.arguments else []
        return digest(["chat template", self.inner.chat_template, *arguments])

    @cached_property
    def start(self) -> str:
        """The text before the assistant's turn, including its opening tag of reasoning."""
        return self.render(Turns(_SENTINEL, "")).rpartition(_SENTINEL)[2]

    def render(self, turns: Turns) -> str:
        """Return the text that the model reads, special tokens written out, up to where its continuation starts."""
        messages = turns.messages
        if not turns.assistant.strip():
            return self._apply(messages, add_generation_prompt=True)
        text = self._apply([*messages, {"role": "assistant", "content": turns.assistant}], continue_final_message=True)
        if not text.endswith((turns.assistant, turns.assistant.rstrip())):
            raise DataError(f"model {self.name}: its chat template changes the assistant's turn {turns.assistant!r}")
        return text

    def end(self) -> int | None:
        """Return the token that ends an assistant's turn: the special token after it; None if there is none."""
        messages = [{"role": "user", "content": _SENTINEL}, {"role": "assistant", "content": _SENTINEL}]
        rest = self._apply(messages).rpartition(_SENTINEL)[2]
        special_ids = {token.content: int(i) for i, token in self.inner.added_tokens_decoder.items()}
        starts = [name for name in special_ids if name and rest.lstrip().startswith(name)]
        return special_ids[max(starts, key=len)] if starts else None

    def _apply(self, messages: Sequence[Mapping[str, str]], **options: bool) -> str:
        from jinja2 import TemplateError

        errors = (ArithmeticError, AttributeError, LookupError, RecursionError, TemplateError, TypeError, ValueError)
        try:
            return str(
                self.inner.apply_chat_template(messages, tokenize=False, **{**(self.arguments or {}), **options})
            )
        except errors as err:
            raise DataError(
                f"model {self.name}: its chat template does not take the prompt ({shorten_error(err)})"
            ) from err


def load_template(spec: ModelSpec) -> ChatTemplate:
    """Load the chat template of a model's tokenizer; no weights."""
    inner = load_transformers_tokenizer(spec)
    if spec.chat_template == "vicuna":
        inner.chat_template = VICUNA
    if not inner.chat_template:
        raise DataError(f"model {spec.path}: its tokenizer has no chat template; set model.chat_template=false")
    return ChatTemplate(spec.path, inner, spec.chat_template_kwargs)


def split_into_turns(prompt: str, meta: Mapping[str, Json]) -> Turns:
    """Split a prompt into turns as given by the task in `meta`, else before its last word."""
    user, assistant, before = meta.get("user"), meta.get("assistant"), meta.get("before")
    if isinstance(user, str) and isinstance(assistant, str):
        turns: Any = before if isinstance(before, list) else ()
        return Turns(user, assistant, turns)
    last = _LAST.search(prompt)
    at = last.start() if last else len(prompt)
    return Turns(prompt[:at].rstrip(), prompt[at:])
