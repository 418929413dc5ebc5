"""The real vLLM in this process against the reference backend: texts, losses, statistics, and a run that is killed.

python -m tests.real_servers.engine [PROMPTS [NEW_TOKENS [NEW_TOKENS_ONE_AT_A_TIME]]]
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.backends.transformers import load_backend
from openended.harness.backends.vllm.backend import VllmBackend
from openended.harness.backends.vllm.spec import VllmSpec, find_version
from openended.harness.core import Generation, Ragged, load_members
from openended.harness.decoders.base import GenerationRequest, Prompt, QDecoder
from openended.harness.decoders.sampling import Ancestral, Dry, Greedy, MinP, Mirostat, Nucleus, TopK, Typical
from openended.harness.models import ModelSpec
from openended.harness.models.requests import QStatisticsRequest, ScoringRequest
from openended.harness.storage.rows import Row, RowFile
from tests.real_servers.checks import Table, compare_losses, compare_statistics, is_near_tie

PATH = "bundled:docs-s"
SAMPLES, SEED = 3, 7
FORCED = (Greedy(), Ancestral(), TopK(), Nucleus(), Typical(), MinP(), Mirostat(), Dry(allowed_length=1))
TOLERANCE = 1e-5


def list_decoders() -> list[QDecoder]:
    """Every decoder that draws from a Q and needs nothing else, and some with penalties."""
    classes = [c for c in load_members("decoder").values() if issubclass(c, QDecoder)]
    plain = [decoder for decoder in (cls() for cls in classes) if not decoder.needs_human_ppl]
    return [*plain, Nucleus(repetition_penalty=1.3), Nucleus(no_repeat_ngram_size=3), Mirostat(repetition_penalty=1.2)]


def make_prompts(count: int, vocab_size: int) -> list[Prompt]:
    """Prompts of 1 to 40 tokens, and an empty one."""
    draw = np.random.default_rng(0)
    rows = [tuple(draw.integers(1, vocab_size, draw.integers(1, 41)).tolist()) for _ in range(count - 1)]
    return [Prompt(f"t/{i}", s, row) for i, row in enumerate([*rows, ()]) for s in range(SAMPLES)]


def make_request(decoder: QDecoder, prompts: list[Prompt], new: int, least: int = 2) -> GenerationRequest:
    """Return what both backends are asked for."""
    return GenerationRequest(
        prompts=prompts, decoder=decoder, seed=SEED, max_new_tokens=new, min_new_tokens=least, batch_size=64
    )


def generate(backend: Any, request: GenerationRequest) -> list[Generation]:
    """Continue the prompts; the texts are in the prompts' order."""
    out: list[Generation] = []
    backend.generate(request, out.extend)
    texts = {(g.example_id, g.sample): g for g in out}
    return [texts[p.example_id, p.sample] for p in request.prompts]


def compare_texts(reference, request, mine, expected):
    """Count equal texts, and those that part at a near tie of the reference's own logits."""

    def read(text: Generation) -> list[int]:
        return [*text.token_ids, *(reference.eos_ids[:1] if text.stop == "eos" else ())]

    pairs = list(zip(request.prompts, mine, expected, strict=True))
    apart = [(prompt, read(a), read(b)) for prompt, a, b in pairs if (a.text, read(a)) != (b.text, read(b))]
    ties = sum(is_near_tie(reference, request, *texts) for texts in apart)
    equal = len(pairs) - len(apart)
    return f"{equal} of {len(pairs)} texts equal, {ties} part at a near tie", equal + ties == len(pairs)


def generate_and_compare(mine: VllmBackend, reference: Any, request: GenerationRequest) -> tuple[str, bool]:
    """Generate with both backends, and compare."""
    return compare_texts(reference, request, generate(mine, request), generate(reference, request))


def run_command(folder: Path, model: str, *words: str, kill: bool = False) -> list[Row]:
    """Run the command on 64 prompts with three samples; returns the rows of its texts."""
    command = [
        sys.executable, "-m", "openended.harness", f"outputs_dir={folder}", "task=docs", "decoder=nucleus",
        f"model={model}", f"model.path={PATH}", "num_examples=64", "samples=3", "max_new_tokens=32", "min_new_tokens=0",
        f"seed={SEED}", "scoring=none", "metric=[distinct_n]", "runtime.flush_seconds=0", *words,
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if kill:
        while process.poll() is None and len(list(folder.rglob("block-*.arrow"))) < 5:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    output, _ = process.communicate(timeout=900)
    if kill:
        return []
    if process.returncode:
        raise RuntimeError(output[-300:].replace("\n", " "))
    (texts,) = (path for path in folder.rglob("data.arrow") if "generate" in path.relative_to(folder).parts)
    return list(RowFile(texts))


def compare_killed_run(reference: Any) -> tuple[str, bool]:
    """Kill a run after a few texts, and continue it."""
    with tempfile.TemporaryDirectory() as root:
        folders = [Path(root) / name for name in ("reference", "killed")]
        expected = run_command(folders[0], "folder")
        run_command(folders[1], "vllm", kill=True)
        kept = len(list(folders[1].rglob("block-*.arrow")))
        rows = run_command(folders[1], "vllm")
        prompts = [Prompt(r.generation.example_id, r.generation.sample, tuple(r.prompt_ids)) for r in expected]
        request = make_request(Nucleus(), prompts, 32, least=0)
        texts = [[row.generation for row in side] for side in (rows, expected)]
        found, passed = compare_texts(reference, request, *texts)
        return f"{kept} parts kept; {found}", passed


def check_engine(table: Table, reference: Any, prompts: list[Prompt], new: int, at_once: int) -> None:
    """Check an engine that runs this many texts at once."""
    mine = VllmBackend(VllmSpec(path=PATH, max_num_seqs=at_once), "cpu")
    for decoder in list_decoders():
        request = make_request(decoder, prompts, new)
        table.check(f"{decoder.title}, {at_once} at once", partial(generate_and_compare, mine, reference, request))
    rows = [p for p in prompts if p.sample == 0]
    texts = generate(reference, make_request(Nucleus(), rows, new))
    heads = Ragged.from_rows((p.token_ids for p in rows), np.int64)
    human = Ragged.from_rows((text.token_ids for text in texts), np.int64)
    losses = ScoringRequest(prompts=heads, continuations=human, include_prompt=True, batch_size=16)
    table.check(f"token losses, {at_once} at once", partial(compare_losses, mine, reference, losses, TOLERANCE))
    laws = QStatisticsRequest(prompts=heads, continuations=human, decoders=FORCED, min_new_tokens=2, batch_size=16)
    table.check(f"statistics of Q, {at_once} at once", partial(compare_statistics, mine, reference, laws, TOLERANCE))


def main() -> None:
    """Print the table; 0 new tokens leave a part out."""
    arguments = [int(word) for word in sys.argv[1:]]
    count, new, new_alone = (arguments + [64, 24, 8][len(arguments) :])[:3]
    reference = load_backend(ModelSpec(path=PATH))
    prompts = make_prompts(count, reference.vocab_size)
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    table = Table(f"vLLM {find_version()} in the process")
    for length, at_once in ((new, 64), (new_alone, 1)):
        if length:
            check_engine(table, reference, prompts, length, at_once)
    table.check("a run killed and continued", partial(compare_killed_run, reference))
    table.end()


if __name__ == "__main__":
    main()
