"""The command line as Hydra reads it."""

from __future__ import annotations

import pytest

from openended.harness.cli import hydra_words


@pytest.mark.parametrize("flag", ["-v", "--verbose"])
def test_verbose_is_an_option_of_hydra(flag):
    assert hydra_words([flag, "-m", "seed=0,1"]) == ["-m", "seed=0,1", "hydra.verbose=true"]
    assert hydra_words(["seed=0"]) == ["seed=0"]
