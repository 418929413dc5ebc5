"""Creative writing after an instruction, without human references (Le Bronnec et al. 2024).

One system serves as the other's reference: run one model first, then the other with `reference`, the first one's
folder. The instructions in `data/creative.txt` are the fifty of the paper's Listing 1, unchanged. Source: Le Bronnec,
Verine, Negrevergne, Chevaleyre & Allauzen 2024, "Exploring Precision and Recall to assess the quality and diversity of
LLMs", ACL, https://aclanthology.org/2024.acl-long.616, CC BY 4.0.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files as package_files
from pathlib import Path

from openended.harness import core
from openended.harness.core import DataError, Example, SourceFile, SpecError
from openended.harness.imported import ImportedText, TextSelection, read_texts
from openended.harness.storage import MODEL_STAGES, RowFile, find_input, read_record
from openended.tasks._files import UserFileTask


@core.task
class Creative(UserFileTask):
    """Creative writing from instructions; the texts of another system are the reference (Le Bronnec et al. 2024)."""

    name = "creative"
    source = "comes with the harness: Listing 1 of Le Bronnec et al. 2024"
    size = "50 instructions, drawn as often as asked"
    license = "CC BY 4.0"
    obtained = "none"
    command = "openended task=creative model=docs-m task.reference=RUN_FOLDER scoring=gpt2-large"
    no_human = ": set task.reference to another system's run folder or texts"

    path: str | None = None
    """Instructions, one per line or record; null: the fifty of the paper's Listing 1."""
    reference: str | None = None
    """Texts of the other system: its run folder, or JSON lines."""
    num_draws: int = core.ranged(4000, "[1, inf)", "1 or more")
    """Le Bronnec et al., appendix B.4."""
    min_words: int = 100
    """Requested in the prompt, as in the paper."""
    max_words: int = 500
    """The same."""
    seed: int = 0
    """Draws the instructions."""

    def check(self) -> None:
        self.require(1 <= self.min_words <= self.max_words, "min_words", f"from 1 to max_words ({self.max_words})")

    def has_human(self) -> bool:
        return self.reference is not None

    def files(self) -> list[SourceFile]:
        return [SourceFile(Path(p).name, "", Path(p)) for p in (self.path, self.reference) if p is not None]

    def fingerprint(self) -> str:
        parts = [super().fingerprint() if self.path else core.digest_bytes(_read_builtin())]
        if self.reference is not None:
            parts.append(self.digest_user_file(_find_texts(Path(self.reference)), "task.reference"))
        return core.digest(parts)

    def open_bundled_system(self, name: str) -> Callable[[], list[str] | dict[str, str]] | None:
        """Return the reader of `generations=reference`: the reference as a system, the row of 1.00 in Table 1."""
        if name != "reference":
            return None
        if self.reference is None:
            raise SpecError("generations=reference: set task.reference to the reference's run folder or texts")
        return lambda: {example.id: example.human for example in self.examples(None, Counter())}

    def name_bundled_system(self, name: str) -> str:
        """Return the title of the model that wrote the reference, else the name of its file."""
        folder = Path(self.reference or "")
        if name != "reference" or not folder.is_dir():
            return "" if name != "reference" else folder.stem
        return read_record(folder).titles.get("model", "")

    def remarks(self) -> tuple[str, ...]:
        return (f"the reference is no human text: it is what {self.reference} holds",) if self.reference else ()

    def examples(self, tokenizer: core.Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield draws in order with the reference's text; those for which it has none, or an empty one, are skipped."""
        instructions = self._read_instructions()
        draws = core.make_random_stream(self.seed, "creative").integers(0, len(instructions), self.num_draws)
        references = self._read_references() if self.reference is not None else None
        for number, draw in enumerate(draws):
            if references is not None and not references:
                return
            identity = f"creative/{number:06d}"
            request = f"{instructions[int(draw)]} Use between {self.min_words} and {self.max_words} words."
            prompt = f"Instruction: {request}\n\nText:\n\n"
            meta: dict[str, core.Json] = {"user": request, "assistant": "", "instruction": int(draw)}
            if references is None:
                yield Example(identity, prompt, "", meta)
                continue
            key = next((key for key in (identity, str(number), prompt) if key in references), None)
            if key is None:
                skipped["the reference has no text for the draw"] += 1
                continue
            text = references[key].pop(0)
            if not references[key]:
                del references[key]
            if text.prompt not in (None, prompt):
                raise DataError(f"{text.where}: not the prompt of {identity}; use the task's options of that run")
            if (text.text or "").strip():
                yield Example(identity, prompt, str(text.text), meta)
            else:
                skipped["the reference's text is empty"] += 1
        left = next((text for texts in (references or {}).values() for text in texts if not text.sample), None)
        if left is not None:
            raise DataError(
                f"{left.where}: answers none of the {self.num_draws} draws; use the options of the task of that run"
            )

    def _read_instructions(self) -> list[str]:
        if self.path is None:
            return _read_builtin().decode().splitlines()
        path = Path(self.path)
        is_plain = core.strip_packing(path.name).endswith(".txt")  # a line is an instruction, also beside blank lines
        texts = read_texts(path, TextSelection("line" if is_plain else None))
        instructions = [instruction for text in texts if (instruction := str(text.text).strip())]
        if not instructions:
            raise DataError(f"{path}: holds no text")
        return instructions

    def _read_references(self) -> dict[str, list[ImportedText]]:
        """Return the first sample of each id; where lines have no id, all texts of a prompt, drawn again."""
        path = _find_texts(Path(str(self.reference)))
        texts: dict[str, list[ImportedText]] = defaultdict(list)
        for text in _read_run(path) if path.suffix == ".arrow" else read_texts(path, TextSelection(is_strict=True)):
            key = text.prompt if text.identity is None else text.identity
            if key is None:
                raise DataError(f"{text.where}: no field 'prompt' and no id; give each line the prompt that it answers")
            if text.identity is None or not text.sample:
                texts[key].append(text)
        if not texts:
            raise DataError(f"{self.reference}: holds no text")
        return texts


def _read_run(path: Path) -> Iterable[ImportedText]:
    rows = RowFile(path)
    columns = zip(rows.ids, rows.samples, rows.prompts, rows.texts, strict=True)
    return (ImportedText(f"{path}, {i}", 0, text, i, prompt, sample) for i, sample, prompt, text in columns)


def _find_texts(reference: Path) -> Path:
    if not reference.is_dir():
        return reference
    record = read_record(reference)
    texts = find_input(record.inputs, "model", *MODEL_STAGES)
    if texts is None or record.store is None:
        raise DataError(f"{reference}: not the folder of a run that generated or imported texts; set task.reference")
    return reference / record.store / texts.artifact / "data.arrow"


def _read_builtin() -> bytes:
    return package_files("openended.tasks").joinpath("data/creative.txt").read_bytes()
