"""A callback for `transformers.Trainer`, and for TRL's trainers, which are its subclasses."""

from typing import Any

import transformers

from openended.harness.core import SpecError
from openended.integrations.monitor import TrainingMonitor


class TrainerCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """Evaluates the model before the training and every few steps, and logs the values to the trackers of `trainer`.

    `tokenizer` is the model's, by default the trainer's `processing_class`; `options` are those of `TrainingMonitor`.
    """

    def __init__(self, trainer: transformers.Trainer, *, tokenizer: Any = None, **options: Any) -> None:  # noqa: ANN401
        self._trainer, self._monitor = trainer, TrainingMonitor(**options)
        self._tokenizer = tokenizer if tokenizer is not None else getattr(trainer, "processing_class", None)
        if self._tokenizer is None:
            raise SpecError("tokenizer: expected the model's, because the trainer has no processing_class")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        self._monitor.check_processes(args.world_size)
        if not state.is_world_process_zero or not self._monitor.is_due(state.global_step):
            return
        model = self._trainer.accelerator.unwrap_model(self._trainer.model)
        values, stop = self._monitor.evaluate(model, self._tokenizer, state.global_step)
        if values:
            self._trainer.log(values)
        control.should_training_stop |= stop

    on_train_begin = on_step_end
