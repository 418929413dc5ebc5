"""Where texts that others generated lie: files of the user's, public ones by name, members of an archive."""

from __future__ import annotations

import hashlib
from pathlib import Path

from openended.harness.errors import DataError
from openended.harness.published.files import files_digest
from openended.harness.published.forms import split_member
from openended.harness.signature import digest

MAUVE_MD5 = "63bae977e3ce5f3c86d9e35188c1b8e6"  # of mauve_generations.tgz, stated by its authors


def resolve(generations: str, *, fetch: bool) -> Path:
    """Return the file of the option `generations`: a path, or the name of a public one.

    `gpt2-output:xl-1542M-k40.test` is a file of the GPT-2 output dataset, `grover:mega-p0.94` Grover's; they are
    downloaded into the cache folder of the tasks.

    Args:
        generations: The option.
        fetch: False while planning: nothing is downloaded.

    Raises:
        DataError: If a public file is not there and is not to be, or can not be, fetched; says from where.
    """
    from openended.tasks import download
    from openended.tasks.realnews import RealNews
    from openended.tasks.webtext import gpt2_output

    kind, _, name = generations.partition(":")
    if kind == "gpt2-output" and name:
        remote = gpt2_output(name)
    elif kind == "grover" and name:
        model, _, decoder = name.partition("-")
        remote = RealNews(file=f"generator={model}~dataset={decoder}.jsonl").remotes()[0]
    else:
        return Path(generations)
    if fetch:
        return download.fetch(remote)
    if not remote.place().is_file():
        download.refuse_missing(remote, remote.place(), planning=True)
    return remote.place()


def file_fingerprint(path: Path) -> str:
    """SHA-256 that names the texts of a file, or of an archive's member.

    Raises:
        DataError: If there is no such file, or an archive is not the one its authors published.
    """
    archive, member = split_member(path)
    if not archive.is_file() and (member is not None or not archive.is_dir()):
        raise DataError(f"generations: no such file: {archive}")
    if member is None:
        return files_digest(archive)
    with archive.open("rb") as handle:
        found = hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != MAUVE_MD5:
        raise DataError(f"{archive}: its MD5 is {found}, its authors state {MAUVE_MD5}; fetch it again")
    return digest(["mauve archive", found, member])
