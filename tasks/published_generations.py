"""Named public files of generations: the GPT-2 output dataset and Grover's."""

from __future__ import annotations

from pathlib import Path

from openended.tasks import download
from openended.tasks.realnews import RealNews
from openended.tasks.webtext import make_gpt2_remote


def find_generations(generations: str, *, fetch: bool) -> Path:
    """Return the file of the option `generations`: a path, or the name of a public one.

    `gpt2-output:xl-1542M-k40.test` is a file of the GPT-2 output dataset, `grover:mega-p0.94` Grover's; they are
    downloaded into the cache folder of the tasks. While planning (`fetch` false), a missing one is refused.
    """
    kind, _, name = generations.partition(":")
    if kind == "gpt2-output" and name:
        remote = make_gpt2_remote(name)
    elif kind == "grover" and name:
        model, _, decoder = name.partition("-")
        remote = RealNews(file=f"generator={model}~dataset={decoder}.jsonl").remote()
    else:
        return Path(generations)
    if fetch:
        return download.fetch(remote)
    if not remote.cache_path().is_file():
        download.refuse_missing(remote, remote.cache_path(), planning=True)
    return remote.cache_path()
