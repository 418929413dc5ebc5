"""A short fuzz of the command line and of file readers, in this process; `scripts/campaign.sh` does the long one."""

from __future__ import annotations

import random

import pytest
from hydra import initialize_config_module

from tests.campaign.fuzz import one_input


@pytest.mark.campaign
def test_no_fuzzed_input_is_a_traceback(tmp_path):
    draw = random.Random("fuzz 0")
    with initialize_config_module("openended.conf", version_base="1.3"):
        for number in range(120):
            one_input(tmp_path, number, draw)
