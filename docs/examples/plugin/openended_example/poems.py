"""A task: sixteen lines of public-domain verse; the first words are the prompt, the rest is the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from openended.plugins import Example, Task, Tokenizer, digest, ranged, task

LINES = (  # William Blake, "The Tyger" and "The Lamb", 1789 and 1794
    "Tyger Tyger, burning bright, in the forests of the night",
    "What immortal hand or eye could frame thy fearful symmetry",
    "In what distant deeps or skies burnt the fire of thine eyes",
    "On what wings dare he aspire? What the hand, dare seize the fire",
    "And what shoulder, and what art, could twist the sinews of thy heart",
    "And when thy heart began to beat, what dread hand and what dread feet",
    "What the hammer? what the chain, in what furnace was thy brain",
    "When the stars threw down their spears and water'd heaven with their tears",
    "Did he smile his work to see? Did he who made the Lamb make thee",
    "Little Lamb who made thee, dost thou know who made thee",
    "Gave thee life and bid thee feed by the stream and o'er the mead",
    "Gave thee clothing of delight, softest clothing, wooly, bright",
    "Gave thee such a tender voice, making all the vales rejoice",
    "He is meek and he is mild, he became a little child",
    "I a child and thou a lamb, we are called by his name",
    "Little Lamb I'll tell thee, little Lamb I'll tell thee",
)


@task
class Poems(Task):
    """Lines of verse."""

    name = "poems"
    source = "in the package"
    size = "16"
    license = "public domain"
    obtained = "comes with the package"
    command = "openended task=poems num_examples=8 max_new_tokens=16"

    words: int = ranged(3, "[1, 6]", "1 to 6")  # words of a line that form its prompt

    def fingerprint(self) -> str:
        """Return a digest of the lines, which is part of every key and signature."""
        return digest(LINES)

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield the lines."""
        del tokenizer, skipped
        for number, line in enumerate(LINES):
            words = line.split(" ")
            human = " " + " ".join(words[self.words :])
            yield Example(f"poems/{number:06d}", " ".join(words[: self.words]), human)
