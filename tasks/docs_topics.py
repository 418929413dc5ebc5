"""Diagnostic for precision and recall on bundled data: as `ag_news`, with the package of a docstring as the topic."""

from collections import Counter
from collections.abc import Iterator

from openended.harness.core import Example, ranged, task
from openended.tasks._passages import DEFAULT_PACKAGES
from openended.tasks.ag_news import TopicTask
from openended.tasks.docs import Docs, load_corpus


@task
class DocsTopics(TopicTask):
    """Diagnostic without a model: docstrings of some packages against other sets of packages.

    Systems: generations=topics:torch, generations=topics:torch+sklearn+scipy.
    """

    name = "docs_topics"
    source = "the installed packages"
    size = "about 4,000 passages of 60 words or more"
    license = "PSF, BSD, Apache-2.0 (text is read where it is installed)"
    obtained = "none"
    command = (
        "openended -m task=docs_topics generations=topics:torch,topics:torch+sklearn metric=[knn_precision_recall]"
    )
    topic_names = DEFAULT_PACKAGES

    topics: tuple[str, ...] = ("torch", "sklearn")
    """The reference."""
    min_words: int = ranged(60, "[1, inf)", "1 or more")
    """Of a passage."""

    def has_docs_prose(self) -> bool:
        return True

    def fingerprint(self) -> str:
        return Docs().fingerprint()

    def read_texts(self, skipped: Counter[str]) -> Iterator[Example]:
        for passage in load_corpus(self.fingerprint()):
            if len(passage.text.split()) >= self.min_words:
                yield Example(f"docs_topics/{passage.id}", "", passage.text, {"topic": passage.package})
            else:
                skipped[f"shorter than {self.min_words} words"] += 1
