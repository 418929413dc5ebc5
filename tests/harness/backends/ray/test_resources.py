"""Test what each Ray worker gets of a cluster."""

import pytest

from openended.harness.backends.ray.resources import allocate_resources, warn_if_full
from openended.harness.core import Runtime, SpecError


@pytest.mark.parametrize(
    ("options", "nodes", "want"),
    [
        ({}, [{"CPU": 8.0}], (0, 1, 8)),
        ({"workers": 2}, [{"CPU": 8.0}], (0, 2, 4)),
        ({"workers": 3}, [{"CPU": 8.0}, {"CPU": 8.0}], (0, 3, 4)),  # five each would leave no room for the third
        ({"workers": 2, "threads": 1}, [{"CPU": 8.0}], (0, 2, 1)),
        ({"workers": 9}, [{"CPU": 2.0}], (0, 9, 1)),
        ({}, [{"CPU": 8.0}, {"CPU": 8.0}], (0, 2, 8)),
        ({}, [{"CPU": 8.0, "GPU": 4.0}, {"CPU": 8.0, "GPU": 2.0}], (1, 6, 1)),
        ({"gpus_per_worker": 0.5}, [{"CPU": 8.0, "GPU": 1.0}], (0.5, 2, 1)),
        ({"gpus_per_worker": 0.2}, [{"CPU": 8.0, "GPU": 1.0}], (0.2, 5, 1)),
        ({"gpus_per_worker": 0.6}, [{"CPU": 8.0, "GPU": 2.0}], (0.6, 2, 1)),  # no part of a GPU spans two
        ({"gpus_per_worker": 2.0}, [{"CPU": 8.0, "GPU": 3.0}, {"CPU": 8.0, "GPU": 2.0}], (2, 2, 1)),
        ({"device": "cpu"}, [{"CPU": 8.0, "GPU": 4.0}], (0, 1, 8)),
        ({"gpus_per_worker": 0.0}, [{"CPU": 8.0, "GPU": 4.0}], (0, 1, 8)),
    ],
)
def test_what_each_worker_gets(options, nodes, want):
    assert allocate_resources(Runtime(engine="ray", **options), nodes) == want


@pytest.mark.parametrize(
    ("count", "needs", "room"),
    [(2, {"CPU": 1, "GPU": 1.0}, 2), (8, {"CPU": 1, "GPU": 1.0}, 3), (8, {"CPU": 1, "GPU": 0.5}, 6), (4, {"CPU": 4, "GPU": 0.0}, 3)],
)  # fmt: skip
def test_more_workers_than_the_cluster_has_room_for_are_told(count, needs, room, caplog):
    warn_if_full([{"CPU": 8.0, "GPU": 2.0}, {"CPU": 4.0, "GPU": 1.0}, {}], count, needs)
    said = f"room for {room} of {count} workers now" in caplog.text
    assert said == (room < count)


def test_gpus_that_are_not_there():
    with pytest.raises(SpecError, match="expected at most the cluster's 0 GPUs, got 1"):
        allocate_resources(Runtime(engine="ray", gpus_per_worker=1.0), [{"CPU": 2.0}])
    with pytest.raises(SpecError, match=r"set runtime\.gpus_per_worker=1"):
        allocate_resources(Runtime(engine="ray", device="cuda"), [{"CPU": 2.0}])
