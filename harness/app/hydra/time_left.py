"""Estimate the remaining time of a grid from its most similar finished jobs."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from openended.harness.core import format_duration


def estimate_time_left(jobs: Sequence[Mapping[str, Any]], grid: Mapping[str, Any], now: float) -> str:
    """Return `about 3 min left`, or `perhaps …` if no similar job has ended; empty if no job is left or none has ended.

    A job's estimate is the median time of the finished jobs that differ from it only in the seed, else of those with
    the same model, else of all. Jobs that computed nothing (all cached) are ignored if possible. The sum is multiplied
    by the elapsed time over the summed job time, which accounts for parallel jobs and pauses between jobs.
    """
    ended = [job for job in jobs if job["state"] in ("done", "failed")]
    left = Counter(map(str, grid.get("titles") or ()))
    left.subtract(str(job["job"]) for job in jobs if job["state"] in ("done", "failed", "skipped"))
    titles = list(left.elements())
    if not titles or not ended:
        return ""
    informative = [job for job in ended if job.get("made")] or ended
    seconds_by_kind: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for job in informative:
        for kind in (_drop_seed(str(job["job"])), _select_model_words(str(job["job"]))):
            seconds_by_kind[kind].append(float(job["seconds"]))
    all_seconds = [float(job["seconds"]) for job in informative]
    similar_times = [seconds_by_kind.get(_drop_seed(t)) or seconds_by_kind.get(_select_model_words(t)) for t in titles]
    seconds = sum(statistics.median(times or all_seconds) for times in similar_times)
    has_similar = all(_drop_seed(title) in seconds_by_kind for title in titles)
    job_seconds = sum(float(job["seconds"]) for job in ended)
    elapsed = max(now - float(grid.get("started", now)), 0.0)
    seconds *= elapsed / job_seconds if job_seconds and elapsed else 1.0
    return f"{'about' if has_similar else 'perhaps'} {format_duration(seconds)} left"


def _drop_seed(title: str) -> tuple[str, ...]:
    return ("all but the seed", *(word for word in title.split() if not word.startswith("seed=")))


def _select_model_words(title: str) -> tuple[str, ...]:
    """Return the words for model and experiment, which affect a job's time most."""
    return ("model", *(word for word in title.split() if word.startswith(("model", "experiment="))))
