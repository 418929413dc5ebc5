"""Fine-tuning a tiny model from end to end, and evaluating a model while it trains: Trainer, TRL and Lightning."""

import dataclasses
import math
import random
import re
import sys
from collections import Counter
from importlib.util import find_spec
from itertools import islice

import numpy as np
import pytest
import yaml

import openended as oe
from openended.harness.core import DataError, ExtraNotInstalled, SpecError, read_json
from openended.harness.models import ModelSpec, load_model
from openended.harness.results import read_results
from openended.harness.storage import RowFile, read_record
from openended.integrations import finetune as ft
from openended.tasks.docs import Docs
from openended.tasks.jsonl import JsonLines
from openended.tasks.webtext import WebText
from openended.tasks.writing_prompts import WritingPrompts
from tests.helpers import ROOT, as_a_process, check_error, exit_code, openended, tiny_model, write_jsonl
from tests.lazy import torch

pytestmark = [
    pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is not installed (extra `finetune`)"),
    pytest.mark.filterwarnings("ignore"),
]
OPTIONS = ["num_examples=8", "max_new_tokens=4", "metric=[repetition,distinct_n]", "runtime.device=cpu", "intervals=40"]


TEXT = "the cat sat on the mat and the dog sat on the log"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("tiny"))


class LetterTokenizer:
    def encode(self, text):
        return [ord(c) - 96 for c in text]

    def decode(self, ids):
        return ""


def test_documents_are_joined_by_the_end_token_and_cut():
    # abc 0 de 0 f 0 → 1 2 3 0 | 4 5 0 6 | 0 is dropped.
    made = ft.cut_into_blocks(LetterTokenizer(), ["abc", "de", "f"], end_id=0, size=4)
    assert made.tolist() == [[1, 2, 3, 0], [4, 5, 0, 6]]
    assert ft.cut_into_blocks(LetterTokenizer(), [], end_id=0, size=4).shape == (0, 4)
    many = ft.cut_into_blocks(LetterTokenizer(), ["ab"] * 3000, end_id=0, size=7)
    assert many.reshape(-1).tolist() == ([1, 2, 0] * 3000)[: 9000 // 7 * 7]
    assert many.dtype == np.int32


def loss(folder):
    lm = load_model(ModelSpec(path=str(folder)))
    ids = torch.tensor([lm.tokenizer.encode(TEXT)])
    with torch.no_grad():
        return float(lm.model(ids, labels=ids).loss)


def spec(**options):
    return ft.FinetuneSpec(**{"block_size": 16, "batch_size": 4, "accumulation": 2, "learning_rate": 0.03, **options})


@pytest.mark.slow
def test_the_command_makes_a_model_that_fits_the_texts(tiny, tmp_path, monkeypatch):
    row = {"prompt": "the cat sat", "human": TEXT.removeprefix("the cat sat")}
    data = write_jsonl(tmp_path / "train.jsonl", [row] * 82)
    out = tmp_path / "model"
    options = {"block_size": 16, "batch_size": 4, "accumulation": 2, "learning_rate": "3e-2"}
    asked = [f"{k}={v}" for k, v in options.items()]
    words = ["task=jsonl", f"task.path={data}", "model=folder", f"model.path={tiny}", f"output={out}", "device=cpu"]
    evaluation = "['num_examples=20','max_new_tokens=4','metric=[repetition,distinct_n]','intervals=0']"
    monkeypatch.chdir(tmp_path)
    assert exit_code(ft.main, *words, *asked, "evaluate_steps=16", f"evaluate_options={evaluation}") == 0
    steps = read_results([tmp_path / "outputs/runs/model"]).frame["model.step"].dropna()
    assert sorted(set(steps)) == [0, 16, 32]
    assert loss(tiny) == pytest.approx(math.log(257), abs=0.5)
    assert loss(out) < 0.7 * loss(tiny)
    record = read_json(out / "finetune.json")
    assert record["finetune"]["learning_rate"] == 0.03
    assert record["blocks"] == 82 * 50 // 16  # 49 letters and the end token
    assert not (out / "checkpoints").exists()
    assert ModelSpec(path=str(out)).identity() != ModelSpec(path=str(tiny)).identity()


@pytest.mark.slow
def test_an_interrupted_run_goes_on(tiny, tmp_path, monkeypatch):
    out = tmp_path / "model"
    load = ft.load_transformers_tokenizer

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ft, "load_transformers_tokenizer", killed)
    with pytest.raises(KeyboardInterrupt):
        ft.finetune(ModelSpec(path=str(tiny)), [TEXT] * 30, spec(save_steps=2), out, device="cpu")
    assert list((out / "checkpoints").iterdir())
    monkeypatch.setattr(ft, "load_transformers_tokenizer", load)
    ft.finetune(ModelSpec(path=str(tiny)), [TEXT] * 30, spec(save_steps=2), out, device="cpu")
    assert loss(out) < loss(tiny)


def test_stories_are_read_whole(tmp_path):
    (tmp_path / "train.wp_source").write_text("[ WP ] Go .\n")
    (tmp_path / "train.wp_target").write_text("It went on .\n")
    stories = WritingPrompts(path=str(tmp_path), split="train")
    assert list(ft.iterate_documents(stories, Counter())) == ["Go.\n\nIt went on."]
    check_error(SpecError, "whole documents", list, ft.iterate_documents(WebText(path="x"), Counter()))
    (tmp_path / "a.jsonl").write_text('{"prompt": "a", "human": " b"}\n')
    assert list(ft.iterate_documents(JsonLines(path=str(tmp_path / "a.jsonl")), Counter())) == ["a b"]


def test_too_little_text_and_too_long_a_block(tiny, tmp_path):
    with pytest.raises(DataError, match="do not fill one block of 16 tokens"):
        ft.finetune(ModelSpec(path=str(tiny)), ["the cat"], spec(), tmp_path / "m", device="cpu")
    with pytest.raises(SpecError, match=r"at most the context, 64, got 65"):
        ft.finetune(ModelSpec(path=str(tiny)), [TEXT], spec(block_size=65), tmp_path / "m", device="cpu")


def test_without_accelerate(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(ExtraNotInstalled, match=r"openended\[finetune\]"):
        ft.finetune(ModelSpec(path=str(tiny)), [TEXT], spec(), tmp_path / "m", device="cpu")


def test_options_of_the_configuration_are_those_of_the_spec_with_its_defaults():
    node = yaml.safe_load((ROOT / "conf/finetune.yaml").read_text())
    own = {key: node[key] for key in node if key not in ("defaults", "hydra", "output", "device")}
    own["evaluate_options"] = tuple(own["evaluate_options"])
    assert own == {f.name: f.default for f in dataclasses.fields(ft.FinetuneSpec)}


def test_docstrings_are_read_whole_from_the_training_split(tmp_path, monkeypatch):
    asked = {}

    def take(model, texts, spec, output, *, device):
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


class Letters:
    """Blocks of letters as ids."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.tensor([1 + (index * 7 + k) % 26 for k in range(16)])
        return {"input_ids": ids, "labels": ids.clone()}


@pytest.fixture
def parts(tmp_path):
    """A folder with a model, whose dropout draws random numbers, and the options of evaluations."""
    tiny_model(tmp_path / "model")
    rows = [{"id": f"a{i}", "prompt": f"Prompt {i}", "human": f" a human text, number {i}."} for i in range(16)]
    path = write_jsonl(tmp_path / "human.jsonl", rows)
    return tmp_path, [*OPTIONS, "task=jsonl", f"task.path={path}"]


def load(folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

    set_seed(0)
    model = AutoModelForCausalLM.from_pretrained(folder / "model")
    return model, AutoTokenizer.from_pretrained(folder / "model", pad_token="<|endoftext|>")


def train(folder, options, *, watch=True, data=None, callbacks=(), parts=None, every=2, stop_if=None, kind=None,
          **arguments):  # fmt: skip
    """Train; returns the trainer and the state of the random generators."""
    from transformers import Trainer, TrainingArguments

    model, tokenizer = parts or load(folder)
    trainer_class, arguments_class = kind or (Trainer, TrainingArguments)
    arguments = {
        "max_steps": 4, "learning_rate": 0.01, "output_dir": str(folder / "trainer"), "report_to": [], "use_cpu": True,
        "per_device_train_batch_size": 4, "save_strategy": "no", "disable_tqdm": True, **arguments,
    }  # fmt: skip
    trainer = trainer_class(
        model=model, train_dataset=data or Letters(), processing_class=tokenizer, callbacks=[*callbacks],
        args=arguments_class(**arguments),
    )  # fmt: skip
    with as_a_process(("train.py",), folder):
        if watch:
            monitor = {"every": every, "options": options, "outputs_dir": folder / "outputs", "name": "watched"}
            trainer.add_callback(oe.integrations.TrainerCallback(trainer, stop_if=stop_if, **monitor))
        trainer.train()
    return trainer, (torch.get_rng_state(), random.random(), np.random.random())  # noqa: NPY002


@pytest.mark.slow
def test_a_training_with_evaluations_ends_with_the_same_weights_and_random_states(parts, capsys):
    folder, options = parts
    watched, states = train(folder, options)
    plain, other_states = train(folder, options, watch=False)
    assert all(map(torch.equal, watched.model.state_dict().values(), plain.model.state_dict().values()))
    assert torch.equal(states[0], other_states[0])
    assert states[1:] == other_states[1:]
    assert watched.model.training
    logged = [row for row in watched.state.log_history if "openended/distinct_2" in row]
    assert [row["step"] for row in logged] == [0, 2, 4]
    assert {"openended/loop_rate", "openended/loop_rate_human", "openended/distinct_2_human"} <= logged[0].keys()
    line = r"step \d: loop_rate [\d.]+, distinct_2 [\d.]+, .*loop_rate_human [\d.]+, .* in [\d.]+ s"  # as `metric=[…]` lists them
    assert len(re.findall(line, capsys.readouterr().err)) == 3
    frame = read_results([folder / "outputs/runs/watched"]).frame
    model_rows = frame[(frame["system"] == "model") & (frame["key"] == "distinct_2")]
    values = dict(zip(model_rows["model.step"], model_rows["value"], strict=True))
    assert values == {row["step"]: row["openended/distinct_2"] for row in logged}
    assert not list(folder.glob("outputs/**/*.safetensors.tmp"))
    assert not list(folder.glob("outputs/trainings/**/*.safetensors"))
    done = openended("report", "watched", "--baseline", "last-good", cwd=folder, verbose=False, code=0)
    assert "watched nucleus p=0.95: " in done.stdout
    assert "Last good: step " in done.stdout


@pytest.mark.slow
def test_the_live_weights_generate_what_a_saved_checkpoint_does(parts):
    folder, options = parts
    trainer, _ = train(folder, options, learning_rate=0.05)
    trainer.save_model(folder / "saved" / "checkpoint-4")
    words = ("decoder=nucleus", f"model.path={folder}/saved/checkpoint-4", "name=saved")
    openended(*words, *options, f"outputs_dir={folder}/outputs", cwd=folder, code=0)

    def read_texts(record):
        run = read_record(record.parent)
        (entry,) = (each.artifact for each in run.inputs if each.stage == "generate")
        return run.axes["model.step"], list(RowFile(record.parent / run.store / entry / "data.arrow").texts)

    texts = dict(map(read_texts, folder.glob("outputs/runs/watched/*/record.json")))
    assert texts[0] != texts[2] != texts[4]
    (saved,) = folder.glob("outputs/runs/saved/*/record.json")
    assert read_texts(saved) == (4, texts[4])


@pytest.mark.slow
def test_a_condition_ends_the_training_and_errors_do_not(parts, capsys):
    from transformers import TrainerCallback

    folder, options = parts
    trainer, _ = train(folder, options, stop_if="distinct_2 >= 0")
    assert trainer.state.global_step == 1  # the step that had begun
    assert "the training stops" in capsys.readouterr().err
    for more, message in (
        ({"stop_if": "loops > 0.2"}, "stop_if: 'loops' is in none of metric="),
        ({"stop_if": "loop_rate"}, "expected a value, > or <, and a number"),
        ({"every": 0}, "every: expected 1 or more steps"),
        ({"options": ["decoder=nuclear"]}, "nuclear"),
    ):
        check_error(Exception, message, train, folder, **{"options": options, **more})

    class Break(TrainerCallback):
        def on_step_end(self, args, state, control, model, **_):
            if state.global_step == 2:
                model.transformer.wte.weight.data.fill_(float("nan"))

    trainer, _ = train(folder, options, callbacks=[Break()])
    assert trainer.state.global_step == 4
    assert "step 2: not evaluated: model step-2" in capsys.readouterr().err


@pytest.mark.long
def test_trl_trains_with_the_callback(parts):
    trl = pytest.importorskip("trl", reason="needs trl")
    rows = pytest.importorskip("datasets").Dataset.from_list([{"text": "the cat sat on the mat"}] * 16)
    kind = (trl.SFTTrainer, trl.SFTConfig)
    trainer, _ = train(*parts, data=rows, kind=kind, max_length=16, bf16=False)
    assert [r["step"] for r in trainer.state.log_history if "openended/loop_rate" in r] == [0, 2, 4]


@pytest.mark.long
def test_lightning_trains_with_the_callback(parts):
    lightning = pytest.importorskip("lightning.pytorch", reason="needs lightning")

    folder, options = parts

    class Module(lightning.LightningModule):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def training_step(self, batch, _):
            return self.model(**batch).loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=0.01)

    weights = []
    for watch in (True, False):
        model, tokenizer = load(folder)
        more = {"every": 2, "outputs_dir": folder / "outputs", "name": "lit"}
        callback = oe.integrations.LightningCallback(tokenizer, options=options, **more)
        logger = lightning.loggers.CSVLogger(folder / "logs")
        trainer = lightning.Trainer(
            max_steps=4, accelerator="cpu", logger=logger, enable_checkpointing=False, enable_progress_bar=False,
            callbacks=[callback] if watch else [], log_every_n_steps=1,
        )  # fmt: skip
        trainer.fit(Module(model), torch.utils.data.DataLoader(Letters(), batch_size=4))
        weights.append(model.state_dict())
    assert all(map(torch.equal, weights[0].values(), weights[1].values()))
    steps = read_results([folder / "outputs/runs/lit"]).frame["model.step"].dropna()
    assert sorted(set(steps)) == [0, 2, 4]
    assert "openended/loop_rate" in (folder / "logs/lightning_logs/version_0/metrics.csv").read_text()


@pytest.mark.long
def test_a_planted_collapse_is_noticed_at_the_next_evaluation(tmp_path):
    """The learning rate times 100 at step 200 of 300; the last good step is the one before the collapse."""
    from transformers import AutoTokenizer, TrainerCallback

    spec = ModelSpec(path="bundled:docs-s")
    lm = load_model(spec)
    lm.model.requires_grad_(requires_grad=True)
    texts = islice(ft.iterate_documents(Docs(split="train"), Counter()), 1500)
    blocks = ft.cut_into_blocks(lm.tokenizer, texts, end_id=next(iter(lm.eos_ids)), size=64).astype(np.int64)
    data = [{"input_ids": torch.from_numpy(block), "labels": torch.from_numpy(block)} for block in blocks]

    class Collapse(TrainerCallback):
        def on_step_begin(self, args, state, control, lr_scheduler, optimizer, **_):
            if state.global_step == 200:
                lr_scheduler.base_lrs = [100 * rate for rate in lr_scheduler.base_lrs]
                for group in optimizer.param_groups:
                    group["lr"] *= 100

    train(
        tmp_path, ["num_examples=100", "runtime.device=cpu"], parts=(lm.model, AutoTokenizer.from_pretrained(spec.folder)),
        data=data, callbacks=[Collapse()], every=50, max_steps=300, learning_rate=2e-4, lr_scheduler_type="constant",
    )  # fmt: skip
    done = openended("report", "watched", "--baseline", "last-good", cwd=tmp_path, verbose=False, draw=True, code=0)
    assert re.search(r"worse at step 250: .*Last good: step 200\.", " ".join(done.stdout.split()))
    assert (tmp_path / "outputs/reports/watched/figures/sweep-model.step.png").is_file()
