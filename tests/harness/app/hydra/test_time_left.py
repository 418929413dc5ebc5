"""How long a grid will still take."""

from __future__ import annotations

from openended.harness.app.hydra.time_left import estimate_time_left


def job(title, seconds, *, made=3, state="done"):
    return {"job": title, "seconds": seconds, "made": made, "state": state}


def grid(*titles, started=0.0):
    return {"titles": list(titles), "started": started}


def test_a_job_is_judged_by_those_that_differ_in_the_seed_alone():
    jobs = [job("model=s seed=0", 10.0), job("model=l seed=0", 50.0)]
    facts = grid("model=s seed=0", "model=l seed=0", "model=l seed=1", "model=s seed=1")
    assert estimate_time_left(jobs, facts, 60.0) == "about 1 min left"


def test_a_job_unlike_all_that_ended_is_a_guess():
    assert estimate_time_left([job("model=s", 10.0)], grid("model=s", "model=l"), 10.0) == "perhaps 10 s left"


def test_what_was_found_says_nothing_about_what_will_be_made():
    jobs = [job("p=1 seed=0", 0.5, made=0), job("p=1 seed=1", 20.0)]
    facts = grid("p=1 seed=0", "p=1 seed=1", "p=1 seed=2")
    assert estimate_time_left(jobs, facts, 20.5) == "about 20 s left"


def test_processes_side_by_side_share_the_rest():
    jobs = [job("seed=0", 10.0), job("seed=1", 10.0)]
    assert estimate_time_left(jobs, grid("seed=0", "seed=1", "seed=2", "seed=3"), 10.0) == "about 10 s left"


def test_nothing_is_said_where_nothing_is_left_or_known():
    assert estimate_time_left([job("seed=0", 1.0)], grid("seed=0"), 1.0) == ""
    assert estimate_time_left([], grid("seed=0"), 1.0) == ""
    assert estimate_time_left([job("seed=0", 1.0, state="failed")], {}, 1.0) == ""
