"""Base class of the tasks that read public files."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

from openended.harness.core import DataError, SourceFile, Task, digest, digest_file
from openended.tasks.download import Remote, fetch, refuse_missing, verify


@dataclass(frozen=True, kw_only=True)
class FileTask(Task):
    """A task whose data are public files to download, or a user's copy of them."""

    path: str | None = None  # a local copy of the file; null: download to the cache folder
    cache_dir: str | None = None  # null: the first that is set of OPENENDED_CACHE, HF_HOME, XDG_CACHE_HOME or ~/.cache
    offline: bool = False  # true: download nothing; missing files are an error

    @abstractmethod
    def remotes(self) -> list[Remote]:
        """Return the public files that the task reads."""

    def data_paths(self) -> list[Path]:
        """Return the paths of the data files."""
        return [Path(self.path)] if self.path else [r.cache_path(self.cache_dir) for r in self.remotes()]

    def files(self) -> list[SourceFile]:
        """Return the data files, present or not."""
        if self.path:
            return [SourceFile(Path(self.path).name, "", Path(self.path))]
        return [SourceFile(Path(r.path).name, r.url, r.cache_path(self.cache_dir)) for r in self.remotes()]

    def fetch(self) -> None:
        """Download missing files and verify all files."""
        if self.path is None:
            for remote in self.remotes():
                fetch(remote, cache_dir=self.cache_dir, offline=self.offline)

    def fingerprint(self) -> str:
        """Return a digest of the contents of all files."""
        if self.path is not None:
            return digest_user_file(Path(self.path), f"task {self.name}", "task.path")
        for remote in self.remotes():
            if not remote.cache_path(self.cache_dir).is_file():
                refuse_missing(remote, remote.cache_path(self.cache_dir), offline=self.offline, planning=True)
        digests = [verify(remote, cache_dir=self.cache_dir, quick=True) for remote in self.remotes()]
        return digests[0] if len(digests) == 1 else digest(digests)


def digest_user_file(path: Path, who: str, option: str) -> str:
    """Return the SHA-256 of a user's file."""
    if not path.is_file():
        what = "expected a file, got a folder" if path.is_dir() else "no such file"
        raise DataError(f"{who}: {what}: {path}; set {option}")
    return digest_file(path)
