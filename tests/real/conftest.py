"""The folder of pretrained models, made once; tests are skipped where a registry is out of reach."""

from pathlib import Path

import pytest

from scripts import real_models as models


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.real)


@pytest.fixture(scope="session")
def real_models(tmp_path_factory):
    """Folder with smollm2/, gemma3/, minilm/, *.gguf, tokenizers/NAME/, texts/*.jsonl and the oracles' venv/."""
    from filelock import FileLock

    folder = models.find_folder()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock"):
            models.make_models(folder)
    except OSError as err:
        pytest.skip(f"no real models: {err}")
    return folder
