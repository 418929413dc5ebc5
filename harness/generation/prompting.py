"""How the model under test is asked for its answers: for one, for a list, or for answers with probabilities.

One reply to a list holds several answers, and each is one text of the prompt. Asking for answers with probabilities,
"verbalized sampling", is of Zhang et al. 2025 (arXiv 2510.01171). There all answers of a reply count alike in creative
writing, and one is drawn by the stated probabilities in simulated dialogue; `weights` chooses between the two.
The wording of the requests is ours; `template` takes another one.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from openended.harness.core import Spec, make_random_stream, option, ranged

if TYPE_CHECKING:
    from openended.harness.generation.listed_answers import ListedAnswer

_FRAME = 32  # tokens that an answer's number, tags and probability may take
_TEMPLATES = {
    "direct": "{prompt}",
    "list": (
        "Give {answers} different answers to the request below. Write each one as <response>ANSWER</response> and "
        "nothing else.\n\nRequest: {prompt}"
    ),
    "verbalized": (
        "Give {answers} answers to the request below, drawn at random from all answers that you could give. Write each "
        "one as <response><text>ANSWER</text><probability>P</probability></response> and nothing else, where P is the "
        "probability that you would give this answer, a number from 0 to 1.\n\nRequest: {prompt}"
    ),
}


@dataclass(frozen=True, kw_only=True)
class PromptForm(Spec):
    """How the model under test is asked for its answers."""

    group: ClassVar[str] = "prompting"
    name: ClassVar[str] = "prompting"

    form: Literal["direct", "list", "verbalized"] = "direct"
    """One answer per reply, a list of them, or a list in which each has a stated probability."""
    answers: int = ranged(5, "[1, inf)", "1 or more")
    """Per reply of list and verbalized (Zhang et al. 2025); samples=10 then are two replies per prompt."""
    template: str | None = option(None, lambda text: text is None or "{prompt}" in text, "null or a text with {prompt}")
    """What the model reads, with `{prompt}` and `{answers}`; null: the form's own."""
    start: str = ""
    """The reply's beginning, given to the model, as "1. " for base models.
    """
    spare_replies: int = ranged(0, "[0, inf)", "0 or more")
    """Further replies to each prompt, which fill in for unreadable answers."""
    weights: Literal["ignore", "draw"] = "ignore"
    """`verbalized`: every answer is one text, or each text is drawn by the stated probabilities, with replacement."""
    reply_tokens: int | None = ranged(None, "[1, inf)", "1 or more, or null")
    """Longest reply; null: room for the answers, each of `max_new_tokens`, and their frames."""

    def check(self) -> None:
        self.require(
            self.weights == "ignore" or self.form == "verbalized", "weights", "ignore, unless prompting=verbalized"
        )
        self.require(not self.start or self.lists, "start", "nothing, unless prompting=list or verbalized")

    @property
    def lists(self) -> bool:
        """Whether a reply lists answers; otherwise it is the text."""
        return self.form != "direct"

    @property
    def changes_nothing(self) -> bool:
        """Whether the model reads the prompts themselves."""
        return not self.lists and self.template in (None, "{prompt}")

    def count_replies(self, samples: int) -> int:
        """Return how many replies to one prompt hold so many texts."""
        return math.ceil(samples / self.answers) + self.spare_replies if self.lists else samples

    def limit_reply(self, max_new_tokens: int) -> int:
        """Return the longest reply in tokens."""
        return (self.reply_tokens or self.answers * (max_new_tokens + _FRAME)) if self.lists else max_new_tokens

    def render(self, prompt: str) -> str:
        """Return what the model reads for a prompt, without the reply's beginning."""
        template = self.template or _TEMPLATES[self.form]
        return template.replace("{answers}", str(self.answers)).replace("{prompt}", prompt)

    def read_reply(self, reply: str, is_cut: bool, failures: Counter[str]) -> "list[ListedAnswer]":
        """Return the answers of a reply, at most as many as were asked for; count in `failures` what cannot be read."""
        from openended.harness.generation.listed_answers import read_answers

        listed = read_answers(self.start + reply, is_cut=is_cut)[: self.answers]
        failures["replies without a readable answer"] += not listed
        failures["answers missing in other replies"] += self.answers - len(listed) if listed else 0
        if self.form == "list":
            return listed
        weighted = [answer for answer in listed if answer.weight is not None]
        failures["answers without a readable probability"] += len(listed) - len(weighted)
        if self.weights == "draw" and weighted and not any(answer.weight for answer in weighted):
            failures["replies whose probabilities are all 0"] += 1
            return []
        return weighted

    def choose_texts(self, answers: "Sequence[ListedAnswer]", seed: int, example_id: str, reply: int) -> list[str]:
        """Return the texts that a reply gives: its answers, or as many draws from them by their probabilities."""
        texts, weights = [answer.text for answer in answers], [answer.weight or 0.0 for answer in answers]
        if self.weights == "ignore" or not answers:
            return texts
        stream = make_random_stream(seed, "verbalized", example_id, reply)
        rows = stream.choice(len(texts), self.answers, p=[weight / sum(weights) for weight in weights])
        return [texts[row] for row in rows]
