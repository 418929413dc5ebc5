"""What an embedder's files say of its kind, pooling, normalization and length."""

import json

import pytest

from openended.harness.core import DataError, SpecError
from openended.harness.models import EmbedderSpec
from openended.harness.models.embedder import EmbedderTraits
from tests.helpers import cases

BERT = {"model_type": "bert", "architectures": ["BertModel"], "num_hidden_layers": 2, "max_position_embeddings": 512}
GPT = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_positions": 64}
MODULES = ["Transformer", "Pooling", "Normalize"]
MEAN = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}


def write_model(folder, config, modules=None, pooling=MEAN, transformer=None, prompts=None):
    def write(name, content):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))

    write("config.json", config)
    if modules is not None:
        paths = ["", "1_Pooling", "2_Normalize"]
        types = [f"sentence_transformers.models.{name}" for name in modules]
        write("modules.json", [{"path": path, "type": kind} for path, kind in zip(paths, types, strict=False)])
        write("1_Pooling/config.json", pooling)
        write("sentence_bert_config.json", {"max_seq_length": 256, **(transformer or {})})
        write("config_sentence_transformers.json", prompts or {})
    return str(folder)


@cases(
    "config, files, expected",
    (GPT, {}, EmbedderTraits("causal", "last", False, None)),
    (BERT, {}, EmbedderTraits("masked", "mean", False, None)),
    ({"model_type": "mpnet"}, {}, EmbedderTraits("masked", "mean", False, None)),
    (BERT, {"modules": MODULES}, EmbedderTraits("masked", "mean", True, 256)),
    (BERT, {"modules": MODULES[:2], "pooling": {"pooling_mode_cls_token": True}}, EmbedderTraits("masked", "first", False, 256)),
    (BERT, {"modules": MODULES, "pooling": {"pooling_mode": "lasttoken"}}, EmbedderTraits("masked", "last", True, 256)),
    # What only sentence-transformers can do is left to it.
    (BERT, {"modules": [*MODULES[:2], "Dense"]}, EmbedderTraits("sentence", "mean", False, 256)),
    (BERT, {"modules": MODULES, "pooling": {"pooling_mode_max_tokens": True}}, EmbedderTraits("sentence", "mean", True, 256)),
    (BERT, {"modules": MODULES, "pooling": {**MEAN, "include_prompt": False}}, EmbedderTraits("sentence", "mean", True, 256)),
    (BERT, {"modules": MODULES, "transformer": {"do_lower_case": True}}, EmbedderTraits("sentence", "mean", True, 256)),
    (BERT, {"modules": MODULES, "prompts": {"default_prompt_name": "query"}}, EmbedderTraits("sentence", "mean", True, 256)),
    (BERT, {"modules": MODULES, "pooling": {"pooling_mode": [{}]}}, EmbedderTraits("sentence", "mean", True, 256)),
    (BERT, {"modules": MODULES, "pooling": {"pooling_mode": 5}}, EmbedderTraits("sentence", "mean", True, 256)),
    (GPT, {"modules": MODULES}, EmbedderTraits("sentence", "mean", True, 256)),
)  # fmt: skip
def test_the_files_say_how_texts_become_vectors(tmp_path, config, files, expected):
    assert EmbedderSpec(path=write_model(tmp_path, config, **files)).traits == expected


def test_options_win_over_files_and_change_the_identity(tmp_path):
    path = write_model(tmp_path, BERT, modules=MODULES)
    options = {"pooling": "first", "normalize": False, "max_length": 12}
    assert EmbedderSpec(path=path, **options).traits == EmbedderTraits("masked", "first", False, 12)
    traits = EmbedderSpec(path=path, kind="causal", pooling="last").traits
    assert traits == EmbedderTraits("causal", "last", False, None)
    assert EmbedderSpec(path=path).limit(128) == 128  # a shorter context than the files say
    with pytest.raises(SpecError, match=r"max_length: expected at most the context, 128"):
        EmbedderSpec(path=path, max_length=256).limit(128)


def test_a_wrong_kind_is_refused_and_a_damaged_file_named(tmp_path):
    path = write_model(tmp_path, BERT, modules=MODULES)
    with pytest.raises(SpecError, match=r"bert are encoders.*leave embedder\.kind out"):
        EmbedderSpec(path=path, kind="causal").check_options()
    (tmp_path / "modules.json").write_text("{}")
    with pytest.raises(DataError, match=r"modules\.json: expected a JSON array"):
        _ = EmbedderSpec(path=path).traits
