"""What papers and other tools call a class, its class variable `synonyms`."""

import logging
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from openended.harness.core import registry
from openended.harness.core.choices import describe_choice, list_bundled_choices, list_metric_names, list_names
from openended.harness.core.errors import SpecError, find_spelling, fold_spelling, suggest

log = logging.getLogger(__name__)
_OF_HYDRA = {"bayes": "optuna", "local": "basic"}  # a sweeper and a launcher, which are no members of a group


@lru_cache
def read_synonyms(group: str) -> Mapping[str, str]:
    """Return synonym, folded → name of the classes of a group; imports all their modules."""
    classes = registry.load_members(group) if group in registry.CLASS_GROUPS else {}
    return {fold_spelling(word): name for name, cls in classes.items() for word in vars(cls).get("synonyms", ())}


def find_synonym(group: str, word: str, names: Collection[str]) -> str | None:
    """Return the one of some choices that others call by this word; None if there is none."""
    name = read_synonyms(group).get(fold_spelling(word)) or _OF_HYDRA.get(word)
    return name if name in names else None


def resolve_synonym(group: str, word: str) -> str:
    """Return the name of the choice that a word of the field stands for, with a note; the word itself if there is none.

    Raises `SpecError` for measures that this package leaves out on purpose, and for a name with a minus.
    """
    if word.startswith("-"):
        raise SpecError(f"{group}: {word}: no name can be left out of a set; name those that you want")
    names = list_names(group)
    if spelling := word if word in names else find_spelling(word, names):  # `MAUVE`, `Self-BLEU`
        return spelling
    if group == "metric":
        from openended.harness.core.foreign_options import refuse_left_out_metric

        refuse_left_out_metric(word)
    if (name := find_synonym(group, word, names)) is None:
        return word
    log.warning("note: %s %s is %s here: %s", group, word, name, describe_choice(group, name))
    return name


def resolve_metric_names(requested: Iterable[str]) -> list[str]:
    """Expand names of metrics (plug-ins included) and of sets into a sorted list; raise `SpecError` for others."""
    metrics = registry.list_members("metric")
    names = {*list_metric_names(resolve_synonym("metric", word) for word in requested)}
    for name in names:
        if name.endswith(".py"):
            raise SpecError(f"no metric {name!r}: a metric of your own is a plug-in; docs/examples/plugin has one")
        if name not in metrics:
            choices = {*list_bundled_choices("metric"), *metrics}
            raise SpecError(f"no metric {name!r}{suggest(name, choices, 'openended list metric')}")
        registry.load_member("metric", name)
    return sorted(names)
