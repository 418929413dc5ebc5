"""The texts in vLLM's batch: their next tokens are drawn from Q, or given and scored, group by group.

vLLM adds, moves, swaps and removes rows between steps. Everything that a step reads or writes is kept by text and step:
uniforms, states, log-probabilities and the history. A step can therefore be done again with the same result, as vLLM
does when it preempts a text or splits its prompt.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict, cast

import numpy as np
import torch
from torch import Tensor

from openended.harness.core import I64, DataError, build, canonicalize, digest, row_uniforms
from openended.harness.decoders import (
    GenerationRequest,
    LogitChunk,
    Prompt,
    QDecoder,
    QTable,
    TextPosition,
    apply_penalties,
    compute_log_q,
    draw_tokens,
    forbid_end,
    parse_q_decoder,
)
from openended.harness.generation import count_chunk_rows, find_end_tokens, score_chunk
from openended.harness.models import QStatisticsRequest

KEY = "openended"  # name of the order in a request's extra arguments


class TextGroup(TypedDict):
    """What the texts of one call share."""

    id: str  # digest of everything below: texts of equal groups are processed in one call
    decoders: list[dict[str, Any]]  # one that draws, or those whose statistics are read
    forced: bool  # true: the tokens are given, and the statistics of Q are read
    seed: int
    longest: int  # most tokens of a text
    min_new_tokens: int
    eos_ids: list[int]


class TextOrder(TypedDict):
    """One text."""

    group: TextGroup
    example_id: str
    sample: int
    prompt: list[int]  # token ids that the model reads first; never empty
    gold: list[int]  # the tokens of a forced text; empty for a text that is drawn


def describe_decoder(decoder: QDecoder) -> dict[str, Any]:
    """Return the YAML node from which `build` rebuilds the decoder."""
    cls = type(decoder)
    return {"name": cls.name, **{f.name: canonicalize(getattr(decoder, f.name)) for f in dataclasses.fields(cls)}}


def make_group(request: GenerationRequest | QStatisticsRequest, eos_ids: Sequence[int]) -> TextGroup:
    """Return the group of a request whose decoders have a Q: to draw texts, or for statistics of given ones."""
    decoders: Sequence[QDecoder]
    if isinstance(request, QStatisticsRequest):
        decoders, seed, longest = request.decoders, 0, int(request.continuations.lengths.max(initial=0))
    else:
        decoders, seed, longest = [cast("QDecoder", request.decoder)], request.seed, request.max_new_tokens
    forced, described = isinstance(request, QStatisticsRequest), [describe_decoder(decoder) for decoder in decoders]
    facts: dict[str, Any] = {"decoders": described, "seed": seed, "longest": longest, "forced": forced}
    facts |= {"min_new_tokens": request.min_new_tokens, "eos_ids": list(eos_ids)}
    return cast("TextGroup", {"id": digest(facts), **facts})


def make_order(group: TextGroup, prompt: Prompt, gold: Sequence[int] = ()) -> TextOrder:
    """Return the order of one text."""
    example_id, ids = prompt.example_id, list(prompt.token_ids)
    return TextOrder(group=group, example_id=example_id, sample=prompt.sample, prompt=ids, gold=list(gold))


MOST_TEXTS = 4096  # texts whose states are remembered, of decoders that have one
FIRST_SLOTS = 16  # texts that there is room for at first; doubled whenever it is used up


class TextSlots(ABC):
    """The texts of one request, in slots: one that was preempted keeps its own, a finished one gives it back."""

    def __init__(self, group: TextGroup) -> None:
        self._group = group
        self._decoders = [cast("QDecoder", build("decoder", node)) for node in group["decoders"]]
        self._slots: dict[tuple[str, int], int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, order: TextOrder) -> int:
        """Return the slot of a text."""
        key = order["example_id"], order["sample"]
        if key not in self._slots:
            slot = self._free.pop() if self._free else len(self._slots)
            self._slots[key] = slot
            self._begin(slot, order)
        return self._slots[key]

    def take_result(self, example_id: str, sample: int, count: int) -> list[Any]:
        """Return what is known of a finished text of `count` tokens, end included, and free its slot."""
        slot = self._slots.pop((example_id, sample))
        self._free.append(slot)
        return self._read_result(slot, count)

    def rewrite(self, logits: Tensor, rows: "Sequence[TextInBatch]") -> Tensor:
        """Return the logits (n, V) of texts with all tokens masked but the one that is drawn; may overwrite them."""
        token = self.choose(logits, [row.slot for row in rows], [len(row.tokens) for row in rows])
        out = torch.full_like(logits, float("-inf"))
        return out.scatter_(1, token.to(logits.device)[:, None], 0.0)

    @abstractmethod
    def choose(self, logits: Tensor, slots: Sequence[int], steps: Sequence[int]) -> Tensor:
        """Return the next tokens (n,) of texts with logits (n, V), which may be overwritten."""

    @abstractmethod
    def _begin(self, slot: int, order: TextOrder) -> None:
        """Make room for a text in its slot."""

    @abstractmethod
    def _read_result(self, slot: int, count: int) -> list[Any]: ...


class TextSampler(TextSlots):
    """The texts of one generation request; the result of one is its log-probability."""

    def __init__(self, group: TextGroup, device: str | torch.device) -> None:
        super().__init__(group)
        (self._decoder,) = self._decoders
        self._device = device
        # One column more than there are steps: a step beyond the last one, whose token nobody uses, may be asked for.
        self._columns = group["longest"] + 1
        wide, first = torch.float64, self._decoder.first_state()
        self._uniforms = self._allocate(self._columns, dtype=wide)
        self._log_q = self._allocate(self._columns, dtype=wide)
        self._history = self._allocate(0, dtype=torch.int64)
        self._prompt_lengths = self._allocate(dtype=torch.int64)
        self._first = torch.tensor(first, dtype=wide, device=device)
        self._states = self._allocate(self._columns + 1, len(first), dtype=wide)

    def _begin(self, slot: int, order: TextOrder) -> None:
        if slot == len(self._prompt_lengths):
            for name in ("_uniforms", "_log_q", "_history", "_prompt_lengths", "_states"):
                tensor = getattr(self, name)
                setattr(self, name, torch.cat([tensor, torch.zeros_like(tensor)]))
        self._states[slot, 0] = self._first
        self._prompt_lengths[slot] = len(order["prompt"])
        if self._decoder.stochastic:
            uniforms = row_uniforms(self._group["seed"], order["example_id"], order["sample"], self._columns)
            self._uniforms[slot] = torch.from_numpy(uniforms)
        if self._decoder.penalizes:
            if (missing := len(order["prompt"]) + self._columns - self._history.shape[1]) > 0:
                self._history = torch.nn.functional.pad(self._history, (0, missing))
            ids = torch.tensor(order["prompt"], dtype=torch.int64, device=self._history.device)
            self._history[slot, : len(ids)] = ids

    def choose(self, logits: Tensor, slots: Sequence[int], steps: Sequence[int]) -> Tensor:
        at = torch.tensor(slots, device=logits.device)
        step = torch.tensor(steps, device=logits.device)
        lengths = self._prompt_lengths[at] + step
        if self._decoder.penalizes:
            logits = apply_penalties(self._decoder, logits, self._history[at, : int(lengths.max())], lengths)
        eos_ids = self._group["eos_ids"]
        logits = forbid_end(logits, eos_ids, steps, self._group["min_new_tokens"])
        state = self._states[at, step] if len(self._first) else None
        token, log_q, state = draw_tokens(self._decoder, logits, self._uniforms[at, step], state)
        self._log_q[at, step] = torch.where(find_end_tokens(eos_ids, token), 0.0, log_q)
        if state is not None:
            self._states[at, step + 1] = state
        if self._decoder.penalizes:
            self._history[at, lengths] = token
        return token

    def _read_result(self, slot: int, count: int) -> list[float]:
        return [float(self._log_q[slot, :count].cumsum(0)[-1]) if count else 0.0]

    def _allocate(self, *columns: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros((FIRST_SLOTS, *columns), dtype=dtype, device=self._device)


class TeacherForcer(TextSlots):
    """The texts of one request for statistics of Q, whose tokens are given.

    The result of one is a list for each decoder: probability of the true token, sum of squares, support, most probable
    token.
    """

    def __init__(self, group: TextGroup, device: str | torch.device) -> None:  # noqa: ARG002 - as a `TextSampler`
        super().__init__(group)
        self._width = max(group["longest"], 1)
        self._tables = [QTable.empty(0) for _ in self._decoders]
        self._orders: dict[int, TextOrder] = {}

    def _begin(self, slot: int, order: TextOrder) -> None:
        if slot not in self._orders:
            for table in self._tables:
                table.extend((slot + 1) * self._width)
        self._orders[slot] = order

    def choose(self, logits: Tensor, slots: Sequence[int], steps: Sequence[int]) -> Tensor:
        positions = [
            TextPosition(slot, min(step, len(self._orders[slot]["gold"]) - 1))
            for slot, step in zip(slots, steps, strict=True)
        ]
        gold = torch.tensor([self._orders[p.row]["gold"][p.step] for p in positions], device=logits.device)
        out = np.array([p.row * self._width + p.step for p in positions], dtype=np.int64)
        size, least = count_chunk_rows(logits.device.type, logits.shape[1]), self._group["min_new_tokens"]
        for start in range(0, len(positions), size):
            part = slice(start, start + size)
            read = forbid_end(logits[part], self._group["eos_ids"], [p.step for p in positions[part]], least)
            chunk = LogitChunk(read, gold[part], positions[part], least > 0, self._read_history)
            statistics = score_chunk(self._decoders, self._tables, chunk)
            for table, values in zip(self._tables, statistics, strict=True):
                table.write(out[part], values)
        return gold

    def _read_result(self, slot: int, count: int) -> list[list[list[float]]]:
        part = slice(slot * self._width, slot * self._width + count)
        for table in self._tables:
            table.states.pop((slot, count), None)
            table.states.pop((slot, count - 1), None)
        return [
            [column[part].tolist() for column in (t.gold_prob, t.sum_sq, t.support, t.argmax)] for t in self._tables
        ]

    def _read_history(self, position: TextPosition) -> I64:
        order = self._orders[position.row]
        return np.array([*order["prompt"], *order["gold"][: position.step]], dtype=np.int64)


class TextInBatch(NamedTuple):
    """A row of the batch: its group, its slot in it, and the tokens of the text so far, which grow outside."""

    texts: "TextSlots | QWriter"
    slot: int
    tokens: Sequence[int]
    prompt: Sequence[int] = ()


class QWriter:
    """Rewrites logits as log Q for texts that vLLM's own sampler draws: their order is a decoder in words.

    A text is known by the list of its tokens, which vLLM keeps while it preempts or moves the text.
    """

    def __init__(self, words: str) -> None:
        self._decoder = parse_q_decoder(words)
        self._states: dict[int, tuple[Sequence[int], dict[int, Tensor]]] = {}
        """Text → its tokens, and step → the decoder's state (1, s) before it."""
        self._pending: list[tuple[Sequence[int], int, Tensor]] = []
        """Tokens of a text, the last step, and the surprisal (1, V) of what was drawn in it."""

    def rewrite(self, logits: Tensor, rows: Sequence[TextInBatch]) -> Tensor:
        """Return log Q (n, V)."""
        ids = [[*row.prompt, *row.tokens] if self._decoder.penalizes else [0] for row in rows]
        if min(map(min, ids)) < 0:
            raise DataError("vLLM hides the last tokens from logits processors; start it with --no-async-scheduling")
        lengths = torch.tensor([len(row) for row in ids], device=logits.device)
        history = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in ids], batch_first=True)
        state = None
        if self._decoder.first_state():
            self._find_next_states()
            state = torch.cat([self._find_state(row.tokens) for row in rows]).to(logits.device)
        log_q, surprisal = compute_log_q(self._decoder, logits, history.to(logits.device), lengths, state)
        if surprisal is not None:
            self._pending = [(row.tokens, len(row.tokens), surprisal[i : i + 1]) for i, row in enumerate(rows)]
        return log_q

    def _find_next_states(self) -> None:
        """Move the states of texts that have got a token since."""
        for tokens, step, surprisal in self._pending:
            if len(tokens) > step:
                states = self._states[id(tokens)][1]
                after = self._decoder.next_state(states[step], surprisal[:, tokens[step]].to(states[step].device))
                states[step + 1] = states[step] if after is None else after
                states.pop(step - 1, None)

    def _find_state(self, tokens: Sequence[int]) -> Tensor:
        if id(tokens) not in self._states or not tokens:
            if len(self._states) > MOST_TEXTS:
                self._states.pop(next(iter(self._states)))
            first = torch.tensor([self._decoder.first_state()], dtype=torch.float64)
            self._states[id(tokens)] = tokens, {0: first}
        states = self._states[id(tokens)][1]
        if len(tokens) not in states:
            raise DataError("vLLM hides the last tokens from logits processors; start it with --no-async-scheduling")
        return states[len(tokens)]


class BatchRows:
    """Chooses the next token of every row, with one vectorized call for each group of rows.

    Rows without an order of the harness are left to vLLM.
    """

    def __init__(self, device: str | torch.device) -> None:
        self._device = device
        self._groups: dict[str, TextSlots] = {}
        self._writers: dict[str, QWriter] = {}
        self.rows: dict[int, TextInBatch] = {}
        """Index in the batch → its text; a text's state stays until its result is taken."""

    def begin(
        self, order: TextOrder | str | None, tokens: Sequence[int] = (), prompt: Sequence[int] | None = ()
    ) -> TextInBatch | None:
        """Return the state of a text that enters the batch; None if its request has no order of the harness."""
        if order is None:
            return None
        if isinstance(order, str):
            if order not in self._writers:
                self._writers[order] = QWriter(order)
            return TextInBatch(self._writers[order], 0, tokens, prompt or ())
        group = order["group"]
        if group["id"] not in self._groups:
            # The texts of finished calls are gone: their groups go too.
            self._groups = {name: texts for name, texts in self._groups.items() if len(texts)}
            self._groups[group["id"]] = (TeacherForcer if group["forced"] else TextSampler)(group, self._device)
        texts = self._groups[group["id"]]
        return TextInBatch(texts, texts.add(order), tokens)

    def choose_tokens(self, logits: Tensor) -> Tensor:
        """Mask each row of logits (n, V) except for the token that the harness chooses."""
        numbers: dict[int, list[int]] = {}
        for number in range(len(logits)):
            if number in self.rows:
                numbers.setdefault(id(self.rows[number].texts), []).append(number)
        for part in numbers.values():
            group = [self.rows[number] for number in part]
            at = torch.tensor(part, device=logits.device)
            logits[at] = group[0].texts.rewrite(logits if len(part) == len(logits) else logits[at], group)
        return logits

    def take_results(self, group: str, finished: Sequence[tuple[str, int, int]]) -> list[Any]:
        """Return the results of finished texts of a group, each given by example id, sample and number of tokens."""
        return [self._groups[group].take_result(*text) for text in finished]

    def forget(self) -> None:
        """Drop all texts, finished or not, because their call failed."""
        self.rows.clear()
        self._groups.clear()
