"""The commands that stand in the README and the documentation, and the folder in which the tests run them."""

import glob
import json
import re
import shlex
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.harness.rating.studies import study
from tests.helpers import ROOT, openended, tiny_masked_model, tiny_model, write_jsonl

PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - {ROOT / "CHANGELOG.md"})
PLUGIN = ROOT / "docs" / "examples" / "plugin" / "README.md"  # its commands: tests/harness/app/hydra/test_plugins.py
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHELL = ("", "bash", "console")
GRID = ("-m", "name=quickstart", "decoder=greedy,nucleus", "seed=0,1", "num_examples=90", "max_new_tokens=4",
        "metric=[distinct_n]", "intervals=40")  # 90 prompts for `rate make`  # fmt: skip
# Words of the documentation that stand for something of the reader's.
READERS = {
    "…": "", "GRID": "quickstart", "PATH": "quickstart", "SYSTEM": "greedy", "A": "monday", "B": "tuesday",
    "outputs/runs/NAME": "outputs/runs/quickstart", "task.reference=RUN_FOLDER": "task.reference=study-runs",
    "archive.zip": "p-sweep.zip", "mystudy": "mystudy",
}  # fmt: skip
VARIABLES = {
    "$DAY": "2026-11-28",
    "$MODEL": "Qwen/Qwen2.5-7B",
    "$REVISION": "main",
    "$PORT": "8000",
    "$head:$port": "node1:6379",
}


def read_lines(page: Path) -> list[str]:
    """Return the lines of a page that are typed into a shell: those of its blocks, and commands within the text."""
    text = page.read_text(encoding="utf-8")
    blocks = [body.replace("\\\n", " ") for kind, body in _BLOCK.findall(text) if kind in _SHELL]
    rest = _BLOCK.sub("", text)
    inline = re.findall(r"`(openended [^`\n]*[^`\n ])`", rest)
    indented = re.findall(r"^    ((?:openended|pip|bash|python) .*)$", rest, flags=re.MULTILINE)
    return [*(line for body in blocks for line in body.splitlines()), *inline, *indented]


def read_blocks(page: Path, title: str) -> list[tuple[str, str]]:
    """Return (language, text) of the blocks in a section of a page."""
    section = page.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    return _BLOCK.findall(section)


def read_commands(page: Path) -> list[tuple[str, ...]]:
    """Return the words of every `openended` command of a page, with the reader's own words filled in."""
    commands = []
    for line in read_lines(page):
        start = re.search(r"(?:^|(?<=\s))openended(?=\s|$)", line)
        if start is None or line.lstrip().startswith("#"):
            continue
        for name, value in VARIABLES.items():
            line = line.replace(name, value)
        start = re.search(r"(?:^|(?<=\s))openended(?=\s|$)", line)
        for part in split_at_semicolons(line[start.start() :] if start else ""):
            words = tuple(fill_in(part[1:]))
            if not any("|" in word for word in words[:2]):  # `make|collect` names several
                commands.append(words)
    return commands


def split_at_semicolons(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line, without its comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word != ";":
            words.append(word)
        elif words:
            yield words
            words = []


def fill_in(words: list[str]) -> Iterator[str]:
    """Yield words with the reader's own words filled in."""
    for word in words:
        filled = "quickstart" if word == "…" and words[0] == "report" else READERS.get(word, word)
        if filled:
            yield filled


def expand(words: tuple[str, ...], folder: Path) -> list[str]:
    """Return words as the shell passes them on: `*` is expanded, and RUN is the run that there is."""
    run = str(min((folder / "outputs" / "runs" / "quickstart").iterdir()))
    filled = [run if word == "RUN" else word for word in words]
    if words[:2] == ("rate", "make") and "-o" in words:  # no command overwrites a study
        filled[words.index("-o") + 1] = f"study-{len(list(folder.glob('study-*')))}"
        filled[2] = filled[2].replace("study", "outputs/runs/study")  # a folder of that name is there too
    judged = "pairs.csv"
    if any("huse" in word for word in words):
        judged = "rated.csv" if "decoder=nucleus" in words else "bundled:example_ratings.csv"
    filled = [re.sub(r"^judgments=(judgments\.csv|FILE)$", f"judgments={judged}", word) for word in filled]
    matches = [(sorted(glob.glob(word, root_dir=folder)) if "*" in word else []) or [word] for word in filled]
    return [word for group in matches for word in group]


def build_folder(folder: Path) -> Path:
    """Write the files, models, runs and studies that the documentation supposes; returns the folder."""
    rows = [
        {
            "id": f"a{i}", "title": f"Person {i}", "content": f"Life {i}. " * 40, "prompt": f"Prompt {i}",
            "human": f" a human text {i}.", "gender": ("female", "male")[i % 2],
        }
        for i in range(30)
    ]  # fmt: skip
    texts = [{"id": row["id"], "text": f" a generated text {i}."} for i, row in enumerate(rows)]
    for name in ("mine", "human", "HUMAN", "FILE", "owt"):
        write_jsonl(folder / f"{name}.jsonl", rows)
    for name in ("greedy", "nucleus", "theirs", "SYSTEM", "model"):
        write_jsonl(folder / f"{name}.jsonl", texts)
    write_framework_outputs(folder, [(row["prompt"], row["human"], text["text"]) for row, text in zip(rows, texts)])
    shutil.copytree(ROOT / "tests/fixtures/logs", folder, dirs_exist_ok=True)
    tiny_model(folder / "my-model", positions=256)
    shutil.copytree(folder / "my-model", folder / "models" / "mine" / "checkpoint-500")
    tiny_masked_model(folder / "my-denoiser", positions=256)
    answers = [{"prompt": f"Name color {i}.", "references": [f"red {n}" for n in range(10)]} for i in range(6)]
    write_jsonl(folder / "people.jsonl", answers)
    write_jsonl(folder / "gaps.jsonl", [{"prompt": "The cat ____ on the mat.", "human": "sat"}])
    openended(*GRID, cwd=folder, code=0)
    openended(
        *(w for w in GRID if not w.startswith(("-m", "seed=", "decoder="))), "decoder=nucleus", "decoder.p=0.5",
        cwd=folder, code=0,
    )  # fmt: skip
    (folder / "samples.json").write_text(json.dumps({"generated_seqs": [" a sample."] * 30}))
    (folder / "mine.py").write_text("def MyProcessor(scores):\n    return scores / 0.7\n")
    (folder / "sentences.txt").write_text("A cat.\nA dog.\nA dog.\nA fox.\n")
    (folder / "ratings.csv").write_text("text,rating_1,rating_2\nA cat.,1,2\nA dog.,4,5\nA fox.,2,2\n")
    runs = folder / "outputs" / "runs"
    for name in ("p-sweep", "study", "monday", "tuesday", "mauve_table3", "dlm_owt"):
        shutil.copytree(runs / "quickstart", runs / name)
    (folder / "release").mkdir()
    made = (runs / "quickstart").iterdir()
    greedy = next(run for run in made if '"decoder": "greedy"' in (run / "record.json").read_text())
    shutil.copy(greedy / "record.json", folder / "release")
    shutil.copytree(greedy, runs / "nightly-2026-11-28" / greedy.name)
    openended("export", "p-sweep", "p-sweep.zip", cwd=folder, verbose=False, code=0)
    study(folder / "mystudy")
    assert openended("rate", "simulate", "mystudy", "-o", "returned", cwd=folder, verbose=False).returncode == 0
    write_jsonl(folder / "judge.jsonl", [{"id": i, "score": i % 7} for i in range(60)])
    (folder / "people.csv").write_text("id,score\n" + "".join(f"{i},{i % 5}\n" for i in range(0, 60, 2)))
    pairs = (ROOT / "tasks" / "data" / "example_pairs.csv").read_bytes()
    for name in ("arena", "judgments", "judge", "pairs"):
        (folder / f"{name}.csv").write_bytes(pairs)
    rated = [f"docs/{i},{system},{1 + i % 5},ann\n" for i in range(9) for system in ("human", "nucleus")]
    (folder / "rated.csv").write_text("".join(["example_id,system,rating,rater\n", *rated]))
    return folder


def write_framework_outputs(folder: Path, texts: list[tuple[str, str, str]]) -> None:
    """Write samples of lm-evaluation-harness and a log of Inspect with (prompt, human text, model text)."""
    samples = [
        {"doc_id": i, "target": human, "resps": [[text]], "arguments": {"gen_args_0": {"arg_0": prompt}}}
        for i, (prompt, human, text) in enumerate(texts)
    ]
    write_jsonl(folder / "samples.jsonl", samples)
    (folder / "logs").mkdir()
    with zipfile.ZipFile(folder / "logs" / "continuations.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({"status": "success", "eval": {}}))
        for i, (prompt, human, text) in enumerate(texts, start=1):
            output = {"choices": [{"stop_reason": "stop"}], "completion": text}
            sample = {"id": i, "epoch": 1, "input": prompt, "target": human, "output": output}
            archive.writestr(f"samples/{i}_epoch_1.json", json.dumps(sample))
