"""Every decoder in one grid, in the layout of the MAUVE paper's Table 3; and what no decoder may be asked for."""

import csv
import json

import pytest

from tests.e2e.test_runs import small, texts  # noqa: F401 - a fixture
from tests.helpers import openended, tiny_model

NO_Q = {"adversarial", "beam", "beam_sample", "contrastive_search", "contrastive_decoding"}


@pytest.mark.long
def test_the_experiment_decoders(tmp_path, texts):  # noqa: F811
    metrics = "metric=[mauve,gen_ppl,self_bleu,sparsemax_score,jensen_shannon,eps_ppl]"
    words = small(texts, "num_examples=16", "max_new_tokens=12", "min_new_tokens=12", metrics)
    openended("-m", "experiment=decoders", *words, cwd=tmp_path, code=0)
    records = [json.loads(p.read_text()) for p in (tmp_path / "outputs/runs/decoders").glob("*/record.json")]
    assert len(records) == 24
    for record in records:
        name = record["spec"]["decoder"]["name"]
        status = {r["metric"]: r["status"] for r in record["results"] if r["system"] == "model"}
        teacher = {status[m] for m in ("sparsemax_score", "jensen_shannon", "eps_ppl")}
        assert teacher == ({"undefined"} if name in NO_Q else {"ok"}), name
        assert {status[m] for m in ("mauve", "gen_ppl", "self_bleu")} == {"ok"}, name
        if name == "adversarial":  # the target is measured and written out
            assert record["spec"]["decoder"]["human_ppl"] > 1
    (table,) = (tmp_path / "outputs/reports/decoders/tables").glob("*.csv")
    with table.open() as handle:
        head, *rows = list(csv.reader(handle))
    for column in ("gen_ppl - human", "self_bleu", "sparsemax_score", "jensen_shannon", "eps_ppl", "mauve"):
        assert any(column in cell for cell in head), (column, head)
    assert len(rows) >= 20


def test_a_decoder_with_other_tokens_is_refused_before_a_model_loads(tmp_path, texts):  # noqa: F811
    other = tiny_model(tmp_path / "other")
    words = small(texts, "decoder=contrastive_decoding", f"decoder.amateur.path={other}", "plan_only=true")
    done = openended(*words, cwd=tmp_path, code=2)
    assert "different tokenizers" in done.stderr
