"""The text statistics of the published generations have the values that were computed by other code."""

import gzip
import json

import numpy as np
import pytest

from openended.metrics.distinct_n import distinct_n
from openended.metrics.eps_ppl import eps_ppl
from openended.metrics.families import index_of
from openended.metrics.gen_ppl import gen_ppl
from openended.metrics.jensen_shannon import jensen_shannon
from openended.metrics.length import length_statistics
from openended.metrics.repetition import diversity, final_repeats, loop_rate, seq_rep_n
from openended.metrics.self_bleu import self_bleu
from openended.metrics.zipf import zipf_coefficient
from tests.helpers import SHARED, ragged
from tests.metrics.helpers import GENERATIONS, bpe, needed, published

pytestmark = pytest.mark.reference
CORPORA = {
    "greedy": ("webtext/gpt2-large-greedy.jsonl", "generation"),
    "nucleus": ("webtext/gpt2-large-nucleus.jsonl", "generation"),
    "contrastive": ("wikitext/gpt2-xl-contrastive.jsonl", "generation"),
    "human-webtext": ("webtext/gpt2-large-greedy.jsonl", "reference"),
    "human-wikitext": ("wikitext/gpt2-xl-contrastive.jsonl", "reference"),
}


@pytest.fixture(scope="module", params=CORPORA)
def corpus(request):
    """The words of each text, both token streams by name, the computed values and the stored ones."""
    file, field = CORPORA[request.param]
    book = json.loads(needed(GENERATIONS / "expected.json").read_text(encoding="utf-8"))
    entry = next(entry for entry in book["files"] if entry["file"] == file)
    want = book["reference_computed"][file.split("/")[0]] if field == "reference" else entry["computed"]
    words = [text.split() for text in published(file, field)]
    texts = [text for text in published(file, field) if text.strip()]  # empty texts are dropped, as in the values
    streams = {
        "words": [text for text in words if text],
        "gpt2_bpe": [encoded.ids for encoded in bpe().encode_batch(texts, add_special_tokens=False)],
    }
    return words, streams, want, entry["stored"], field


@pytest.mark.slow
def test_words(corpus):
    words, streams, want, stored, field = corpus
    assert len(words) == want["n_docs"]
    assert sum(not text for text in words) == want["n_empty"]
    mean = length_statistics(words)["length"]
    assert mean == pytest.approx(want["mean_words"], rel=1e-14)
    if field == "generation":
        assert mean == pytest.approx(stored["gen_length_words"], rel=1e-14)
    pooled, texts_mean, tables = (seq_rep_n(words, average=average) for average in ("pooled", "texts", "simctg"))
    for n in (2, 3, 4):
        assert pooled[n] == pytest.approx(want["rep_pooled_all_ngrams"][str(n)], rel=1e-13)
        assert texts_mean[n] == pytest.approx(want["seq_rep_mean_over_docs"][str(n)], rel=1e-13)
        assert round(100 * tables[n], 2) == want["rep_pct_simctg"][str(n)]
    assert round(100 * diversity(words, simctg=True), 2) == want["diversity_pct_simctg"]
    key = "reference_diversity_pct" if field == "reference" else "diversity_pct"
    assert round(100 * diversity(words, simctg=True), 2) == stored[key]
    simctg = distinct_n(streams["words"], orders=(2, 3, 4), variant="simctg")
    assert {str(n): round(100 * (1 - share), 2) for n, share in simctg.items()} == want["rep_pct_simctg"]
    bleu = self_bleu(streams["words"][:200], orders=(4, 5))
    assert bleu == {n: pytest.approx(want["self_bleu_first200"][str(n)], rel=1e-13) for n in (4, 5)}


@pytest.mark.parametrize("name", ["words", "gpt2_bpe"])
def test_streams(corpus, name):
    texts, want = corpus[1][name], corpus[2][name]
    assert sum(map(len, texts)) == want["n_tokens"]
    assert len({token for text in texts for token in text}) == want["vocab"]
    index = index_of(texts)
    for order, value in want["distinct"].items():
        assert distinct_n(index, orders=(int(order),))[int(order)] == pytest.approx(value, rel=1e-15)
    for order, value in want["hapax_fraction"].items():
        found = distinct_n(index, orders=(int(order),), variant="hapax")[int(order)]
        assert found == pytest.approx(value, rel=1e-15)
    # sums of 5,000 logarithms in another order
    assert zipf_coefficient(texts) == pytest.approx(want["zipf_plain"], rel=1e-11)
    assert zipf_coefficient(texts, definition="log_thinned") == pytest.approx(want["zipf_thinned"], rel=1e-11)
    for limit in (500, 90):
        assert round(loop_rate(texts, max_phrase=limit) * len(texts)) == want[f"loop_count_{limit}"]
    # any phrase that stands at least twice, whatever its length
    halves = sum(any(t[-n:] == t[-2 * n : -n] for n in range(1, min(500, len(t) // 2) + 1)) for t in texts)
    repeats, _ = final_repeats(index, 500)
    assert int((repeats > 1).sum()) == halves == want["any_final_repeat_count_500"]


@pytest.mark.parametrize("name", ["webtext-human.gpt2", "wiki-gpt2-generated", "wiki-gpt2-xl-generated"])
def test_losses(name):
    want = json.loads(needed(SHARED / "data/nll" / "expected.json").read_text(encoding="utf-8"))[f"{name}.jsonl.gz"]
    with gzip.open(needed(SHARED / "data/nll" / f"{name}.jsonl.gz"), "rt", encoding="utf-8") as handle:
        rows = ragged([json.loads(line)["nll"] for line in handle], np.float64)
    assert (len(rows), len(rows.values)) == (want["n_docs"], want["n_scored_tokens"])
    assert gen_ppl(rows) == pytest.approx(want["ppl_corpus"], rel=1e-12)
    assert gen_ppl(rows, average="macro") == pytest.approx(want["ppl_mean_of_documents"], rel=1e-12)
    compat = gen_ppl(rows, compat="mauve_experiments")
    assert compat == pytest.approx(want["ppl_corpus_first_token_in_denominator"], rel=1e-12)
    gold = np.exp(-rows.values)  # of the statistics of Q, what follows from the probabilities of the true tokens alone
    assert jensen_shannon(gold) == pytest.approx(want["js_one_hot_mean"], rel=1e-12)
    for eps, value in want["eps_ppl"].items():
        assert eps_ppl(gold, vocab_size=50257, eps=float(eps)) == pytest.approx(value, rel=1e-12)
