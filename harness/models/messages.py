"""Messages of conversations: their roles, texts and reasoning."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from openended.harness.core import DataError, Json

REASONING_FIELDS = ("reasoning", "reasoning_content")
"""Fields of a message with its reasoning: of vLLM, and of DeepSeek, SGLang, llama.cpp and earlier versions of vLLM."""


# What other programs call a role and the content of a message, and the roles.
_TEXTS = (None, "text", "output_text")  # types of the parts of a message's content that are its text
_ROLES, _CONTENTS = ("role", "from", "author", "speaker", "sender"), ("content", "value", "text", "parts")
_ALIASES = {"human": "user", "prompter": "user", "user": "user"} | dict.fromkeys(
    ("assistant", "gpt", "chatgpt", "bot", "chatbot", "ai", "model", "bing", "bard"), "assistant"
)


class Message(NamedTuple):
    """A turn of a conversation."""

    role: str
    text: str
    reasoning: str | None = None


def find_message(value: Any) -> dict[str, Any] | None:  # noqa: ANN401 - JSON
    """Return an object with a role and a text, or a pair of the two, as `{"role", "content", …}`; None for others."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(part, str | None) for part in value):
        value = {"role": value[0], "content": value[1]}
    if not isinstance(value, Mapping):
        return None
    role = next((value[name] for name in _ROLES if isinstance(value.get(name), str) and value[name]), None)
    content = next((value[name] for name in _CONTENTS if name in value), ...)
    if role is None or content is ...:
        return None
    if isinstance(content, Mapping) and isinstance(content.get("answer"), str):  # of Arena-Hard
        content = content["answer"]
    return {**value, "role": _ALIASES.get(role.lower(), role), "content": content}


def is_conversation(value: Any) -> bool:  # noqa: ANN401 - JSON
    """Return whether a value is a list of messages, at least one of them of a person or a model."""
    messages = [find_message(item) for item in value] if isinstance(value, list) else []
    roles = {message["role"] for message in messages if message is not None}
    return bool(messages) and None not in messages and bool(roles & {"user", "assistant"})


def read_message(message: Mapping[str, Any], where: str) -> tuple[str | None, str]:
    """Return the reasoning of a message, in a field or in parts of its content, and its text, which may be a refusal.

    A message without a text ended inside its reasoning, which the server may keep for itself: the reasoning is then
    an empty text at least.

    Raises:
        DataError: If a field is no text; the message starts with `where`.
    """
    content, thoughts = message.get("content"), [message.get(name) for name in REASONING_FIELDS]
    content = message.get("refusal") if content is None else content
    if isinstance(content, list):  # parts, of which only some have text; a thought may have parts too
        parts = [part if isinstance(part, Mapping) else {"text": part} for part in content]
        nested = [p.get(p["type"]) for p in parts if p.get("type") in ("reasoning", "thinking")]
        nested += [p.get("text") for p in parts if p.get("thought") is True]  # of Gemini
        thoughts.append("\n\n".join(filter(None, (read_message({"content": thought}, where)[1] for thought in nested))))
        rest = [p for p in parts if p.get("type") in _TEXTS and p.get("thought") is not True]
        texts = [text for p in rest if isinstance(text := p.get("text"), str)]
        content = "".join(texts) if texts else None
    for name, value in (("content", content), *((REASONING_FIELDS[0], thought) for thought in thoughts)):
        if not isinstance(value, str | None):
            raise DataError(f"{where}{name}: expected text, got {type(value).__name__}")
    thought = next(filter(None, thoughts), None)
    return (thought or "" if content is None else thought), content or ""


def read_messages(value: Any, where: str) -> list[Message]:  # noqa: ANN401 - JSON
    """Read the messages of a conversation.

    Raises:
        DataError: If it has none, or one has no role or no text; the message starts with `where`.
    """
    if not isinstance(value, list) or not value:
        raise DataError(f"{where}: field 'messages': expected a list of messages, got {value!r:.40}")
    messages = []
    for number, item in enumerate(value, start=1):
        is_call = isinstance(item, Mapping) and item.get("tool_calls") and not item.get("content")
        if is_call and number < len(value):  # the last message is the answer, which may be empty
            continue
        message = find_message(item) or (find_message({"content": None, **item}) if isinstance(item, Mapping) else None)
        if message is None:
            raise DataError(f"{where}: message {number}: expected an object with role and content, got {item!r:.40}")
        reasoning, text = read_message(message, f"{where}: message {number}: ")
        messages.append(Message(message["role"], text, reasoning))
    return messages


def make_turns(messages: Sequence[Message], where: str) -> tuple[str, dict[str, Json]]:
    """Return the prompt that a conversation is, as text and as the `meta` of an example, from which turns are read."""
    if not messages or messages[-1].role != "user":
        got = messages[-1].role if messages else "none"
        raise DataError(f"{where}: expected a user's message before the answer, got {got}")
    before: list[Json] = [{"role": m.role, "content": m.text} for m in messages[:-1]]
    meta: dict[str, Json] = {"user": messages[-1].text, "assistant": "", "before": before}
    return "\n\n".join(m.text for m in messages), meta
