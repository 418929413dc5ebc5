"""Exact output laws of the samplers of denoisers, on Markov chains whose conditionals are exact.

A distribution over all states, masks included, is pushed through every step by the samplers' own update rules.
`python -m tests.oracles.sampler_laws` prints the table of `docs/denoisers.md`.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Tensor

from openended.harness.backends.denoiser import denoising

_AXES = "abcdefgh"


@dataclass(frozen=True, eq=False)
class MarkovWorld:
    """A Markov chain over `vocab_size` tokens; the law of its texts of `length` tokens is known."""

    vocab_size: int = 4
    length: int = 6
    seed: int = 0

    def law(self) -> Tensor:
        """Return the probability of every text, one axis a position."""
        generator = torch.Generator().manual_seed(self.seed)
        rows = torch.rand((self.vocab_size + 1, self.vocab_size), generator=generator, dtype=torch.float64) ** 3 + 0.01
        rows /= rows.sum(dim=1, keepdim=True)
        law = rows[-1]
        for _ in range(self.length - 1):
            law = law[..., None] * rows[:-1]
        return law

    def states(self, *, masks: bool) -> Tensor:
        """Return all texts, with masks (the last token) or without, shape (states, positions)."""
        size = self.vocab_size + masks
        return torch.cartesian_prod(*[torch.arange(size)] * self.length).reshape(-1, self.length)

    def propose_for_masks(self, ids: Tensor) -> Tensor:
        """Return p(token at a position | tokens that are not masked), shape (n, positions, V + 1)."""
        observed = self.law()
        for axis in range(self.length):
            observed = torch.cat([observed, observed.sum(dim=axis, keepdim=True)], dim=axis)
        out = torch.zeros((*ids.shape, self.vocab_size + 1), dtype=torch.float64)
        for position, token in itertools.product(range(self.length), range(self.vocab_size)):
            filled = ids.clone()
            filled[:, position] = token
            out[:, position, token] = observed[tuple(filled.T)]
        return out / out.sum(dim=-1, keepdim=True)

    def propose_for_noise(self, ids: Tensor, alpha: float, *, sees_own: bool) -> Tensor:
        """Return p(token at a position | noisy text), shape (n, positions, V); without `sees_own` from other positions.

        The posterior of a uniform-state model takes its own position into account by itself: with a denoiser that reads
        the other positions it is the exact reverse process of small steps. The forward process of the
        predictor-corrector modes needs one that reads all.
        """
        size = self.vocab_size
        kernel = alpha * torch.eye(size, dtype=torch.float64) + (1 - alpha) / size
        out = torch.empty((*ids.shape, size), dtype=torch.float64)
        for position in range(self.length):
            joint = self.law()
            for axis in (axis for axis in range(self.length) if axis != position):
                joint = torch.movedim(torch.tensordot(joint, kernel, dims=([axis], [0])), -1, axis)
            others = [axis for axis in range(self.length) if axis != position]
            out[:, position] = torch.movedim(joint, position, -1)[tuple(ids[:, others].T)]
            if sees_own:
                out[:, position] *= kernel[ids[:, position]]
        return out / out.sum(dim=-1, keepdim=True)


def sees_own(decoder: denoising.DenoisingDecoder) -> bool:
    """Return whether the exact denoiser for a sampler reads the position that it proposes a token for."""
    return isinstance(decoder, denoising.Duo) and decoder.mode != "posterior"


class WorldDenoiser:
    """A world as the model of the samplers; its tokens are read as letters."""

    device = torch.device("cpu")
    context_length = None
    eos_ids = ()
    tokenizer = SimpleNamespace(decode=lambda ids: "".join(_AXES[i] for i in ids))
    block_size = None

    def __init__(self, world: MarkovWorld, decoder: denoising.DenoisingDecoder) -> None:
        self._world, self._is_masked, self._sees_own = world, decoder.noise == "mask", sees_own(decoder)
        self.mask_id = world.vocab_size if self._is_masked else -1
        self.vocab_size = world.vocab_size + self._is_masked

    def denoise(self, ids: Tensor, noise_level: float) -> Tensor:
        """Return the exact conditionals as logits."""
        if self._is_masked:
            return self._world.propose_for_masks(ids).log()
        return self._world.propose_for_noise(ids, math.exp(-noise_level), sees_own=self._sees_own).log()


def compute_output_law(world: MarkovWorld, decoder: denoising.DenoisingDecoder) -> Tensor:
    """Return the exact law of the texts of a sampler with the world's conditionals, flat over the texts."""
    if isinstance(decoder, denoising.Duo):
        return _propagate_uniform(world, decoder)
    if isinstance(decoder, denoising.Remdm) and decoder.strategy == "conf":
        return _propagate_with_confidence(world, decoder)
    ids = world.states(masks=True)
    proposal = _propose(decoder, world.propose_for_masks(ids))
    weights = torch.zeros(len(ids), dtype=torch.float64)
    weights[-1] = 1  # all masks
    for step in range(decoder.count_steps(world.length)):
        weights = sum(_push(w, law) for w, law in _list_moves(world, decoder, step, ids, proposal, weights))
    texts = (ids < world.vocab_size).all(dim=1)
    return weights[texts]


def _propose(decoder: denoising.DenoisingDecoder, probs: Tensor) -> Tensor:
    return denoising.compute_proposal(probs.log(), decoder.temperature, decoder.nucleus_p, decoder.nucleus_rule)


def _list_moves(
    world: MarkovWorld, decoder: denoising.DenoisingDecoder, step: int, ids: Tensor, proposal: Tensor, weights: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the parts of a step: weights of the states, and the law of each position in them."""
    is_masked, noise = ids == world.vocab_size, torch.zeros(world.vocab_size + 1, dtype=torch.float64)
    noise[-1] = 1
    if isinstance(decoder, denoising.DiffusionDecoder):
        transition = decoder.transition_masked(step, is_masked, torch.zeros(()))
        yield weights, denoising.compute_law(transition, proposal, ids, noise)
    elif isinstance(decoder, denoising.FirstHitting):
        count = is_masked.sum(dim=1).clamp_min(1)
        for number in range(world.length):
            chosen = denoising.choose_one(is_masked, ((number + 0.5) / count).clamp(max=1 - 1e-9))
            yield weights * (number < count) / count, _compute_law_of_chosen(chosen, proposal, ids, noise)
    elif isinstance(decoder, denoising.Llada) and decoder.remasking == "random":
        count = denoising.count_revealed(world.length, decoder.steps, step)
        for subset in itertools.combinations(range(world.length), count):
            chosen = torch.zeros_like(is_masked)
            chosen[:, list(subset)] = True
            possible = (is_masked | ~chosen).all(dim=1)
            ways = [max(math.comb(m, count), 1) for m in is_masked.sum(dim=1).tolist()]
            law = _compute_law_of_chosen(chosen & is_masked, proposal, ids, noise)
            yield weights * possible / torch.tensor(ways), law
    else:  # LLaDA with every vector of candidates, of which the most confident are revealed
        count, candidates = denoising.count_revealed(world.length, decoder.steps, step), world.states(masks=False)
        for number in weights.nonzero().flatten().tolist():
            unique = candidates[(candidates[:, ~is_masked[number]] == 0).all(dim=1)]
            probs = proposal[number].gather(1, unique.T).T  # (candidates, positions)
            confidence = torch.where(is_masked[number], probs, -math.inf)
            revealed = torch.where(denoising.choose_most_confident(confidence, count), unique, ids[number])
            law = torch.nn.functional.one_hot(revealed, world.vocab_size + 1).double()
            yield weights[number] * torch.where(is_masked[number], probs, 1.0).prod(dim=1), law


def _compute_law_of_chosen(chosen: Tensor, proposal: Tensor, ids: Tensor, noise: Tensor) -> Tensor:
    """Return the law of each position where the chosen ones are revealed."""
    transition = denoising.Transition(chosen.double(), torch.zeros_like(chosen, dtype=torch.float64))
    return denoising.compute_law(transition, proposal, ids, noise)


def _push(weights: Tensor, law: Tensor) -> Tensor:
    """Return the distribution after a step: the mixture, by weights, of products of the positions' laws."""
    reached, half = weights > 0, law.shape[1] // 2
    left, right = (_multiply(part[reached]) for part in (law[:, :half], law[:, half:]))
    return ((weights[reached, None] * left).T @ right).flatten()


def _multiply(law: Tensor) -> Tensor:
    out = law[:, 0]
    for position in range(1, law.shape[1]):
        out = (out[:, :, None] * law[:, position, None, :]).flatten(1)
    return out


def _propagate_uniform(world: MarkovWorld, decoder: denoising.Duo) -> Tensor:
    ids, size = world.states(masks=False), world.vocab_size
    weights = torch.full((len(ids),), 1 / len(ids), dtype=torch.float64)
    noise = torch.full((size,), 1 / size, dtype=torch.float64)
    for step in range(decoder.steps):
        alpha = decoder.alphas(step)[0]
        proposal = _propose(decoder, world.propose_for_noise(ids, alpha, sees_own=sees_own(decoder)))
        present_prob = proposal.gather(-1, ids[..., None]).squeeze(-1)
        transition = decoder.transition_uniform(step, present_prob, size)
        weights = _push(weights, denoising.compute_law(transition, proposal, ids, noise))
    return weights


def _propagate_with_confidence(world: MarkovWorld, decoder: denoising.Remdm) -> Tensor:
    """Return the output law of a sampler that remembers confidences: a state is tokens with their confidences."""
    size, length = world.vocab_size, world.length
    ids = torch.full((1, length), size)
    confidence = torch.full((1, length), -math.inf, dtype=torch.float64)
    weights = torch.ones(1, dtype=torch.float64)
    choices = torch.cartesian_prod(*[torch.arange(size + 1)] * length).reshape(-1, length)
    noise = torch.nn.functional.one_hot(torch.tensor(size), size + 1).double()
    for step in range(decoder.steps):
        is_masked, proposal = ids == size, _propose(decoder, world.propose_for_masks(ids))
        law = denoising.compute_law(decoder.transition_masked(step, is_masked, confidence), proposal, ids, noise)
        outcomes = torch.where(is_masked[..., None], proposal, confidence[..., None])
        outcomes[..., size] = -math.inf
        index = choices.T.expand(len(ids), -1, -1)
        weights = (weights[:, None] * law.gather(2, index).prod(dim=1)).flatten()
        confidence = outcomes.gather(2, index).transpose(1, 2).reshape(-1, length)
        ids = choices.repeat(len(ids), 1)
        reached = weights > 0
        states = torch.cat([ids[reached].double(), confidence[reached].round(decimals=12)], dim=1)
        states, where = states.unique(dim=0, return_inverse=True)
        weights = torch.zeros(len(states), dtype=torch.float64).index_add_(0, where, weights[reached])
        ids, confidence = states[:, :length].long(), states[:, length:]
    powers = size ** torch.arange(length - 1, -1, -1)
    return torch.zeros(size**length, dtype=torch.float64).index_add_(0, ids @ powers, weights)


SMALL_WORLD = MarkovWorld(vocab_size=2, length=3)
"""For `conf`: its states hold confidences too, and are too many in the larger world."""

_STEPS = (1, 4, 16, 64)
SAMPLERS: tuple[denoising.DenoisingDecoder, ...] = (
    denoising.FirstHitting(),
    *(denoising.Mdlm(steps=steps) for steps in _STEPS),
    *(
        denoising.Remdm(strategy=strategy, eta=0.1, nucleus_p=1.0, steps=steps)
        for strategy in ("cap", "rescale", "forward_backward", "loop", "conf")
        for steps in (16, 64)
    ),
    *(denoising.Duo(steps=steps) for steps in _STEPS),
    *(denoising.Duo(mode=mode, steps=steps) for mode in ("pc", "cap", "rescale") for steps in (16, 64)),
    *(
        denoising.Llada(temperature=1.0, steps=steps, block_length=6, remasking=remasking)
        for remasking in ("random", "low_confidence")
        for steps in (6, 3, 1)
    ),
)
"""Those of the table of the page."""


def format_distance(decoder: denoising.DenoisingDecoder) -> str:
    """Return a sampler's line of the table: size of its world, and the total variation from the world's law."""
    is_remembering = isinstance(decoder, denoising.Remdm) and decoder.strategy == "conf"
    world = SMALL_WORLD if is_remembering else MarkovWorld()
    distance = float((compute_output_law(world, decoder) - world.law().flatten()).abs().sum() / 2)
    printed = f"{distance:.2e}" if distance > 1e-12 else "0"
    return f"| {decoder.title} | {world.vocab_size} | {world.length} | {printed} |"


if __name__ == "__main__":
    print(*map(format_distance, SAMPLERS), sep="\n")
