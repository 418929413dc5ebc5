"""Choose which fields of a file's records hold texts and prompts, by their names and by what they hold.

A field is named by a path: `answers.text` goes into objects, and through a list to each of its items; a number picks
one of them.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from openended.harness.core import DataError, Json, SpecError, Stop, lacks_word_spaces, suggest
from openended.harness.imported.selection import Side
from openended.harness.models import find_message, is_conversation

Cells = Mapping[str, Any]
Records = Iterator[tuple[str, Cells]]  # (line or record of the file, fields)
DIFFUSION_FIELDS = ("generated_seqs", "text_samples")
"""Fields of papers on diffusion models, whose values over tokens say that these are not the ids as generated."""
NAMES: Mapping[Side, tuple[str, ...]] = {
    "system": tuple(
        "generation generated_text gen_text completion continuation output response generated_seqs text_samples "
        "gens_article article".split()
    ),
    "human": ("human", "human_text", "reference"),
}
"""Usual names of the field with the texts."""
IDS_FIELD = "token_ids"
IDS = ("id", "example_id")
ID_NAMES = [
    *IDS,
    *"question_id prompt_id doc_id task_id instance_id custom_id uid qid idx index ind30k inst_index".split(),
]
_REQUESTS = ("prompt", "instruction", "question", "query", "input")  # even if short
# Path of a field with the name of the model that wrote a text.
_MODEL = re.compile(
    r"(?:(.*)\.)?(?:(?:response|answer|output|generation)[_ ]?)?"
    r"(?:model|generator|system|policy|decoder|provider|engine|llm)(?:[._ ]?(?:id|name|path))*",
    re.IGNORECASE,
)
# What a field may call the writer of a text; fields that say yes or no, and whether yes is a person.
_PEOPLE = frozenset(("human", "person", "people", "real"))
_SIDES = {"label", "source", "src", "class"}  # other fields that may say who wrote a text, or hold its kind
_AUTHORS = {*_SIDES, "author", "writer"}
_SETTINGS = re.compile(r"decoding|temperature|checkpoint|top_?[kp]|method|strategy|setting", re.IGNORECASE)
_WRITERS = _PEOPLE | {"machine", "model", "ai", "llm", "generated", "fake", "bot"}
_METADATA_FIELDS = {*"meta metadata extra info annotations usage config".split()}  # objects with facts about a record
_FLAGS = dict.fromkeys("ai generated is_generated ai_generated is_ai is_machine is_bot".split(), False)
_FLAGS |= dict.fromkeys("is_human human_written is_user".split(), True)
_YES_OR_NO = {"1": True, "true": True, "0": False, "false": False}
_GPT2_OUTPUT = {"ended", "length", "text"}  # its ids number documents, not prompts
# What the parts of a name say of a field. Texts are first looked for among outputs, or on the human side among
# references, then in fields whose name says nothing, and last in those of the other side.
_KINDS = {
    "output": "output out outs generation gen generated completion continuation response answer prediction pred "
    "predict predicted reply replies hypothesis hypo hyp decoded recover sampled assistant",
    "human": "human reference ref refs gold golden target tgt truth canonical highlight expected best correct",
    "prompt": "prompt prompter instruction question query problem input inp source src context ctx prefix request "
    "premise history mr meaning",
    "passage": "document article passage dialogue title quote",
    "other": "id uid uuid guid hash key name model system generator engine decoder lang language url link date time "
    "timestamp tstamp created category cat type kind class split dataset subset domain cluster label topic role status "
    "error finish stop reason usage version score rating rank judge judgment annotator annotation rationale feedback "
    "incorrect critique explanation reasoning thinking token logprob path file filename metadata config parameter arg "
    "tool template persona description keyword author tag test entry requester worker hit",
}
_KIND_OF = {word: kind for kind, words in _KINDS.items() for word in words.split()}
_ORDER: Mapping[Side, tuple[str, ...]] = {
    "system": ("output", "text", "human", "passage"),
    "human": ("human", "text", "output", "passage"),
}
_TURNS = {*"turns conversation conversations dialog dialogue dialogues utterances messages history".split()}
SAMPLED = 200  # records that are looked at
_ITEMS, _DEPTH, _MOST_FIELDS = 50, 12, 300  # of a record
_SEVERAL = 5  # records that show that some have other fields
_LONGER = 2.5  # times as many words make one of two unknown fields the one with the texts
_OF_MODELS = re.compile(r"(?:^|_)(?:model|pred|prediction|generated)(?:_|$)")  # names of fields with a model's text
# Before a column of Mechanical Turk or Toloka: what workers saw, and what they answered.
_WORK = re.compile(r"^(?:Input\.|INPUT:|(Answer\.|OUTPUT:))")
_STOP_FIELDS = {*"stop finishreason stopreason donereason completionreason stoptype".split()}
_STOP_REASONS: Mapping[Stop, str] = {
    "eos": "eos eos_token stop stop_sequence end_turn end endoftext complete completed finish word",
    "length": "length max_tokens max_length max_new_tokens max_output_tokens model_length limit",
}
ENDS = {name: end for end, names in _STOP_REASONS.items() for name in names.split()}
"""What programs write of how a text ended → the same in one word."""
_SIGNS = re.compile(r"[\W_]+")
_NUMBER = re.compile(r"(?<=\D)\d+$")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@dataclass(slots=True)
class ReadSummary:
    """What became of the records of a file, other than texts that were read."""

    dropped: Counter[str] = field(default_factory=Counter)  # reason → number of records left out
    truncated: int = 0  # texts that the framework cut at a length limit
    texts: int = 0
    remarks: dict[str, None] = field(default_factory=dict)  # how the file was read

    def lines(self) -> list[str]:
        """Return remarks, and one line with all counts unless every record is a whole text."""
        parts = [f"left out: {count} ({reason})" for reason, count in sorted(self.dropped.items())]
        parts += [f"cut at the framework's length limit: {self.truncated}"] if self.truncated else []
        parts = [f"texts read: {self.texts}", *parts] if parts and self.texts else parts
        return [*self.remarks, *(["; ".join(parts)] if parts else [])]


@dataclass(slots=True, eq=False)
class FieldValues:
    """What the first records hold under a path."""

    path: str
    texts: list[str] = field(default_factory=list)
    records: int = 0
    has_lists: bool = False  # of several plain texts
    has_turns: bool = False  # conversations
    has_answers: bool = False  # of an assistant, in conversations
    kind: str = ""  # what the name says, as `classify`
    is_of_worker: bool = False  # an answer on Mechanical Turk, which may judge a text

    @property
    def words(self) -> float:
        """Mean number of words."""
        return sum(map(count_words, self.texts)) / max(len(self.texts), 1)

    @property
    def is_text(self) -> bool:
        """Return whether these look like texts: most have several words, and most differ."""
        return self.has_turns or (self.is_wordy and self.has_letters and (self.is_varied or self.words >= 8))

    @property
    def is_wordy(self) -> bool:
        """Return whether most values have several words."""
        return sum(count_words(text) > 1 for text in self.texts) > len(self.texts) / 2

    @property
    def is_of_words(self) -> bool:
        """Return whether the values are numbers or single words, as labels are."""
        are_short = all(count_words(text) < 2 for text in self.texts)
        return are_short and not self.has_turns and any(map(str.strip, self.texts))

    @property
    def is_varied(self) -> bool:
        """Return whether most values differ."""
        return len(self.texts) < 4 or 2 * len(set(self.texts)) > len(self.texts)

    @property
    def has_letters(self) -> bool:
        """Return whether most values hold more letters than other characters."""
        return sum(2 * sum(map(str.isalpha, text)) > len(text.strip()) for text in self.texts) > len(self.texts) / 2

    @property
    def may_be_turns(self) -> bool:
        """Return whether these are lists of texts that may be the turns of a conversation, or samples."""
        *parents, name = self.path.lower().split(".")
        is_list = self.has_lists or len(self.texts) > self.records
        is_turn = (is_list and name in _TURNS) or (self.kind == "text" and not _TURNS.isdisjoint(parents))
        return is_turn and not self.has_turns

    def rate(self, order: Sequence[str], usual: Collection[str]) -> float:
        """Return how well the field fits as texts: 0 if it cannot be, more by the class of its name, or a usual one."""
        is_of_model = self.is_text and _OF_MODELS.search(self.path.rpartition(".")[2]) is not None
        weight = 0.5 if self.path in usual else 0.4 if is_of_model else 0
        if self.kind not in order or self.may_be_turns or not (self.is_text or weight):
            return 0
        if self.has_turns and not self.has_answers:  # prompts, most likely
            return 0.1
        return len(order) - order.index(self.kind) + weight + (self.has_turns - self.is_of_worker) / 4

    def describe(self) -> str:
        """Describe the values in a few words."""
        path, distinct, count = f"'{self.path}'", len(set(self.texts)), len(self.texts)
        if self.has_turns:
            return f"{path} (conversations{'' if self.has_answers else ' without an answer'})"
        if self.may_be_turns or (self.has_lists and not self.has_turns and self.kind == "text"):
            return f"{path} (lists of texts: turns, or samples?)"
        if count >= 4 and distinct <= count / 2 and self.words < 8:
            return f"{path} ({distinct} value{'s' if distinct != 1 else ''} in {count} rows)"
        words = f"{self.words:.0f} word{'s' if round(self.words) != 1 else ''}"
        return f"{path} ({words}: {quote(next(iter(self.texts), ''))})"


@dataclass(frozen=True)
class FieldChoice:
    """Which fields of a file hold what."""

    field: str
    is_guessed: bool = False
    prompt: tuple[str, ...] = ()  # together, they are the prompt
    id: str | None = None
    others: tuple[str, ...] = ()  # fields that could be meant too, described
    stop: str | None = None  # how a text ended
    model: str | None = None  # a field with the names of several models
    mixed: str = ""  # a field that may say who wrote a text, and its values, described
    role: str | None = None  # a field that says who wrote a text, a user or an assistant
    writer: str | None = None  # a field that says whether a person or a model wrote a text
    is_by_people: bool = False  # the texts that are read
    names_machines: bool = False  # the writers' field does
    is_unpaired: bool = False  # its texts answer no prompts
    has_turns: bool = False  # the field holds conversations
    is_partial: bool = False  # some of the first records lack the field or hold null, and so may others

    def identify(self) -> dict[str, Json]:
        """Return what decides which texts are read, for the keys of what is made of them."""
        names = {each.name for each in dataclasses.fields(self)} - {"is_guessed", "others", "mixed"}
        values = {name: getattr(self, name) for name in sorted(names)}
        return {name: list(value) if name == "prompt" else value for name, value in values.items() if value}

    @property
    def has_roles(self) -> bool:
        """Return whether texts are those of a role."""
        return self.has_turns or self.role is not None

    def find_reason_to_leave_out(self, row: Cells, role: str = "assistant") -> str | None:
        """Return why the text of a record is not of this side or role; None if it is."""
        if self.writer is not None:
            value = row.get(self.writer)
            if (_name_writer(self.writer, value, self.names_machines) == "human") != self.is_by_people:
                return f"{self.writer} is {str(value).lower().removesuffix('.0')[:30]!r}"
        if self.role is not None:
            message = find_message({"role": find_value(row, self.role), "content": ""})
            if (message or {}).get("role") != role:
                return f"rows of other roles than {role}"
        return None

    def find(self, row: Cells) -> Any:  # noqa: ANN401 - JSON
        """Return what the field of a record holds; `...` where it is not there."""
        return find_values(row, self._steps)

    @cached_property
    def _steps(self) -> list[str]:
        return self.field.split(".")


def count_words(text: str) -> int:
    """Return the number of words of a text; of a script without spaces, two characters count as one."""
    return len(text) // 2 if lacks_word_spaces(text) else len(text.split())


def quote(text: str, most: int = 40) -> str:
    """Return the beginning of a text on one line, in quotation marks."""
    line = " ".join(text[: 4 * most].split())
    return f"“{line[:most].rstrip()}…”" if len(line) > most else f"“{line}”"


def find_values(value: Any, steps: Sequence[str]) -> Any:  # noqa: ANN401 - JSON
    """Return what is under a path, a list where it leads through a list; `...` where there is nothing."""
    if not steps:
        return value
    if isinstance(value, list):
        if steps[0].isdecimal():
            return find_values(value[int(steps[0])], steps[1:]) if int(steps[0]) < len(value) else ...
        values = [inner for item in value if (inner := find_values(item, steps)) is not ...]
        return values or ...
    if isinstance(value, Mapping):
        for end in range(len(steps), 0, -1):
            if (name := ".".join(steps[:end])) in value:
                return find_values(value[name], steps[end:])
    return ...


def find_value(row: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value under a path; None where there is none."""
    value = find_values(row, path.split("."))
    return None if value is ... else value


def collect_values(records: Sequence[Cells]) -> dict[str, FieldValues]:
    """Return path → texts of the records, in the order in which the paths come first."""
    by_path: dict[str, FieldValues] = {}
    is_work = any(name == "HITId" or name.startswith("ASSIGNMENT:") for cells in records for name in map(str, cells))
    for cells in records:
        seen: set[str] = set()
        for path, item, kind in _walk(cells, "", _DEPTH):
            if path not in by_path and len(by_path) >= _MOST_FIELDS:
                continue
            if path not in by_path:
                column = path
                if is_work:  # all columns are facts about the work but those that its requester named
                    column = _WORK.sub("", path, 1) if _WORK.match(path) else "metadata." + path
                match = _WORK.match(path) if is_work else None
                by_path[path] = FieldValues(path, kind=classify(column), is_of_worker=bool(match and match[1]))
            values = by_path[path]
            values.records += path not in seen
            seen.add(path)
            values.has_turns = values.has_turns or kind in ("turns", "answered")
            values.has_answers = values.has_answers or kind == "answered"
            values.has_lists = values.has_lists or kind == "list"
            values.texts.append(item)
    for path, values in by_path.items():
        if path.rpartition(".")[2].lower() in ("label", "labels") and values.is_text:  # to be learned, not a class
            values.kind = "human"
    return {path: values for path, values in by_path.items() if 2 * values.records >= len(records)}


def _walk(value: Any, path: str, depth: int, kind: str = "") -> Iterator[tuple[str, str, str]]:  # noqa: ANN401 - JSON
    """Yield (path, text, kind) of the texts in a value."""
    if isinstance(value, str):
        yield path, value, kind
    elif depth == 0:
        return
    elif isinstance(value, list):
        if is_conversation(value):
            messages = [message for item in value if (message := find_message(item)) is not None]
            answers = [message for message in messages if message["role"] == "assistant"]
            contents = (_join_content(message["content"]) for message in reversed(messages))
            last = next((content for content in contents if content is not None), "")
            yield path, last, "answered" if answers else "turns"
            facts = [(name, value) for answer in answers for name, value in answer.items() if isinstance(value, str)]
            yield from ((f"{path}.{n}", v, "") for n, v in facts if n != "system" and _MODEL.fullmatch(n))
            return
        if (text := join_parts(value)) is not None:
            yield path, text, kind
            return
        for item in value[:_ITEMS]:
            yield from _walk(item, path, depth - 1, "list" if isinstance(item, str) and len(value) > 1 else kind)
    elif isinstance(value, Mapping):
        message = find_message(value) if path else None
        if message is not None and (content := _join_content(message["content"])) is not None:
            yield path, content, kind
        for name, inner in list(value.items())[:_MOST_FIELDS]:
            if message is not None and inner is message["content"] and message["role"] in ("user", "assistant"):
                continue  # read as a message, whose parts may be thoughts
            is_numbered = isinstance(name, str) and name.isdecimal() and path and isinstance(inner, str)
            yield from _walk(inner, path if is_numbered else f"{path}.{name}".lstrip("."), depth - 1, kind)


def _join_content(content: Any) -> str | None:  # noqa: ANN401 - JSON
    """Return the content of a message, of parts without thoughts; None where it is no text."""
    if isinstance(content, list):
        texts = (find_value(part, "text") for part in content if find_value(part, "thought") is not True)
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else None


def join_parts(value: Sequence[Any]) -> str | None:
    """Return the text whose parts, objects with a type and strings, are in a list; None for other lists."""
    objects = [part for part in value if isinstance(part, Mapping)]
    others = [part for part in value if isinstance(part, str)]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in value]
    are_parts = len(objects) + len(others) == len(value) and all("type" in part for part in objects)
    has_texts = any(isinstance(part.get("text"), str) for part in objects)
    return "".join(text for text in texts if isinstance(text, str)) if are_parts and has_texts else None


def classify(path: str) -> str:
    """Return what the name of a field says it holds: output, human, prompt, passage or other things; else text."""
    if _METADATA_FIELDS & set(path.lower().split(".")[:-1]):
        return "other"
    kinds = []
    for part in reversed(path.split(".")):
        words = [word.lower() for word in _WORD.findall(part)]
        kinds_of_part = [kind for word in words if (kind := _KIND_OF.get(word) or _KIND_OF.get(word.removesuffix("s")))]
        if {"best", "correct"} & {*words} and "output" in kinds_of_part and words[-1] not in ("answer", "answers"):
            return "output"
        if "human" in kinds_of_part and kinds_of_part[-1] != "other":
            return "human"
        if "output" in kinds_of_part and kinds_of_part[-1] == "passage":
            return "output"
        if kinds_of_part:
            is_known = words[-1] in _KIND_OF or words[-1].removesuffix("s") in _KIND_OF
            is_noun = words[-1] == "text" or (words[0] == "model" and not is_known)  # as in "model story"
            kinds.append("text" if is_noun and kinds_of_part[-1] == "other" else kinds_of_part[-1])
    return "human" if "human" in kinds and kinds[0] != "other" else (kinds or ["text"])[0]


def choose_field(
    values: Mapping[str, FieldValues], side: Side, position: str, option: str
) -> tuple[str, list[FieldValues]]:
    """Return the path of the texts, and other paths that could be meant.

    Every field is rated by the class of its name and by what it holds. Of the best, one is taken only if it is alone,
    or far longer than the others.

    Raises:
        DataError: If none looks like texts, or several do; names what there is, and what to type after `option`.
    """
    is_headed = any(
        v.kind != "text" and len(v.path.split()) < 3 and v.path not in v.texts and not any(map(str.isdigit, v.path))
        for v in values.values()
    )
    if not is_headed and any(len(name.split()) > 2 for name in values):
        raise DataError(
            f"{position}: no field with the text, got {', '.join(map(quote, list(values)[:3]))}; its first line is "
            "read as the names of its columns: add a line with names, as id and text, above it"
        )
    usual, order = {*NAMES[side], "text", *NAMES["system"]}, _ORDER[side]
    has_texts = _has_texts(values, order)  # labels are no texts then, whatever they are called
    ratings = {v.path: 0 if has_texts and v.is_of_words else v.rate(order, usual) for v in values.values()}
    best = max(ratings.values(), default=0)
    fields = [v for v in values.values() if best == ratings[v.path] > 0]
    if not fields and not any(v.may_be_turns for v in values.values()):  # short texts of the only field that can be
        rest = [v for v in values.values() if v.kind != "prompt" and v.path not in ID_NAMES]
        fields = [v for v in rest if v.kind in order and v.is_varied and v.has_letters] if len(rest) == 1 else []
    fields = fields or [v for v in values.values() if v.has_answers and v.kind == "prompt"]  # a history with the answer
    if not fields:
        raise DataError(_explain_missing_text(values, order, position, option))
    first = max(fields, key=lambda v: v.words)
    rivals = [v for v in fields if v is not first and v.texts != first.texts]
    is_list = first.kind == "text" and first.has_lists and not first.has_turns and first.path not in usual
    stem = _NUMBER.sub("", first.path)  # numbered fields hold texts of one kind
    if is_list or any(_LONGER * v.words > first.words or _NUMBER.sub("", v.path) == stem for v in rivals):
        able = sorted(fields, key=lambda v: _LONGER * v.words < first.words)  # long ones in the order of the file
        both = " or ".join(v.describe() for v in able[:3]) + (" or …" if len(able) > 3 else "")
        raise DataError(
            f"{position}: no field with the text for certain: {both}; name it: {option}{_quote_name(able[0].path)}"
        )
    lesser = [v for v in values.values() if 0 < ratings[v.path] < best and v.texts != first.texts]
    return first.path, [*rivals, *lesser]


def _has_texts(values: Mapping[str, FieldValues], order: Sequence[str]) -> bool:
    """Return whether a field of a side, or one whose name says nothing, holds texts."""
    return any(v.is_text and not v.may_be_turns and v.kind in order[:2] for v in values.values())


def _explain_missing_text(values: Mapping[str, FieldValues], order: Sequence[str], position: str, option: str) -> str:
    """Say what the fields of a file hold in place of texts, and name the one that is most like a text."""
    prompts = [v for v in values.values() if v.kind == "prompt"]
    turns = [v for v in values.values() if v.may_be_turns]
    others = [v for v in values.values() if v not in turns and v not in prompts]
    groups = ((prompts, "is a prompt"), (turns, "may be either"), (others, "is no text"))
    able = [*turns, *(v for v in others if v.kind in order and v.is_varied and v.has_letters)]
    rest = [v for v in others if v.is_text and v.is_varied]
    able += sorted(rest, key=lambda v: [*order, "prompt", "other"].index(classify(v.path.rpartition(".")[2])))
    best = next((v.path for v in able if v.path), "NAME")
    named = [(sorted(group, key=lambda v: v.path != best)[:3], word) for group, word in groups if group]
    parts = [f"{', '.join(v.describe() for v in group)} {word}" for group, word in named]
    got = "; ".join(parts) or "no texts at all"
    return f"{position}: no field with the text: {got}; name it: {option}{_quote_name(best)}"


def _quote_name(name: str) -> str:
    return f"'{name}'" if " " in name else name


def choose_fields(
    records: Sequence[Cells], side: Side, position: str, option: str, chosen: str | None = None
) -> FieldChoice:
    """Choose the fields of a file from its first records.

    Args:
        records: The first records.
        side: Whose texts are read.
        position: File and line, for errors.
        option: What a user types before the name of the field, for errors: `task.text_field=`, `--field `.
        chosen: The field with the texts that the user named; None: it is guessed.
    """
    values = collect_values(records)
    first = records[0]
    if not first:
        raise DataError(
            f"{position}: an empty record; expected an object with a text in one of {', '.join(NAMES[side])}"
        )
    others: list[FieldValues] = []
    path = chosen
    usual = next((name for name in (*NAMES[side], "text", *NAMES["system"], "messages") if name in first), "")
    has_texts_inside = usual != "messages" and any(name.startswith(f"{usual}.") for name in values)
    has_others = usual != "messages" and _has_texts(values, _ORDER[side])
    if path is None and usual and usual not in values and not has_texts_inside and not has_others:
        path = usual  # of another type, as reading says
    has_texts = any(v.is_text or v.path in ("text", *NAMES["system"]) for v in values.values())
    if path is None and IDS_FIELD in first and not has_texts:
        path = IDS_FIELD
    if path is None:
        path, others = choose_field(values, side, position, option)
    elif all(path not in cells and FieldChoice(path).find(cells) is ... for cells in records):
        raise SpecError(f"{position}: no field {path!r}{suggest(path, {*map(str, first), *values})}; set {option}NAME")
    rest = [name for name in values if name != path and not path.startswith(f"{name}.")]
    role = next((name for name in ("role", f"{path}.role") if name in values), None)
    roles = [find_message({"role": text, "content": ""}) for text in (values[role].texts if role else ())]
    is_unpaired = first.keys() >= _GPT2_OUTPUT and "prompt" not in first
    writer, kinds, names_machines = _find_writers(records)
    absent = [value for cells in records if (value := FieldChoice(path).find(cells)) is ... or value is None]
    is_absent = path in values and len(absent) > 0 and len(records) >= _SEVERAL
    role = role if {"user", "assistant"} <= {message["role"] for message in roles if message} else None
    identity = "parent_id" if role is not None and "parent_id" in first else _find_id(first, path)  # of a tree
    reading = FieldChoice(
        path, chosen is None, _find_prompt(values, rest), None if is_unpaired else identity, role=role,
        stop=_find_stop(values, path),
        writer=writer, is_by_people=kinds == {True} or (len(kinds) == 2 and side == "human"),
        names_machines=names_machines,
        is_unpaired=is_unpaired, has_turns=path == "messages" or (path in values and values[path].has_turns),
        is_partial=is_absent and (chosen is None or FieldChoice(path).find(first) in (None, ...)),
    )  # fmt: skip
    of_side = [cells for cells in records if reading.find_reason_to_leave_out(cells) is None]
    values = values if len(of_side) == len(records) else collect_values(of_side)
    names = values[writer].texts if writer in values and _is_name(str(writer)) else ()
    reading = replace(reading, model=_find_model(values, path) or (writer if len(set(names)) > 1 else None))
    if chosen is None and reading.model is not None and side == "system":
        both = " and ".join(sorted({*values[reading.model].texts})[:2])
        raise DataError(
            f"{position}: texts of several models ({both}, {reading.model!r}) in one file; give each one a file, or "
            f"read all as one system: {option}{_quote_name(path)}"
        )
    mixed = "" if reading.model or len(kinds) == 2 else _describe_mixed_values(records, reading)
    return replace(reading, others=tuple(v.describe() for v in others[:2] if v.path not in reading.prompt), mixed=mixed)


def _find_stop(values: Mapping[str, FieldValues], path: str) -> str | None:
    """Return the field that says how a text ended, the nearest to the text."""
    names = []
    for name, of in values.items():
        *parents, last = name.removesuffix(".type").split(".")
        is_stop = last.lower().replace("_", "").removesuffix("s") in _STOP_FIELDS
        if is_stop and 2 * sum(text.lower() in ENDS for text in of.texts) > len(of.texts):
            near = sum(a == b for a, b in zip(parents, path.split("."), strict=False))
            names.append((near - len(parents), near, name))
    return max(names)[2] if names else None


def _describe_mixed_values(records: Sequence[Cells], reading: FieldChoice) -> str:
    """Name a field that may tell people from models, or settings of a model whose texts answer the same prompts."""
    prompts = [str(find_value(cells, path)) for path in reading.prompt[:1] for cells in records]
    for name in map(str, records[0]):
        texts = {str(cells.get(name)) for cells in records}
        may_mix = len(set(prompts)) < len(prompts) and _SETTINGS.search(name) if prompts else name.lower() in _SIDES
        if may_mix and 1 < len(texts) <= min(5, len(records) / 2):
            return f"{name!r} ({', '.join(sorted(texts))})"
    return ""


def _find_model(values: Mapping[str, FieldValues], path: str) -> str | None:
    """Return the field with the names of several models, in the text's turns, beside it or above it; None without."""
    parts = path.split(".")
    parents = [".".join(parts[:depth]) for depth in range(len(parts), -1, -1)]  # ends with the record
    owners = {name: match[1] or "" for name in values if (match := _MODEL.fullmatch(name))}
    names = [name for parent in parents for name, owner in owners.items() if owner == parent]
    source = values.get(f"{parents[1]}.source") if len(parts) > 1 else None
    names += [source.path] if source is not None and len(source.texts) > source.records else []  # in a list of answers
    return next((name for name in names if len(set(values[name].texts)) > 1), None)


def _is_name(field: str) -> bool:
    """Return whether a field may name who wrote a text."""
    return field.lower() in _AUTHORS or _MODEL.fullmatch(field) is not None


def _find_writers(records: Sequence[Cells]) -> tuple[str | None, set[bool], bool]:
    """Return the field that says who wrote a text, whether people, models or both did, and whether it names machines.

    Where it does, the word "human" in a value means a person too.
    """
    best: tuple[str | None, set[bool], bool] = None, set(), False
    for name in dict.fromkeys(name for cells in records for name in cells):
        words = {word for cells in records for word in _SIGNS.split(str(cells.get(name, "")).lower())}
        names_machines = bool(words & (_WRITERS - _PEOPLE))
        writers = [_name_writer(str(name), cells[name], names_machines) for cells in records if name in cells]
        are_names = _is_name(str(name)) and "human" in writers and 2 * len({*writers}) <= len(writers)
        if 2 * len(writers) >= len(records) and (are_names or {*writers} <= _WRITERS):
            candidate = name, {writer == "human" for writer in writers}, names_machines
            best = max(best, candidate, key=lambda choice: len(choice[1]))
    return best


def _name_writer(field: str, value: Any, names_machines: bool) -> str:  # noqa: ANN401 - JSON
    """Return who wrote a text as a field says it, in lower case; `human` for people, `model` where it says no more."""
    name, yes_means_human = str(value).lower().removesuffix(".0"), _FLAGS.get(field.lower())
    if yes_means_human is not None and name in _YES_OR_NO:
        return "human" if _YES_OR_NO[name] == yes_means_human else "model"
    words = _SIGNS.split(name)  # as of cmv_human
    says_human = "human" in words if names_machines else words[-1] == "human"
    return "human" if name in _PEOPLE or (says_human and not {"non", "not"} & {*words}) else name


def _find_prompt(values: Mapping[str, FieldValues], names: Sequence[str]) -> tuple[str, ...]:
    """Return the fields that together are the prompt: `prompt`, else all others that are called so."""
    prompts = [name for name in names if values[name].kind == "prompt" and not values[name].has_lists]
    prompts = [n for n in prompts if n in _REQUESTS or values[n].is_wordy]
    if "prompt" in prompts:
        return ("prompt",)
    flat = [name for name in prompts if "." not in name]
    return tuple(flat) or tuple(prompts[:1])


def _find_id(cells: Cells, path: str) -> str | None:
    names = [name for name in ID_NAMES if name != path and cells.get(name) not in (None, "")]
    return next((name for name in names if name in IDS or type(cells[name]) in (str, int)), None)
