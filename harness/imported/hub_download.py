"""Files in dataset repositories of the Hub, named `hf://datasets/OWNER/NAME/FILE`."""

from __future__ import annotations

import re

from openended.harness.core import DataError, SpecError, format_error, require_package

_ADDRESS = re.compile(
    r"hf://(?:datasets/)?(?P<repo>[\w][\w.-]*/[\w][\w.-]*?)(?:@(?P<revision>[^/@]+))?/(?P<file>[^/].*)"
)


def download_if_on_hub(path: str) -> str:
    """Return the path of a file; one named `hf://…` is downloaded into the Hub's cache first.

    Raises:
        SpecError: If an address has no repository or no file.
        DataError: If the file cannot be downloaded.
    """
    if not path.startswith("hf://"):
        return path
    address = _ADDRESS.fullmatch(path)
    if address is None:
        raise SpecError(f"expected hf://datasets/OWNER/NAME/FILE, got {path!r}")
    require_package("huggingface_hub", "hub")
    from huggingface_hub import hf_hub_download

    try:
        return str(hf_hub_download(address["repo"], address["file"], repo_type="dataset", revision=address["revision"]))
    except Exception as err:  # the errors of its HTTP client have no common base
        raise DataError(f"{path}: cannot be downloaded ({type(err).__name__}: {format_error(err)})") from err
