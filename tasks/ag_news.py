"""Diagnostic task for precision and recall without a model: news of two topics against other sets of topics.

The reference holds news of two topics (Le Bronnec et al. 2024, section on known distributions); a system is news of
other topics, of the other split. A subset of the topics must have high precision and low recall, a superset high
recall and lower precision, the same topics both. Texts have no prompt: title, line break, description.

    openended -m task=ag_news generations=topics:world,topics:world+sports metric=[knn_precision_recall]

Source: AG's corpus of news articles (Gulli), in the form of Zhang et al. 2015 (character-level convolutional networks):
CSV of class (1 to 4), title, description. License: non-commercial use.
"""

from __future__ import annotations

import csv
import html
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from openended.harness.core import DataError, Example, task
from openended.tasks._files import PublicFileTask
from openended.tasks._topics import TopicTask

Topic = Literal["world", "sports", "business", "science"]
TOPICS: tuple[Topic, ...] = ("world", "sports", "business", "science")


@task
class AgNews(TopicTask, PublicFileTask):
    """News of the reference topics; `generations=topics:…` scores news of others."""

    name = "ag_news"
    source = "https://github.com/mhjabreel/CharCnn_Keras/tree/master/data/ag_news_csv"
    size = "30,000 a topic (train), 1,900 a topic (test); half of them for the reference"
    topic_names = TOPICS
    license = "non-commercial use (AG's corpus)"
    obtained = "fetched at the first use"
    address = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/{split}.csv"
    command = (
        "openended -m task=ag_news generations=topics:world,topics:world+sports metric=[knn_precision_recall]"
        " scoring=gpt2-large"
    )

    split: Literal["train", "test"] = "train"
    topics: tuple[Topic, ...] = ("world", "sports")  # the reference

    def read_texts(self, skipped: Counter[str]) -> Iterator[Example]:
        path = self.data_path()
        try:
            with path.open(encoding="utf-8-sig", newline="") as handle:
                rows = csv.reader(handle)
                for number, row in enumerate(rows):
                    if not row:
                        continue  # a blank line
                    if len(row) != 3 or row[0] not in ("1", "2", "3", "4"):
                        where = f"{path}:{rows.line_num}"
                        raise DataError(f"{where}: expected a class from 1 to 4, a title and a description")
                    text = "\n".join(html.unescape(part.replace("\\n", " ")).strip() for part in row[1:])
                    if not text.strip():
                        skipped["text is empty"] += 1
                        continue
                    yield Example(f"ag_news/{number:06d}", "", text, {"topic": TOPICS[int(row[0]) - 1]})
        except FileNotFoundError as err:
            raise DataError(f"missing file: {path}; get it from {self.remote().url}") from err
        except (csv.Error, UnicodeDecodeError, OSError) as err:
            raise DataError(f"{path}: not a CSV file in UTF-8 ({err})") from err
