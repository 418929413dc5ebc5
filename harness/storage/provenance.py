"""Record the code, packages and hardware of a run."""

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from openended.harness.core import Json

PACKAGES = (
    "openended torch transformers tokenizers datasets pyarrow numpy scipy scikit-learn faiss-cpu faiss-gpu-cu12 "
    "pandas nltk matplotlib hydra-core omegaconf safetensors"
).split()


def read_git_state() -> dict[str, Json]:
    """Return commit and dirty flag of the harness's own checkout; both None outside one (an installed wheel).

    The repository of the working directory is irrelevant and not used.
    """
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str | None:
        try:
            command = ["git", "-C", str(here), *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    tracked = git("ls-files", "--error-unmatch", Path(__file__).name)
    if tracked is None:
        return {"commit": None, "dirty": None}
    return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--untracked-files=no"))}


def describe_environment() -> dict[str, Any]:
    """Return code, packages and hardware, for the manifest of an artifact.

    Code and packages are read once per process, because loaded modules do not change with the checkout.
    """
    code, packages = _read_code_versions()
    return {"git": dict(code), "packages": dict(packages), "hardware": describe_hardware()}


@lru_cache(maxsize=1)
def _read_code_versions() -> tuple[dict[str, Json], dict[str, str]]:
    return read_git_state(), list_package_versions()


def compare_environments(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Json]:
    """Return the fields of an earlier environment that differ from now."""
    differences: dict[str, Json] = {}
    for name in now:
        was, here = then.get(name, {}), now[name]
        other = {k: was.get(k) for k in sorted({*was, *here}) if was.get(k) != here.get(k) and k not in _TRANSIENT}
        if None in (was.get(_ACCELERATOR), here.get(_ACCELERATOR)):  # unknown until torch is loaded
            other.pop(_ACCELERATOR, None)
        if other:
            differences[name] = other
    return differences


# Settings of a process that do not identify the machine.
_ACCELERATOR = "accelerator"
_TRANSIENT = frozenset({"torch_threads", "memory_gib"})


def list_package_versions() -> dict[str, str]:
    """Return the versions of Python and of packages that can change results."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def describe_hardware() -> dict[str, Json]:
    """Return processor, cores, memory and, if torch is loaded, the accelerator."""
    processor, memory = platform.processor(), None
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    with suppress(ValueError, OSError, AttributeError):
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    facts: dict[str, Json] = {"machine": platform.machine(), "system": platform.system(), "processor": processor}
    facts |= {"cores": os.cpu_count(), "memory_gib": memory, "accelerator": None}
    torch = sys.modules.get("torch")
    if torch is not None:
        facts["torch_threads"] = torch.get_num_threads()
        if torch.cuda.is_available():
            facts["accelerator"] = torch.cuda.get_device_name(0)
    return facts
