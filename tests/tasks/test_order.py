"""One order for all tasks that promise a fair sample."""

import hashlib

from openended.tasks._files import sort_by_hash


def test_the_files_is_that_of_the_hash_of_the_key_and_of_nothing_else():
    names = [f"t/{i:06d}" for i in range(50)]
    wanted = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    assert sort_by_hash(names, str) == sort_by_hash(reversed(names), str) == wanted
    kept = names[::3]
    assert sort_by_hash(kept, str) == [name for name in wanted if name in kept]
