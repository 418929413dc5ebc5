"""Copy store entries to and from a file system that several machines reach (`openended store push|pull URL`)."""

import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from openended.harness import core
from openended.harness.storage.row_blocks import share_rows
from openended.harness.storage.store import ENTRY_NAME, MANIFEST, STAGES, Entry, Store, publish_folder, read_entry

log = logging.getLogger(__name__)

_WRITES = ("makedirs", "put_file", "mv")  # methods of fsspec
ROWS_KEY = re.compile(r"[0-9a-f]{64}")
# Digest and name of a file, so that two machines may copy one entry at the same time. No folder, no hidden file.
_FILE_NAME = re.compile(r"[0-9a-f]{64}-[a-z_]+\.[a-z]+")


class RemoteStore:
    """A store at a URL of `fsspec`. An entry there is complete if it has a manifest, which is written last."""

    def __init__(self, url: str) -> None:
        core.require_package("fsspec", "hub")
        from fsspec.core import url_to_fs

        self.url = _hide_credentials(url)
        try:
            self._files, root = url_to_fs(url)
            self._root = str(root).rstrip("/")
            paths = [str(path).split("/") for path in self._files.find(self._root, maxdepth=4)]
            names = {"/".join(path[-4:-1]) for path in paths if path[-1] == MANIFEST}
        except Exception as err:  # each file system has its own errors
            reason = _hide_credentials(core.shorten_error(err))
            raise core.DataError(f"{self.url}: cannot be read as a folder ({reason})") from err
        self.names = {name for name in names if ENTRY_NAME.fullmatch(name) and name.partition("/")[0] in STAGES}
        """`stage/ab/key` of the complete entries when it was opened."""

    def push(self, store: Path) -> int:
        """Copy the entries that are missing there; return their number. Damaged ones are skipped with a warning."""
        count = 0
        for stage in STAGES:
            for manifest in sorted((store / stage).glob(f"*/*/{MANIFEST}")):
                name = str(manifest.parent.relative_to(store))
                if not ENTRY_NAME.fullmatch(name) or name in self.names:
                    continue
                try:
                    entry = read_entry(manifest.parent)
                except core.DataError as err:
                    log.warning("%s is damaged (%s): not copied", name, err)
                    continue
                target = f"{self._root}/{name}"
                self._call("makedirs", target, exist_ok=True)
                copies = {file: f"{digest}-{file}" for file, digest in entry.files.items()}
                for file, copy in {**copies, MANIFEST: MANIFEST}.items():
                    writing = f"{target}/{core.temporary_files.create_temporary_name(copy)}"
                    self._call("put_file", str(manifest.with_name(file)), writing)
                    self._call("mv", writing, f"{target}/{copy}")
                count += 1
        return count

    def pull(self, store: Path) -> int:
        """Copy the entries that are missing here; return their number.

        Every byte is verified first. Entries that are damaged there are skipped with a warning.
        """
        if not self.names:
            raise core.DataError(f"{self.url}: no store entry is there; give the URL of `openended store push`")
        count = 0
        for name in sorted(self.names):
            folder = store / name
            if folder.exists():
                continue
            root = folder.with_name(core.temporary_files.create_temporary_name(folder.name))
            work = root / name  # where its path is that of an entry, which is verified there
            work.mkdir(parents=True)
            try:
                entry = replace(self._fetch(name, work), path=folder)
                publish_folder(work, folder)
                if ROWS_KEY.fullmatch(str(entry.rows)):
                    share_rows(Store(store).get_rows_path(str(entry.rows)), entry)
                count += 1
            except core.DataError as err:
                log.warning("%s/%s is damaged (%s): not copied", self.url, name, err)
            finally:
                core.temporary_files.delete_path(root)
        return count

    def _fetch(self, name: str, work: Path) -> Entry:
        """Copy an entry into a folder and return it after verifying its bytes."""
        source = f"{self._root}/{name}"
        self._call("get_file", f"{source}/{MANIFEST}", str(work / MANIFEST))
        manifest = core.read_json(work / MANIFEST)
        files = manifest.get("files") if isinstance(manifest, dict) else None
        for file, digest in files.items() if isinstance(files, dict) else ():
            if not _FILE_NAME.fullmatch(copy := f"{digest}-{file}"):
                raise core.DataError(f"unexpected file name {copy!r:.120}")
            self._call("get_file", f"{source}/{copy}", str(work / file))
        return read_entry(work)

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - a method of fsspec
        try:
            return getattr(self._files, method)(*arguments, **options)
        except FileNotFoundError as err:
            what, path = ("no file", arguments[0]) if method not in _WRITES else ("cannot write", arguments[-1])
            raise core.DataError(f"{what} {_hide_credentials(str(path))}") from err
        except Exception as err:  # each file system has its own errors
            reason = _hide_credentials(core.shorten_error(err))
            raise core.StoreError(f"{self.url}: {reason}; the same command resumes") from err


def _hide_credentials(text: str) -> str:
    return re.sub(r"(://[^\s?]*)\?\S*", r"\1", re.sub(r"(?<=://)[^/\s]*@", "", text))
