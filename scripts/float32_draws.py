"""Entropy that a masked diffusion sampler loses by drawing in float32, by the law of the draw; no texts are drawn.

    python scripts/float32_draws.py [--n 200]

In a step from t to s a masked position gets token v with probability q = p(v) (t - s) / t, else it stays masked. The
Gumbel trick takes the largest q / E with E = -log(u). A float32 u is a multiple of d = 2^-24 below 1, so E is never
below d, and token v wins with probability d / (exp(x) - 1) = q x / (exp(x) - 1) instead of q, with x = d / q: 97 % of
what it should at q = 1e-6, 58 % at 6e-8, next to nothing below 1e-8. With T steps, q is p(v) / (T t): the more steps,
the more tokens are affected.
"""

import argparse
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from openended.harness.backends.denoiser.backend import DenoiserSpec, load_denoiser
from openended.tasks.unconditional import Unconditional

F64 = NDArray[np.float64]
GRID = 2.0**-24  # of float32 uniforms
STEPS = (64, 1024, 4096)
LENGTH = 64


def compute_float32_law(probs: F64, share: F64) -> F64:
    """Return the law of a token drawn in float32, given that one is drawn."""
    q = np.maximum(probs * share[:, None], 1e-300)
    wins = GRID / np.expm1(np.minimum(GRID / q, 700))
    return wins / wins.sum(axis=1, keepdims=True)


def compute_entropy(probs: F64) -> F64:
    """Return the entropies of distributions in nats, shape (n,)."""
    return -(probs * np.log(np.maximum(probs, 1e-300))).sum(axis=1)


def read_states(count: int) -> Iterator[tuple[float, F64]]:
    """Yield mask ratios and the distributions of `docs-mlm` at the masked positions of human texts."""
    import torch

    lm = load_denoiser(DenoiserSpec(path="bundled:docs-mlm"))
    examples = Unconditional(length=LENGTH).examples(lm.tokenizer, Counter())
    rng = np.random.default_rng(0)
    for t, example in zip((np.arange(count) + 0.5) / count, examples, strict=False):
        ids = torch.tensor(lm.tokenizer.encode(example.human)[:LENGTH])
        is_masked = torch.from_numpy(rng.random(len(ids)) < t)
        if is_masked.any():
            with torch.inference_mode():
                logits = lm.denoise(torch.where(is_masked, lm.mask_id, ids)[None], 0.0)[0, is_masked, : lm.mask_id]
            yield t, logits.double().softmax(dim=-1).numpy()


def main() -> None:
    """Print the loss of entropy for Zipf's law with two vocabularies, and for the bundled model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=200, help="texts")
    states = list(read_states(parser.parse_args().n))
    for size in (4096, 50257):
        zipf = 1 / np.arange(1, size + 1)[None, :]
        times = np.linspace(0.005, 0.995, 100)
        print_losses(f"Zipf's law, {size:,} tokens", [(t, zipf / zipf.sum()) for t in times])
    print_losses("docs-mlm, 4,096 tokens", states)


def print_losses(name: str, states: list[tuple[float, F64]]) -> None:
    """Print a row: entropy and, for each number of steps, what float32 takes from it (95 % interval over states)."""
    exact = np.array([compute_entropy(probs).mean() for _, probs in states])
    cells = [f"{exact.mean():.2f}"]
    for steps in STEPS:
        shares = [np.full(len(probs), min(1.0, 1 / (steps * t))) for t, probs in states]
        laws = [compute_float32_law(probs, share) for (_, probs), share in zip(states, shares, strict=True)]
        lost = exact - [compute_entropy(law).mean() for law in laws]
        cells.append(f"{lost.mean():.3f} ± {1.96 * lost.std(ddof=1) / np.sqrt(len(lost)):.3f}")
    print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
