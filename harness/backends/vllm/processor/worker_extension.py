"""Methods that vLLM's workers get from the harness: the results of finished texts, and how they compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from openended.harness.backends.vllm.processor.batch import BatchRows


class WorkerExtension:
    """Mixed into vLLM's worker class, whose attributes it reads."""

    model_runner: Any

    def take_openended_results(self, group: str, finished: Sequence[tuple[str, int, int]]) -> list[Any]:
        """Return the results of finished texts; see `BatchRows.take_results`."""
        return self._find_openended_rows().take_results(group, finished)

    def forget_openended_texts(self) -> None:
        """Drop the texts of a call that failed."""
        for rows in self._iterate_openended_rows():
            if isinstance(rows, BatchRows):
                rows.forget()

    def describe_openended_worker(self) -> dict[str, str]:
        """Return which attention kernels compute, for the record."""
        groups = getattr(self.model_runner, "attn_groups", ())
        names = {group.backend.get_name() for per_cache in groups for group in per_cache}
        return {"attention": ", ".join(sorted(names)), "runner": type(self.model_runner).__name__}

    def _find_openended_rows(self) -> BatchRows:
        return next(rows for rows in self._iterate_openended_rows() if isinstance(rows, BatchRows))

    def _iterate_openended_rows(self) -> Iterator[object]:
        runner = self.model_runner
        if hasattr(runner, "input_batch"):
            yield from (getattr(p, "rows", None) for p in runner.input_batch.logitsprocs.all)
        if hasattr(getattr(runner, "sampler", None), "logits_processors"):
            yield from (getattr(p, "rows", None) for p in runner.sampler.logits_processors)
