"""What the reader of a table must know of the texts and of the scoring models.

The bundled models were trained on the prose of the `docs` task. They score only that task, unless selected by name.
"""

from __future__ import annotations

import math
import re
from itertools import islice

import numpy as np

from openended.harness.core import DataError, Ragged, describe_out_of_domain
from openended.harness.models import BackendSpec
from openended.harness.run.artifacts import TextRows
from openended.harness.run.dataset import Dataset
from openended.harness.run.facts import counts_tokens, is_out_of_domain
from openended.harness.run.features import Featurizer
from openended.harness.run.settings import Settings
from openended.harness.storage import RowFile

# A human side with this many times the scorer's validation perplexity is of another domain.
_FAR = 2.0
_CARD = re.compile(r"validation perplexity[\s|:]*(\d+(?:\.\d+)?)")
# Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese.
_SPACELESS = re.compile(r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")
_SPACELESS_SHARE = 0.3  # of a text's characters
_SAMPLED_TEXTS = 200
_FEW_OF = 10  # one side with a tenth of the other's texts is worth a warning
_LENGTH_GAP = 0.1  # medians that differ by more than this share of the human one are worth a note


def list_notes(settings: Settings, dataset: Dataset, model_rows: TextRows, featurizer: Featurizer) -> list[str]:
    """Return the notes of a run: those of its texts, then those of its scoring models; log the warnings among them."""
    sides = [RowFile(rows.path) for rows in (dataset.human_rows, model_rows) if rows.entry is not None]
    is_complete = len(sides) == 2
    name = settings.system or settings.generations or "the system"
    few = warn_of_few_texts(name, *map(len, sides)) if is_complete else ""
    far = _compare_with_card(settings, dataset.human_rows, featurizer)
    for warning in filter(None, (far, few)):
        featurizer.builder.session.warn_once(warning)
    notes = [*filter(None, [few]), *settings.task.remarks()]
    if settings.chat_model is not None:
        title = settings.chat_model.title
        notes.append(f"{title} read its prompts through its chat template; scorer and embedder read them plain")
    if dataset.examples is not None:
        skipped: dict[str, int] = dataset.examples.meta["skipped"]
        notes += [f"{count:,} records skipped ({reason})" for reason, count in skipped.items()]
    if model_rows.entry is not None:
        notes += model_rows.entry.meta.get("notes", ())
    if is_complete and (gap := _compare_lengths(*map(_find_median_length, sides))):
        notes.append(gap)
    if model_rows.entry is not None and (spaceless := _warn_of_words_without_spaces(settings, model_rows)):
        featurizer.builder.session.warn_once(spaceless)
        notes.append(spaceless)
    if not settings.task.paired and is_complete and len(sides[0]) != len(sides[1]):
        sizes = f"{len(sides[1])} texts beside {len(sides[0])} human ones"
        notes.append(f"{sizes}: where the number matters, compare equal ones")
    if settings.least_length and settings.generations is None:
        least = settings.least_length
        notes.append(f"end-of-text is forbidden before token {least} (min_new_tokens={least})")
    return [*notes, *list_remarks(settings), *filter(None, [far])]


def list_remarks(settings: Settings) -> list[str]:
    """Return what the reader of a table must know of the choice of scoring models."""
    roles = {"scorer": settings.scorer, "embedder": settings.embedder}
    read = {need.by for metric in settings.metrics for need in metric.needs()}
    out = [
        describe_out_of_domain(role, spec.title)
        for role, spec in roles.items()
        if spec and role in read and is_out_of_domain(spec, settings.task)
    ]
    if settings.scorer is None and any(map(counts_tokens, settings.metrics)):
        counter = settings.counter
        whose = f"tokens of {counter.title}, the model under test" if counter is not None else "whitespace words"
        out.append(f"text statistics count {whose}: no scorer is set")
    if settings.cut_by_words:
        length = settings.max_new_tokens
        out.append(f"both sides are cut at {length} whitespace words: no scorer is set whose tokens to count")
    return out


def warn_of_few_texts(name: str, num_human: int, num_model: int) -> str:
    """Warn of a system with a single text, or with far fewer texts than the human side; empty for others."""
    fewer, more = sorted((num_human, num_model))
    if fewer > 1 and fewer * _FEW_OF > more:
        return ""
    return (
        f"{name}: {num_model} text{'s' if num_model != 1 else ''} beside {num_human} human "
        f"text{'s' if num_human != 1 else ''}: values of so few texts say little; compare about equal numbers"
    )


def _compare_lengths(human: float, model: float) -> str:
    """Say that the median lengths of both sides differ by more than a tenth; empty if they do not."""
    if not human or abs(model - human) <= human * _LENGTH_GAP:
        return ""
    return (
        f"median length {model:g} beside {human:g} of the human texts: most metrics see the length too; cut both "
        "sides alike (max_new_tokens)"
    )


def _warn_of_words_without_spaces(settings: Settings, model_rows: TextRows) -> str:
    """Warn that whitespace words are counted in texts of a script without spaces; empty for others."""
    by_words = {
        metric.name
        for metric in settings.metrics
        for need in metric.needs()
        if need.kind == "tokens" and (need.by == "words" or (need.by == "scorer" and settings.counter is None))
    }
    sample = list(islice(RowFile(model_rows.path).each("text"), _SAMPLED_TEXTS)) if by_words else []
    count = sum(len(_SPACELESS.findall(text)) > _SPACELESS_SHARE * len(text) for text in sample)
    if not count:
        return ""
    return (
        f"{count} of the first {len(sample)} texts are in a script without spaces between words, and words are split "
        f"at white space: set metric.NAME.unit=chars for {', '.join(sorted(by_words))}"
    )


def _find_median_length(rows: RowFile) -> float:
    """Return the median number of tokens of the texts, or of words where no tokens are kept."""
    lengths = rows.token_ids.lengths
    if not lengths.any():
        lengths = np.array([len(text.split()) for text in rows.each("text")], dtype=np.int64)
    return float(np.median(lengths)) if len(lengths) else 0.0


def _compare_with_card(settings: Settings, human_rows: TextRows, featurizer: Featurizer) -> str | None:
    """Warn of a scorer whose perplexity on the human side is far above that on its own validation text."""
    needs = (need for metric in settings.metrics for need in metric.needs())
    need = next((need for need in needs if (need.kind, need.by) == ("token_nll", "scorer")), None)
    if settings.scorer is None or need is None or not settings.task.has_human():
        return None
    nll = featurizer.value(human_rows, need)
    return compare_with_card(settings.scorer, compute_perplexity(nll)) if nll is not None else None


def compare_with_card(spec: BackendSpec, human: float) -> str | None:
    """Compare the scorer's perplexity on the human side with its card's; return a warning if they differ much."""
    expected = read_card_perplexity(spec)
    if not human > _FAR * expected:
        return None
    return (
        f"scorer {spec.title}: perplexity {human:.0f} on the human side, {expected:.0f} on its own validation text: "
        "these texts are outside its domain"
    )


def read_card_perplexity(spec: BackendSpec) -> float:
    """Return the validation perplexity from the model's card; NaN if it is missing."""
    card = spec.folder / "README.md" if spec.folder is not None else None
    if card is None or not card.is_file():
        return math.nan
    try:
        match = _CARD.search(card.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as err:
        raise DataError(f"model {spec.title}: cannot read its card {card} ({err})") from err
    return float(match[1]) if match else math.nan


def compute_perplexity(nll: Ragged) -> float:
    """Return exp of the mean token NLL; 1 if there are no tokens."""
    return math.exp(float(nll.values.sum(dtype="float64")) / max(len(nll.values), 1))
