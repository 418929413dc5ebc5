"""A grid of two pretrained models with different tokenizers: one table, from the command line."""

import shutil

from openended.harness.core import parse_signature
from openended.harness.models import ModelSpec, load_tokenizer
from openended.harness.results import read_results
from openended.harness.storage import RowFile
from tests.helpers import openended


def test_two_models_stand_in_one_table(real_models, tmp_path):
    shared = [f"task.path={real_models}/texts/sotu.jsonl", "num_examples=8", "max_new_tokens=12", "embedder=none"]
    shared += ["scorer=docs-m", f"scorer.path={real_models}/gemma3", "metric=[distinct_n,length,gen_ppl]"]
    models = f"model.path={real_models}/smollm2,{real_models}/gemma3"
    words = ["task=webtext", "model=folder", *shared]
    done = openended("-m", *words, models, "decoder=greedy,nucleus", "name=two", cwd=tmp_path, code=0)
    assert "generated texts are cut in the tokens of the scorer gemma3" in done.stderr.splitlines()[0]
    (table,) = (tmp_path / "outputs/reports/two/tables").glob("*.md")
    labels = [line.split("|")[1].strip() for line in table.read_text().splitlines() if line.startswith("|")][2:]
    names = ["smollm2 greedy", "smollm2 nucleus p=0.95", "gemma3 greedy", "gemma3 nucleus p=0.95"]
    assert labels == ["*human*", *names]
    results = read_results([tmp_path / "outputs/runs"])
    lengths = {value.signature for value in results.values if value.metric == "length"}
    assert len(lengths) == 1
    tokenizer = load_tokenizer(ModelSpec(path=f"{real_models}/gemma3"))
    unit = parse_signature(lengths.pop())["length"]
    assert unit.startswith("12 tokens@")
    for run in results.runs:
        texts = RowFile(run.store.joinpath(*run.find_rows("model"))).each("text")
        assert all(len(tokenizer.encode(text)) <= 12 for text in texts)
    alone = [*words, f"model.path={real_models}/smollm2", "decoder=greedy", f"task.tokens={real_models}/gemma3"]
    done = openended(*alone, cwd=tmp_path, code=0)
    assert "(0 computed" in done.stderr, "a run made alone is that of the grid"


def test_own_texts_whose_beginning_is_the_prompt(real_models, tmp_path):
    words = [f"task.path={real_models}/texts/sotu.jsonl", "task.prompt_length=20", f"model.path={real_models}/smollm2"]
    words += ["model=folder", "decoder=greedy", "num_examples=3", "max_new_tokens=8", "scoring=none", "metric=[length]"]
    done = openended("task=jsonl", *words, cwd=tmp_path, code=0)
    assert "human" in done.stdout


def test_a_hub_cache_gives_the_same_values_as_the_folder_and_no_adapter_passes(real_models, tmp_path, monkeypatch):
    from huggingface_hub import constants

    snapshot = tmp_path / "hub/models--someone--smollm2/snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    for file in (real_models / "smollm2").iterdir():
        (snapshot / file.name).symlink_to(file)
    (tmp_path / "hub/models--someone--smollm2/refs").mkdir()
    (tmp_path / "hub/models--someone--smollm2/refs/main").write_text("a" * 40)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    words = ["task=jsonl", f"task.path={real_models}/texts/sotu.jsonl", "task.prompt_length=20", "decoder=greedy"]
    words += ["num_examples=3", "max_new_tokens=8", "embedder=none", "metric=[gen_ppl]"]
    values = []
    for name in ("someone/smollm2", f"{real_models}/smollm2"):
        openended(*words, f"model={name}", f"scorer={name}", "name=cached", cwd=tmp_path, code=0)
        frame = read_results([tmp_path / "outputs/runs"]).frame
        values.append(frame[frame["metric"] == "gen_ppl"].set_index(["system", "key"])["value"].to_dict())
        shutil.rmtree(tmp_path / "outputs")
    assert values[0] == values[1] != {}
    (snapshot / "adapter_config.json").write_text("{}")
    done = openended(*words, "model=someone/smollm2", f"scorer={real_models}/smollm2", cwd=tmp_path, code=2)
    assert "adapter_config.json belongs to an adapter" in done.stderr
