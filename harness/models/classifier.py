"""Language models that are fine-tuned to tell model texts from human ones."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import DataError
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import load_transformers_tokenizer
from openended.harness.models.transformers import is_output_layer, read_weights


def finetune_classifier(
    spec: ModelSpec, device: str, texts: Sequence[str], is_model: NDArray[np.bool_], test_texts: Sequence[str], *,
    max_length: int, epochs: int, learning_rate: float, batch_size: int, seed: int,
) -> NDArray[np.bool_]:  # fmt: skip
    """Fine-tune a language model with a new output layer by AdamW, and classify texts.

    Args:
        spec: The pretrained model.
        device: Where it is trained.
        texts: Texts to train on.
        is_model: True where a language model wrote the text, shape (texts,).
        test_texts: Texts to classify.
        max_length: Tokens read of each text, from its start.
        epochs: Passes over the texts.
        learning_rate: At the first step; falls linearly to 0.
        batch_size: Texts per step.
        seed: Of the output layer, dropout and the order of the texts.

    Returns:
        True where a text is taken for a model's, shape (test_texts,).

    Raises:
        DataError: If the model cannot be read.
    """
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        tokenizer, model = _load_classifier(spec)
        model.to(device).train()
        limit = min(max_length, int(getattr(model.config, "max_position_embeddings", max_length)))

        def encode(rows: Sequence[str]) -> Any:  # noqa: ANN401 - a batch of transformers
            return tokenizer(list(rows), padding=True, truncation=True, max_length=limit, return_tensors="pt").to(
                device
            )

        steps = epochs * math.ceil(len(texts) / batch_size)
        optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
        labels = torch.from_numpy(is_model.astype(np.int64))
        for _ in range(epochs):
            for rows in torch.split(torch.randperm(len(texts)), batch_size):
                batch = encode([texts[row] for row in rows.tolist()])
                model(**batch, labels=labels[rows].to(device)).loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
        model.eval()
        with torch.inference_mode():
            parts = [test_texts[start : start + batch_size] for start in range(0, len(test_texts), batch_size)]
            return np.concatenate([model(**encode(part)).logits.argmax(-1).cpu().numpy() == 1 for part in parts])


def _load_classifier(spec: ModelSpec) -> tuple[Any, Any]:
    """Load a tokenizer and a model with a new output layer for two classes."""
    from transformers import AutoModelForSequenceClassification

    try:
        spec.check_ready()
        tokenizer = load_transformers_tokenizer(spec)
        model = read_weights(AutoModelForSequenceClassification, spec, "model", unused=is_output_layer, num_labels=2)
    except DataError as err:
        raise DataError(f"finetuned_discriminator: classifier {spec.path} cannot be read: {err}") from err
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    model.config.pad_token_id = tokenizer.pad_token_id
    return tokenizer, model
