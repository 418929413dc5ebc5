"""Pairs of a context and a response, of any origin: a file with both, or two text files with one line for each pair."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from openended.harness import core
from openended.harness.core import REQUIRED, DataError, Example, SourceFile, option, ranged
from openended.harness.imported import digest_files, read_records
from openended.tasks._files import GroupTask, UserFileTask, is_null_or_text, read_usable_text

_Pair = tuple[str, str, str]  # line, context, response
_DELETED = ("[deleted]", "[removed]")  # what Reddit puts in place of a post


@core.task
class Pairs(GroupTask, UserFileTask):
    """Contexts and human responses of a file, or of two files with one line for each pair."""

    name = "pairs"
    source = "your own file"
    size = "any"
    license = "the file's own"
    obtained = "yours; see conf/task/gigaword.yaml, roc_stories.yaml and reddit.yaml for three public sets"
    command = "openended task=pairs task.path=FILE.csv task.prompt_fields=[question] task.human_field=answer model=gpt2"

    path: str = option(REQUIRED, bool, "the path of a file of pairs, or of its contexts")
    """task.path=FILE.csv, or .jsonl, .tsv, .parquet; or the contexts, one per line."""
    human_path: str | None = option(None, is_null_or_text, "a file of responses or null")
    """The responses, one per line."""
    prompt_fields: tuple[str, ...] = ("prompt",)
    """Joined by a space."""
    human_field: str = option("human", bool, "a field name")
    """The field with the response."""
    template: str = option("{prompt}", lambda text: "{prompt}" in text, "a text with {prompt} in it")
    """How the context is shown to the model."""
    score_fields: tuple[str, ...] = ()
    """Fields of upvotes: pairs with one below min_score are left out."""
    min_score: int = 10
    """Hashimoto et al. 2019, appendix A.4, as the next four."""
    skip_deleted: bool = False
    """true: leave out [deleted] and [removed] posts."""
    most_words: int | None = ranged(None, "[1, inf)", "at least 1 or null")
    """Leave out pairs with a longer side."""
    vocabulary: int | None = ranged(None, "[1, inf)", "at least 1 or null")
    """Remove all words but so many frequent ones."""
    banned_words: str | None = option(None, is_null_or_text, "a file with one word per line, or null")
    """A file, one word per line: leave out pairs with one of them."""

    def check(self) -> None:
        super().check()
        has_fields = self.human_path is None or not (self.score_fields or self.group_field)
        self.require(
            has_fields, "human_path", "null where score_fields or group_field is set (its lines have no fields)"
        )

    def files(self) -> list[SourceFile]:
        paths = map(Path, filter(None, (self.path, self.human_path, self.banned_words)))
        return [SourceFile(path.name, "", path) for path in paths]

    def fingerprint(self) -> str:
        others = {"task.human_path": self.human_path, "task.banned_words": self.banned_words}
        digests = [self.digest_user_file(Path(path), name) for name, path in others.items() if path is not None]
        first = digest_files(Path(self.path)) if self.human_path is None else super().fingerprint()
        return core.digest([first, *digests]) if digests else first

    def examples(self, tokenizer: core.Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield the pairs; those with an empty side are counted. The human text begins with a space."""
        pairs = core.sort_by_hash(self._filter(self._read(skipped), skipped), lambda pair: pair[0])
        if not pairs:
            raise DataError(f"{self.path}: holds no pair")
        for line, prompt, human in pairs:
            yield Example(f"pairs/{line}", self.template.replace("{prompt}", prompt), f" {human}")

    def _filter(self, pairs: Iterator[_Pair], skipped: Counter[str]) -> Iterator[_Pair]:
        """Leave out pairs and remove rare words as the options say; words are compared in lower case."""
        banned = set[str]()
        if self.banned_words is not None:
            with core.open_text(Path(self.banned_words)) as handle:
                banned = {line.strip().lower() for line in handle if line.strip()}
        usable = list[_Pair]()
        for pair in pairs:
            words = [side.lower().split() for side in pair[1:]]
            if self.skip_deleted and any(side in _DELETED for side in pair[1:]):
                skipped["one side is deleted"] += 1
            elif self.most_words is not None and max(map(len, words)) > self.most_words:
                skipped[f"one side has more than {self.most_words} words"] += 1
            elif banned and any(not banned.isdisjoint(side) for side in words):
                skipped["one side has a banned word"] += 1
            else:
                usable.append(pair)
        if self.vocabulary is None:
            yield from usable
            return
        counts = Counter(word for pair in usable for side in pair[1:] for word in side.lower().split())
        frequent = set(sorted(counts, key=lambda word: (-counts[word], word))[: self.vocabulary])
        for line, *sides in usable:
            context, response = (" ".join(w for w in side.split() if w.lower() in frequent) for side in sides)
            if context and response:
                yield line, context, response
            else:
                skipped["one side has only rare words"] += 1

    def _has_score(self, cells: Mapping[str, Any], where: str) -> bool:
        """Return whether each score of a record is high enough."""
        for name in self.score_fields:
            if name not in cells:
                raise DataError(f"{where}: no field {name!r} with upvotes; if there are none: task.score_fields=[]")
            try:
                score = core.parse_number(str(cells[name]))
            except (TypeError, ValueError) as err:
                raise DataError(f"{where}: {name}: expected a number, got {cells[name]!r:.40}") from err
            if not score >= self.min_score:
                return False
        return True

    def _read(self, skipped: Counter[str]) -> Iterator[_Pair]:
        if self.human_path is not None:
            with core.open_text(Path(self.path)) as contexts, core.open_text(Path(self.human_path)) as responses:
                for number, (context, response) in enumerate(zip_longest(contexts, responses), 1):
                    if context is None or response is None:
                        raise DataError(f"{self.path}:{number}: only one of it and {self.human_path} has this line")
                    if context.strip() and response.strip():
                        yield f"{number:08d}", context.strip(), response.strip()
                    else:
                        skipped["one side is empty"] += 1
            return
        for record in read_records(Path(self.path)):
            cells, where = record.cells, record.where
            texts = [read_usable_text(cells, field, where, skipped) for field in self.prompt_fields]
            texts.append(read_usable_text(cells, self.human_field, where, skipped, "task.human_field"))
            if not self._has_score(cells, where):
                skipped[f"a score is below {self.min_score}"] += 1
            elif None not in texts and self.is_in_group(cells, where, skipped):
                *context, response = (str(text).strip() for text in texts)
                yield f"{record.line:08d}", " ".join(context), response
