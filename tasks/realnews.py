"""News articles of April 2019, prompted by their metadata (Zellers et al. 2019, "Defending against neural fake news").

Grover's generation files and the metadata sets (`april2019_set*.jsonl`) are read; the corpus itself comes on request.
Source: https://github.com/rowanz/grover, Apache-2.0 (code and generations); the articles are their publishers'.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from openended.harness.core import DataError, Example, Tokenizer, option, sort_by_hash, task
from openended.harness.imported import GROVER, TextRecord, read_records
from openended.tasks._files import PublicFileTask, read_usable_text


@task
class RealNews(PublicFileTask):
    """News of April 2019, prompted by domain, date, authors and title (Grover's files)."""

    name = "realnews"
    source = "https://github.com/rowanz/grover"
    size = "about 12,000 human articles in a generation file"
    license = "Apache-2.0 (code, generations); articles: their publishers"
    obtained = "fetched at the first use; the whole corpus by hand, on request (`task.path`)"
    address = f"{GROVER}/{{file}}"
    command = "openended task=realnews generations=grover:mega-p0.94 scoring=gpt2-large"

    file: str = option(
        "generator=mega~dataset=p0.94.jsonl", lambda name: name and "/" not in name, "the name of a generation file"
    )
    """For its machine articles: generations=<the same file>."""
    split: Literal["train", "val", "test", "gen", "any"] = "test"
    """`gen` in april2019_set*.jsonl, `any` for all."""
    order: Literal["hash", "file"] = "hash"
    """Of the ids: the first N are a fair sample; `file` holds nothing in memory."""

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield human articles; machine articles and unpaired training articles are another system's."""
        path = self.data_path()
        rows = (self._make_example(record, skipped) for record in read_records(path))
        examples: Iterator[Example] = (example for example in rows if example is not None)
        if self.order == "hash":
            examples = iter(sort_by_hash(examples, lambda e: e.id))
        is_empty = True
        for example in examples:
            is_empty = False
            yield example
        if is_empty:
            splits = sorted({str(record.cells.get("split")) for record in read_records(path)})
            names = " or ".join(f"task.split={split}" for split in splits)
            raise DataError(f"{path}: holds no human article of split {self.split!r}; type {names}")

    def _make_example(self, record: TextRecord, skipped: Counter[str]) -> Example | None:
        row = record.cells
        is_chosen = self.split in ("any", row.get("split"))
        is_paired = row.get("orig_split", "gen") == "gen" or row.get("label") is None
        if not is_chosen or not is_paired or row.get("label", "human") != "human":
            return None
        text = read_usable_text(row, "article" if "article" in row else "text", record.where, skipped)
        if text is None:
            return None
        prompt = render_metadata_prompt(row)
        if not prompt:
            skipped["no title, domain, date or author"] += 1
            return None
        # The number that pairs a human and a machine article, or the line, from 0.
        pairs = [row[field] for field in ("ind30k", "inst_index") if type(row.get(field)) is int]
        identity = pairs[0] if pairs else record.line
        return Example(f"realnews/{identity:06d}", prompt, text, {"domain": str(row.get("domain"))})


def render_metadata_prompt(row: Mapping[str, Any]) -> str:
    """Render what is known of an article before its text, in Grover's order; ends with an empty line."""
    authors = row.get("authors")
    fields = {
        "Domain": row.get("domain"),
        "Date": row.get("date") or row.get("publish_date"),
        "Authors": ", ".join(map(str, authors)) if isinstance(authors, list) else authors,
        "Title": row.get("title"),
    }
    lines = [f"{name}: {value.strip()}" for name, value in fields.items() if isinstance(value, str) and value.strip()]
    return "\n".join(lines) + "\n\n" if lines else ""
