"""A callback for Lightning."""

from typing import Any

try:
    import lightning.pytorch as lightning
except ImportError:
    import pytorch_lightning as lightning

from openended.integrations.monitor import TrainingMonitor


class LightningCallback(lightning.Callback):  # type: ignore[misc]
    """Evaluates the causal model of transformers in the attribute `model` of the module, and logs to all loggers.

    `tokenizer` is the model's; `options` are those of `TrainingMonitor`.
    """

    def __init__(self, tokenizer: Any, *, model: str = "model", **options: Any) -> None:  # noqa: ANN401
        self._tokenizer, self._attribute, self._monitor = tokenizer, model, TrainingMonitor(**options)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:  # noqa: ANN401
        self._monitor.check_processes(trainer.world_size)
        step = trainer.global_step
        if not trainer.is_global_zero or not self._monitor.is_due(step):
            return
        values, stop = self._monitor.evaluate(getattr(pl_module, self._attribute), self._tokenizer, step)
        for logger in trainer.loggers:
            logger.log_metrics(values, step=step)
        trainer.should_stop |= stop

    on_train_start = on_train_batch_end
