"""Fingerprints of imported files and archive members."""

from __future__ import annotations

import hashlib
from pathlib import Path

from openended.harness.core import DataError, digest
from openended.harness.imported.files import digest_files
from openended.harness.imported.formats import split_member

MAUVE_MD5 = "63bae977e3ce5f3c86d9e35188c1b8e6"  # of mauve_generations.tgz, stated by its authors


def compute_fingerprint(path: Path) -> str:
    """Compute the SHA-256 fingerprint of a file, or of an archive's member.

    Raises:
        DataError: If there is no such file, or an archive is not the one its authors published.
    """
    archive, member = split_member(path)
    if not archive.is_file() and (member is not None or not archive.is_dir()):
        raise DataError(f"generations: no such file: {archive}")
    if member is None:
        return digest_files(archive)
    with archive.open("rb") as handle:
        md5 = hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if md5 != MAUVE_MD5:
        raise DataError(f"{archive}: its MD5 is {md5}, its authors state {MAUVE_MD5}; fetch it again")
    return digest(["mauve archive", md5, member])
