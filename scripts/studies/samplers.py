"""How far the exact output law of each sampler of denoisers is from the law of a world of known texts."""

from collections.abc import Iterator

from openended.harness.backends.denoiser import denoising
from scripts.studies.study import Study
from tests.oracles.sampler_laws import SMALL_WORLD, MarkovWorld, compute_output_law

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


def compute_distance(title: str) -> Iterator[list[str]]:
    """Yield the row of a sampler: size of its world, and the total variation from the world's law."""
    decoder = next(decoder for decoder in SAMPLERS if decoder.title == title)
    is_remembering = isinstance(decoder, denoising.Remdm) and decoder.strategy == "conf"
    world = SMALL_WORLD if is_remembering else MarkovWorld()
    law = compute_output_law(world, decoder)
    distance = float((law - world.law().flatten()).abs().sum() / 2)
    yield [title, str(world.vocab_size), str(world.length), f"{distance:.2e}" if distance > 1e-12 else "0"]


SAMPLED = Study(
    titles=lambda: [decoder.title for decoder in SAMPLERS], compute=compute_distance, page="docs/denoisers.md",
    heading="samplers",
)  # fmt: skip
