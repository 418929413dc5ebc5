"""Read the texts to rate: human and model texts of finished runs, by prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from openended.harness.core import HUMAN, DataError, SpecError, open_text
from openended.harness.models import take_first_words
from openended.harness.rating.protocol import StudyProtocol
from openended.harness.results import (
    ROW_FILES,
    group_systems,
    locate_verified_file,
    read_results,
    resolve_report_request,
)
from openended.harness.storage import RowFile


@dataclass(frozen=True, slots=True)
class StudyTexts:
    """Prompts and every player's continuation of each."""

    players: tuple[str, ...]
    """`human` first, then the systems under the names that the tables use."""
    prompts: Mapping[str, str]
    """Example id → prompt."""
    texts: Mapping[str, Mapping[str, str]]
    """Example id → player → text."""
    remarks: tuple[str, ...] = ()
    """What was left out, and why."""


def read_study_texts(words: Sequence[str], outputs: Path, protocol: StudyProtocol, exclude: Path | None) -> StudyTexts:
    """Read the texts of runs: the first of each prompt, and of several seeds of a system the first."""
    results = read_results(resolve_report_request(words, outputs).paths)
    texts: dict[str, dict[str, str]] = {}
    prompts: dict[str, str] = {}
    lengths: dict[str, int] = {}
    for system in group_systems(results.values):
        run = results.runs[system.items[0].sources[0][0]]
        for player, stages in ((HUMAN, ("human",)), (system.name, ("generate", "import"))):
            names = ((name.partition(":")[0], artifact) for name, artifact in run.inputs.items())
            stage, artifact = next(((s, a) for s, a in names if s in stages), ("", ""))
            path = locate_verified_file(run.store, artifact, ROW_FILES.get(stage, ""), results.damaged)
            if path is None:
                needed = " or ".join(stages)
                raise DataError(f"{run.folder}: its texts ({needed}) are no longer in the store: run it again")
            rows = RowFile(path)
            lengths[player] = max(lengths.get(player, 0), int(rows.token_ids.lengths.max(initial=0)))
            player_texts = texts.setdefault(player, {})
            for example, sample, prompt, text in zip(rows.ids, rows.samples, rows.prompts, rows.texts, strict=True):
                if prompts.setdefault(example, prompt) != prompt:
                    raise DataError(
                        f"{run.folder}: {example} has another prompt than in another run: rate runs of one task"
                    )
                if sample == 0 and player_texts.setdefault(example, text) != text and player == HUMAN:
                    raise DataError(
                        f"{run.folder}: the human text of {example} is truncated differently in another run: rate runs "
                        "of one max_new_tokens and one tokenizer (--where, or name the runs)"
                    )
    excluded = frozenset[str]()
    if exclude is not None:
        with open_text(exclude) as handle:
            excluded = frozenset(line.strip() for line in handle if line.strip())
        if not excluded:
            raise SpecError(f"--exclude {exclude}: expected example ids, one a line; the file is empty")
    return select_usable_texts(tuple(texts), prompts, texts, lengths, protocol, excluded)


def select_usable_texts(
    players: Sequence[str],
    prompts: Mapping[str, str],
    texts_by_player: Mapping[str, Mapping[str, str]],
    lengths: Mapping[str, int],
    protocol: StudyProtocol,
    excluded: frozenset[str] = frozenset(),
) -> StudyTexts:
    """Keep the prompts that every player has a text for, long enough; cut the texts."""
    longest = max(lengths.values(), default=0)
    if protocol.longest_tokens is not None and protocol.cut_words is None and longest > protocol.longest_tokens:
        raise DataError(
            f"texts of up to {longest} tokens, the protocol has {protocol.longest_tokens}: run with "
            f"max_new_tokens={protocol.longest_tokens}, or give --cut-words N or --longest-tokens null"
        )
    everywhere = [e for e in sorted(prompts) if all(e in texts_by_player[p] for p in players)]
    unknown = sorted(excluded - set(prompts))
    if unknown:
        raise DataError(f"exclude: no example {unknown[0]!r} in these runs")
    texts: dict[str, dict[str, str]] = {}
    short = 0
    for example in (e for e in everywhere if e not in excluded):
        cut_texts = {p: texts_by_player[p][example] for p in players}
        if protocol.cut_words is not None:
            cut_texts = {p: take_first_words(text, protocol.cut_words) for p, text in cut_texts.items()}
        if min(len(text.split()) for text in cut_texts.values()) < protocol.min_words:
            short += 1
            continue
        texts[example] = cut_texts
    remarks = [
        f"{count} prompts left out: {why}"
        for count, why in (
            (len(prompts) - len(everywhere), "not every system has a text for them"),
            (len(excluded & set(everywhere)), "named in exclude"),
            (short, f"a text has fewer than {protocol.min_words} words"),
        )
        if count
    ]
    if not texts:
        raise DataError(f"no prompt is left to be rated ({'; '.join(remarks) or 'the runs hold none'})")
    return StudyTexts(tuple(players), {e: prompts[e] for e in texts}, texts, tuple(remarks))
