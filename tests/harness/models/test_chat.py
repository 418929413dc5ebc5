"""Chat templates: where a prompt parts, what the model reads, what ends a turn, and what goes wrong."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from openended.harness.core.errors import DataError
from openended.harness.models import ModelSpec, list_bundled_models, load_model, load_tokenizer
from openended.harness.models.chat import Turns, load_template, split_into_turns

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
PLAIN = (
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def folder(tmp_path: Path, template: str | None = PLAIN, *, in_config: bool = False) -> ModelSpec:
    """Copy the bundled model and give its tokenizer a chat template."""
    source = ModelSpec(path="bundled:docs-s").folder
    assert source is not None
    target = tmp_path / "chatty"
    shutil.copytree(source, target)
    if template is not None and in_config:
        path = target / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": template}))
    elif template is not None:
        (target / "chat_template.jinja").write_text(template)
    return ModelSpec(path=str(target), chat_template=True)


@pytest.mark.parametrize(
    ("prompt", "meta", "turns"),
    [
        ("Alice went to the", {}, ("Alice went to", "the")),
        ("Two lines\n\nBiography of", {}, ("Two lines\n\nBiography", "of")),
        ("ends in space \n", {}, ("ends in", "space \n")),
        ("one", {}, ("", "one")),
        ("", {}, ("", "")),
        (" \n", {}, ("", "")),
        ("a b c", {"user": "A", "assistant": ""}, ("A", "")),
        ("a b c", {"user": "A"}, ("a b", "c")),
    ],
)
def test_the_last_word_opens_the_assistants_turn_unless_the_task_says(prompt, meta, turns) -> None:
    assert split_into_turns(prompt, meta) == Turns(*turns)


@pytest.mark.parametrize("in_config", [True, False])
def test_the_continuation_starts_within_the_assistants_turn(tmp_path: Path, in_config: bool) -> None:
    template = load_template(folder(tmp_path, in_config=in_config))
    assert template.render_all([Turns("Alice went to", "the")])[0] == "[user]Alice went to<|endoftext|>[assistant]the"
    assert template.render_all([Turns("Tell a story.", "")])[0] == "[user]Tell a story.<|endoftext|>[assistant]"
    assert len(template.digest) == 64


def test_vicuna_has_a_form_of_its_own(tmp_path: Path) -> None:
    spec = dataclasses.replace(folder(tmp_path, None), chat_template="vicuna")
    template = load_template(spec)
    first, second = template.render_all([Turns("Continue:\nAlice went to", "the"), Turns("Tell a story.", "")])
    assert first.endswith("USER: Continue:\nAlice went to\nASSISTANT: the")
    assert second.endswith("USER: Tell a story.\nASSISTANT:")
    assert template.end() == load_tokenizer(spec).eos_ids[0]


def test_special_tokens_of_the_template_are_tokens(tmp_path: Path) -> None:
    spec = folder(tmp_path)
    tokenizer = load_tokenizer(spec)
    ids = tokenizer.encode(load_template(spec).render_all([Turns("Alice went to", "the")])[0])
    assert ids.count(*tokenizer.eos_ids) == 1
    assert tokenizer.decode(ids).endswith("[assistant]the")


def test_a_turn_ends_with_the_token_that_the_template_writes(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    spec = folder(tmp_path, PLAIN.replace("<|endoftext|>", "\n<|end|>"))
    path = Path(spec.path) / "tokenizer.json"
    inner = Tokenizer.from_file(str(path))
    word = inner.id_to_token(7)
    inner.add_special_tokens([word])  # a token of the vocabulary, so that the model need not grow
    inner.save(str(path))
    (Path(spec.path) / "chat_template.jinja").write_text(PLAIN.replace("<|endoftext|>", f"\n{word}"))
    assert load_template(spec).end() == 7
    assert load_model(spec).eos_ids == (0, 7)
    assert load_model(ModelSpec(path=spec.path)).eos_ids == (0,)


def test_a_template_that_ends_turns_with_words_leaves_the_end_of_text(tmp_path: Path) -> None:
    spec = folder(tmp_path, PLAIN.replace("<|endoftext|>", "\n"))
    assert load_template(spec).end() is None
    assert load_model(spec).eos_ids == load_tokenizer(spec).eos_ids == (0,)


def test_what_goes_wrong_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no chat template; set model\.chat_template=false"):
        load_template(ModelSpec(path="bundled:docs-s", chat_template=True))
    spec = folder(tmp_path, "{{ raise_exception('only users may speak') }}{{ messages[0]['content'] }}")
    with pytest.raises(DataError, match=r"does not take the prompt .*only users may speak"):
        load_template(spec).render_all([Turns("a", "b")])[0]
    (Path(spec.path) / "chat_template.jinja").write_text("{% for m in messages %}x{% endfor %}")
    with pytest.raises(DataError, match=r"does not take the prompt|changes the assistant's turn"):
        load_template(spec).render_all([Turns("a", "b")])[0]
    with pytest.raises(DataError, match="its tokenizer has no configuration"):
        load_template(ModelSpec(path=str(tmp_path / "none" / "at" / "all"), chat_template=True))


BOMBS = {
    "a long string": ("{{ 'x' * 30000000 }}", "makes .* characters|more than 1 GiB"),
    "a huge string": ("{{ 'x' * 99999999999 }}", "more than 1 GiB"),
    "loops": ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "more than 1 s"),
    "doubling": (
        "{% set n = namespace(x='xxxxxxxx') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
        "more than 1 GiB|more than 1 s",
    ),
    "a power": ("{{ 9 ** (9 ** 9) }}", "more than 1 s|more than 1 GiB"),
    "a filter": ("{{ 'x'.center(9999999999) }}", "more than 1 GiB"),
    "a list": ("{{ range(99999) | list * 99999 }}", "more than 1 GiB|more than 1 s|does not take"),
    "recursion": ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "does not take|recursion"),
    "nothing to divide by": ("{{ 1 // 0 }}", "does not take"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_template_that_explodes_is_one_line(name: str, tmp_path: Path, monkeypatch) -> None:
    text, expected = BOMBS[name]
    monkeypatch.setattr("openended.harness.models.chat.SECONDS", 1)
    monkeypatch.setattr("openended.harness.models.isolated_process.SECONDS", 1)
    template = load_template(folder(tmp_path, text))
    with pytest.raises(DataError, match=expected):
        template.render_all([Turns("a", "")])[0]
    with pytest.raises(DataError, match=expected):
        template.end()


def test_many_prompts_are_rendered_in_one_go(tmp_path: Path) -> None:
    template = load_template(folder(tmp_path))
    many = [Turns(f"prompt {i} \n\u2028 ünï \U0001f642", "the") for i in range(500)]
    assert template.render_all(many) == [f"[user]{t.user}<|endoftext|>[assistant]the" for t in many]
