"""Fine-tuning from end to end on a tiny model: the loss falls, the folder loads, a kill costs little."""

import dataclasses
import json
import math
from collections import Counter
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from openended.harness.app import finetune as ft
from openended.harness.core import DataError, ExtraNotInstalled, SpecError, read_json
from openended.harness.models import ModelSpec, load_model
from openended.harness.results import read_results
from openended.tasks.docs import Docs
from tests.helpers import exit_code
from tests.lazy import torch

pytestmark = [
    pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is not installed (extra `finetune`)"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]
TEXT = "the cat sat on the mat and the dog sat on the log"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 of 30 words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    place = tmp_path_factory.mktemp("tiny")
    words = ["<|endoftext|>", *sorted(set(TEXT.split())), *[f"w{i}" for i in range(19)]]
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<|endoftext|>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|endoftext|>").save_pretrained(place)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(words), n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    GPT2LMHeadModel(config).save_pretrained(place)
    return place


class Letters:
    def encode(self, text: str) -> list[int]:
        return [ord(c) - 96 for c in text]

    def decode(self, ids: Any) -> str:
        return ""


def test_documents_are_joined_by_the_end_token_and_cut() -> None:
    # abc 0 de 0 f 0 → 1 2 3 0 | 4 5 0 6 | 0 is dropped.
    made = ft.cut_into_blocks(Letters(), ["abc", "de", "f"], end_id=0, size=4)
    assert made.tolist() == [[1, 2, 3, 0], [4, 5, 0, 6]]
    assert ft.cut_into_blocks(Letters(), [], end_id=0, size=4).shape == (0, 4)
    many = ft.cut_into_blocks(Letters(), ["ab"] * 3000, end_id=0, size=7)
    assert many.reshape(-1).tolist() == ([1, 2, 0] * 3000)[: 9000 // 7 * 7]
    assert many.dtype == np.int32


def loss(folder: Path) -> float:
    lm = load_model(ModelSpec(path=str(folder)))
    ids = torch.tensor([lm.encode(TEXT)])
    with torch.no_grad():
        return float(lm.model(ids, labels=ids).loss)


def spec(**options: Any) -> ft.FinetuneSpec:
    return ft.FinetuneSpec(**{"block_size": 16, "batch_size": 4, "accumulation": 2, "learning_rate": 0.03, **options})


@pytest.mark.slow
def test_the_command_makes_a_model_that_fits_the_texts(tiny, tmp_path, monkeypatch):
    data = tmp_path / "train.jsonl"
    row = json.dumps({"prompt": "the cat sat", "human": TEXT.removeprefix("the cat sat")})
    data.write_text((row + "\n") * 300)
    out = tmp_path / "model"
    options = {"block_size": 16, "batch_size": 4, "accumulation": 2, "learning_rate": "3e-2"}
    asked = [f"{k}={v}" for k, v in options.items()]
    words = ["task=jsonl", f"task.path={data}", "model=folder", f"model.path={tiny}", f"output={out}", "device=cpu"]
    evaluation = "['num_examples=20','max_new_tokens=4','metric=[repetition,distinct_n]','intervals=0']"
    monkeypatch.chdir(tmp_path)
    assert exit_code(ft.main, *words, *asked, "evaluate_steps=16", f"evaluate_options={evaluation}") == 0
    steps = read_results([tmp_path / "outputs/runs/model"]).frame["model.step"].dropna()
    assert sorted(set(steps)) == [0, 16, 32]
    assert loss(tiny) == pytest.approx(math.log(30), abs=0.5)
    assert loss(out) < 0.7 * loss(tiny)
    record = read_json(out / "finetune.json")
    assert record["finetune"]["learning_rate"] == 0.03
    assert record["blocks"] == 300 * 14 // 16  # 13 words and the end token
    assert not (out / "checkpoints").exists()
    assert ModelSpec(path=str(out)).identity() != ModelSpec(path=str(tiny)).identity()


@pytest.mark.slow
def test_an_interrupted_run_goes_on(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "model"
    save = ft._save

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ft, "_save", killed)
    with pytest.raises(KeyboardInterrupt):
        ft.finetune(ModelSpec(path=str(tiny)), [TEXT] * 100, spec(save_steps=2), out, device="cpu")
    assert list((out / "checkpoints").iterdir())
    monkeypatch.setattr(ft, "_save", save)
    ft.finetune(ModelSpec(path=str(tiny)), [TEXT] * 100, spec(save_steps=2), out, device="cpu")
    assert loss(out) < loss(tiny)


def test_stories_are_read_whole(tmp_path: Path) -> None:
    from openended.tasks.jsonl import JsonLines
    from openended.tasks.webtext import WebText
    from openended.tasks.writing_prompts import WritingPrompts

    (tmp_path / "train.wp_source").write_text("[ WP ] Go .\n")
    (tmp_path / "train.wp_target").write_text("It went on .\n")
    stories = WritingPrompts(path=str(tmp_path), split="train")
    assert list(ft.iterate_documents(stories, Counter())) == ["Go.\n\nIt went on."]
    with pytest.raises(SpecError, match="whole documents"):
        list(ft.iterate_documents(WebText(path="x"), Counter()))
    (tmp_path / "a.jsonl").write_text('{"prompt": "a", "human": " b"}\n')
    assert list(ft.iterate_documents(JsonLines(path=str(tmp_path / "a.jsonl")), Counter())) == ["a b"]


def test_too_little_text_and_too_long_a_block(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="do not fill one block of 16 tokens"):
        ft.finetune(ModelSpec(path=str(tiny)), ["the cat"], spec(), tmp_path / "m", device="cpu")
    with pytest.raises(SpecError, match=r"at most the context, 16, got 17"):
        ft.finetune(ModelSpec(path=str(tiny)), [TEXT], spec(block_size=17), tmp_path / "m", device="cpu")


def test_without_accelerate(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(ExtraNotInstalled, match=r"openended\[finetune\]"):
        ft.finetune(ModelSpec(path=str(tiny)), [TEXT], spec(), tmp_path / "m", device="cpu")


def test_options_of_the_configuration_are_those_of_the_spec_with_its_defaults() -> None:
    node = yaml.safe_load((Path(__file__).parents[3] / "conf/finetune.yaml").read_text())
    own = {key: node[key] for key in node if key not in ("defaults", "hydra", "output", "device")}
    own["evaluate_options"] = tuple(own["evaluate_options"])
    assert own == {f.name: f.default for f in dataclasses.fields(ft.FinetuneSpec)}


def test_docstrings_are_read_whole_from_the_training_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def take(model: ModelSpec, texts: Any, spec: ft.FinetuneSpec, output: Path, *, device: str) -> Path:
        asked.update(model=model, texts=list(texts), device=device)
        output.mkdir()
        (output / "finetune.json").write_text('{"loss": 1.0}')
        return output

    monkeypatch.setattr(ft, "finetune", take)
    words = ["task=docs", "model=docs-s", f"output={tmp_path / 'm'}", "max_texts=3", "device=cpu"]
    monkeypatch.chdir(tmp_path)
    assert exit_code(ft.main, *words) == 0
    train = [text for _, text in islice(Docs(split="train").documents(Counter()), 3)]
    assert asked == {"model": ModelSpec(path="bundled:docs-s"), "texts": train, "device": "cpu"}
