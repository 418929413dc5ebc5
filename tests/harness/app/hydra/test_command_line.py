"""A command line as it is read, and what is printed in place of what cannot be read."""

from pathlib import Path

from openended.harness import core
from openended.harness.app.hydra.command_line import LogOptions, parse_command_line
from openended.harness.app.hydra.experiments import apply_using
from openended.harness.core import SpecError
from openended.harness.core.errors import fold_spelling
from openended.harness.core.synonyms import read_synonyms
from tests.helpers import cases, check_error, openended


@cases(
    "typed, words",
    (["-v", "-m", "seed=0,1"], ["seed=0,1"]),
    (["seed=0", "--json"], ["seed=0", "plan_only=json"]),
    (["task.path=my file (1).jsonl"], ["task.path='my file (1).jsonl'"]),
    (["task.path=it's.jsonl"], [r"task.path='it\'s.jsonl'"]),
    (["task.path=~/a.jsonl"], [f"task.path='{Path.home()}/a.jsonl'"]),
    (["task = docs"], ["task=docs"]),
    (["~decoder"], ["~decoder"]),
    (["metric=[mauve,zipf]", "decoder=greedy,nucleus"], ["metric=[mauve,zipf]", "decoder=greedy,nucleus"]),
    (["metric.mauve.lambdas=[0.1,0.5]"], ["metric.mauve.lambdas=[0.1,0.5]"]),
    (
        ["spaces.nucleus.p=interval(0.5,1)", "maximize=[mauve]"],
        ["++hydra.sweeper.spaces.nucleus.p='interval(0.5,1)'", "++hydra.sweeper.maximize=[mauve]"],
    ),
)
def test_words_become_overrides_that_hydra_reads(typed, words):
    assert list(parse_command_line(typed).words) == words


def test_a_word_that_another_replaces_is_named(capsys):
    assert parse_command_line(["-m", "seed=0,1", "decoder=greedy", "seed=2,3", "decoder=greedy"]).multirun
    assert capsys.readouterr().err == "openended: warning: seed=0,1 has no effect, because seed=2,3 is typed after it\n"
    parse_command_line(["decoder=nucleus", "top_p=0.9", "decoder.p=0.8"])
    assert "warning: decoder.p=0.9 has no effect, because decoder.p=0.8 is typed after it\n" in capsys.readouterr().err


def test_wildcards_are_the_folders_that_match_in_numeric_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b/checkpoint-30", "a/checkpoint-9", "a/checkpoint-10", "it's (1)/checkpoint-1"):
        Path(name).mkdir(parents=True)
    (tmp_path / "a" / "checkpoint-11").write_text("no folder")
    line = parse_command_line(["-m", "model.path='[ab]/checkpoint-*,gpt2'"])
    assert line.words == ("model.path=a/checkpoint-9,a/checkpoint-10,b/checkpoint-30,gpt2",)
    (word,) = parse_command_line(["-m", "model.path=*(1)/checkpoint-?"]).words
    assert word == """model.path="it's (1)/checkpoint-1\""""
    for words in (["model.path=a/checkpoint-*"], ["-m", "model.path=c/*"]):
        check_error(SpecError, r"add -m|no folder matches 'c/\*'", parse_command_line, words)


def test_flags_are_told_from_options(tmp_path):
    line = parse_command_line(["decoder=greedy", "-m", "--config-dir", str(tmp_path), "--trust-config"])
    assert (line.words, line.multirun, line.config_dir, line.trusted) == (
        ("decoder=greedy",), True, str(tmp_path), True,
    )  # fmt: skip
    assert parse_command_line(["seed=0", "--cfg=job"]).prints
    assert parse_command_line(["seed=0", "-q"]).log == LogOptions(quiet=True)
    assert parse_command_line([f"-cd={tmp_path}", "-r"]).config_dir == str(tmp_path)
    assert parse_command_line(["seed=3"]) == parse_command_line(["seed=3", "--run"])


def test_a_configuration_is_printed_and_nothing_runs(tmp_path):
    done = openended("--cfg", "job", "decoder=top_k", "decoder.k=7", cwd=tmp_path, verbose=False)
    assert "k: 7" in done.stdout, done.stderr
    assert "hydra:" not in done.stdout
    assert not list(tmp_path.iterdir())


@cases(
    "typed, composed",
    (["experiment=zipf"], ["experiment=zipf"]),
    (["experiment=zipf", "using=paper"], ["experiment=zipf", "using=paper"]),
    (["using=docs", "experiment=zipf", "seed=1"], ["experiment=zipf_docs", "seed=1"]),
    (["experiment=zipf,mauve_fig2", "using=docs"], ["experiment=zipf_docs,mauve_fig2_docs"]),
    (["experiment=zipf", "using=paper,docs"], ["experiment=zipf,zipf_docs"]),
    (["experiment=quickstart", "using=docs"], ["experiment=quickstart", "using=docs"]),  # the group alone
    (["using=docs"], ["using=docs"]),
)
def test_a_section_is_an_experiment_of_its_own(typed, composed):
    assert apply_using(typed) == composed


@cases(
    "typed, read",
    ("decoder=top_p", "decoder=nucleus"),
    ("decoder=sampling,Top-P", "decoder=ancestral,nucleus"),
    ("decoder=greedy, nucleus", "decoder=greedy,nucleus"),
    ("metric=[perplexity,zipf]", "metric=[gen_ppl,zipf]"),
    ("top_p=0.9", "decoder.p=0.9"),
    ("decoder=min_p decoder.min_p=0.1", "decoder=min_p decoder.p=0.1"),
    ("decoder=top_k top_k=9", "decoder=top_k decoder.k=9"),
    ("decoder=typical decoder.tau=0.9", "decoder=typical decoder.mass=0.9"),  # as the paper calls it
    ("metric.mauve.kmeans_num_redo=3 model.torch_dtype=auto", "metric.mauve.restarts=3 model.dtype=auto"),
    ("max-new-tokens=9 decoder.top-p=0.9", "max_new_tokens=9 decoder.p=0.9"),
    ("metric=[MAUVE,Self-BLEU] model=docs_s", "metric=[mauve,self_bleu] model=docs-s"),
    ("model=hf model.path=gpt2 runtime.batch=8", "model=transformers model.path=gpt2 runtime.batch_size=8"),
    ("decoder=beam_sample decoder.top_p=0.9", "decoder=beam_sample decoder.top_p=0.9"),  # an option of its own
    ("experiment=zipf top_p=0.9", "experiment=zipf top_p=0.9"),  # whose decoder is not known yet
)
def test_words_of_the_field_stand_for_names_and_options(typed, read):
    assert parse_command_line(typed.split()).words == tuple(read.split())


def test_synonyms_stand_for_one_class_each_and_hide_no_name():
    for group in ("decoder", "metric"):
        classes = core.load_members(group).values()
        words = [fold_spelling(word) for cls in classes for word in vars(cls).get("synonyms", ())]
        assert len(words) == len(set(words))
        assert not {*words} & {fold_spelling(name) for name in core.list_choices(group)}
        assert read_synonyms(group).keys() == set(words)


@cases("word, read", ("experiment=mauve-table3", "experiment=mauve-table3"), ("task=Docs", "task=docs"))
def test_a_choice_of_the_users_own_folder_keeps_its_name(tmp_path, word, read):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mauve-table3.yaml").write_text("num_examples: 20\n")
    assert parse_command_line(["--config-dir", str(tmp_path), word]).words == (read,)
