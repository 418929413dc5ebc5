"""Copy store entries to and from a file system that several machines reach (`openended store push|pull URL`)."""

import logging
import re
from pathlib import Path
from typing import Any

from openended.harness import core
from openended.harness.storage.store import ENTRY_NAME, MANIFEST, STAGES, mark_manifest, publish_folder, read_entry

log = logging.getLogger(__name__)

_FILE_NAME = re.compile(r"[a-z_]+\.[a-z]+")  # of every stage: no folder, no hidden file


class RemoteStore:
    """A store at a URL of `fsspec`. An entry there is complete if it has a manifest, which is written last."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError as err:
            raise core.ExtraNotInstalled("fsspec", "hub") from err
        self.url = url
        try:
            self._files, root = url_to_fs(url)
            self._root = str(root).rstrip("/")
            paths = self._files.glob(f"{self._root}/*/*/*/{MANIFEST}")
            names = {"/".join(str(path).split("/")[-4:-1]) for path in paths}
        except Exception as err:  # each file system has its own errors
            raise core.DataError(f"{url}: cannot be read as a folder ({core.shorten_error(err)})") from err
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
                    files = read_entry(manifest.parent).files
                except core.DataError as err:
                    log.warning("%s is damaged (%s): not copied", name, err)
                    continue
                self._call("makedirs", f"{self._root}/{name}", exist_ok=True)
                for file in (*files, MANIFEST):
                    self._call("put_file", str(manifest.with_name(file)), f"{self._root}/{name}/{file}")
                count += 1
        return count

    def pull(self, store: Path, *, trust: bool) -> int:
        """Copy the entries that are missing here, marked as imported; return their number.

        Every byte is verified first. Entries that are damaged there are skipped with a warning.
        """
        count = 0
        for name in sorted(self.names):
            folder = store / name
            if folder.exists():
                continue
            folder.parent.mkdir(parents=True, exist_ok=True)
            work = folder.with_name(core.temporary_files.create_temporary_name(folder.name))
            work.mkdir()
            try:
                self._fetch(name, work, {"archive": self.url, "trusted": trust})
                publish_folder(work, folder)
                count += 1
            except core.DataError as err:
                log.warning("%s/%s is damaged (%s): not copied", self.url, name, err)
            finally:
                core.temporary_files.delete_path(work)
        return count

    def _fetch(self, name: str, work: Path, mark: dict[str, core.Json]) -> None:
        """Copy an entry into a folder and verify its bytes."""
        source = f"{self._root}/{name}"
        if self._call("size", f"{source}/{MANIFEST}") > core.MAX_JSON:
            raise core.DataError(f"{MANIFEST} has more than {core.MAX_JSON >> 20} MiB")
        text = self._call("cat_file", f"{source}/{MANIFEST}")
        manifest: Any = mark_manifest(core.parse_json(text, MANIFEST), mark, name, MANIFEST)
        for file, digest in manifest["files"].items():
            if not _FILE_NAME.fullmatch(file):
                raise core.DataError(f"unexpected file name {file!r:.40}")
            self._call("get_file", f"{source}/{file}", str(work / file))
            if core.digest_file(work / file) != digest:
                raise core.DataError(f"{file} does not match its digest")
        core.write_json(work / MANIFEST, manifest)

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - a method of fsspec
        try:
            return getattr(self._files, method)(*arguments, **options)
        except FileNotFoundError as err:
            raise core.DataError(f"no file {arguments[0]}") from err
        except Exception as err:  # each file system has its own errors
            raise core.StoreError(f"{self.url}: {core.shorten_error(err)}; the same command resumes") from err
