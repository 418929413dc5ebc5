"""A model with a chat template through the pipeline: it alone reads the template, in generating and teacher-forced."""

import math
import shutil

import numpy as np
import pytest

from openended.harness.core import DataError, Need, read_json
from openended.harness.models.spec import ModelSpec, list_bundled_models
from openended.harness.run import dataset as stages
from openended.harness.run.pipeline import make_texts, plan, run
from openended.harness.run.session import Session
from openended.harness.run.steps import Executor
from openended.harness.storage import RowFile, Store
from tests.harness.run import small
from tests.helpers import check_error, scoring

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
TEMPLATE = (
    "{% for m in messages %}The {{ m['role'] }} says: {{ m['content'] }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}The assistant says: {% endif %}"
)
OWN = Need("token_nll", by="model")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    source = ModelSpec(path="bundled:docs-s").folder
    assert source is not None
    target = tmp_path_factory.mktemp("models") / "chatty"
    shutil.copytree(source, target)
    (target / "chat_template.jinja").write_text(TEMPLATE)
    return str(target)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return Session(Store(tmp_path_factory.mktemp("store")))


def settings(folder, model, *overrides):
    words = ("metric=[gen_ppl]", "num_examples=5", "model=folder", f"model.path={model}")
    return small.settings(folder, *words, *overrides)


def made_of(made, session):
    executor = Executor(session, plan_only=False)
    return make_texts(made, executor), executor


def side_of(made, source, need):
    made.executor.run(*made.features.declare([(source, (need,))]))
    return small.load_side(made.features, source, need)


def read_chat(texts):
    return RowFile(texts.executor.get(texts.model_rows.chat or texts.human_rows.chat).path / stages.CHAT)


@pytest.mark.slow
def test_the_model_reads_the_template_and_the_rows_keep_the_prompt(tmp_path, model, session):
    plain, _ = made_of(settings(tmp_path, model), session)
    chat, _ = made_of(settings(tmp_path, model, "model.chat_template=true"), session)
    before, after = RowFile(plain.path), RowFile(chat.path)
    read = read_chat(chat)
    start = "The user says: Return 0<|endoftext|>The assistant says: and"
    assert read.prompts[0] == start
    assert before.prompts == after.prompts
    assert before.texts != after.texts
    assert chat.executor.digest(chat.human_rows.rows) == plain.executor.digest(plain.human_rows.rows)
    assert plain.model_rows.chat is None

    # Greedy from the template's ids, step by step, is what was generated.
    chat = settings(tmp_path, model, "model.chat_template=true").models.model
    lm = session.model(chat, settings(tmp_path, model).runtime)
    import torch

    ids = list(read.prompt_ids[0])
    for token in after.token_ids[0]:
        assert int(lm.model(torch.tensor([ids])).logits[0, -1].argmax()) == token
        ids.append(int(token))


def test_what_is_teacher_forced_reads_the_same_ids(tmp_path, model, session):
    """A greedy decoder gave its own texts probability one: only with the ids that they were generated from."""
    made = settings(tmp_path, model, "model.chat_template=true")
    texts, _ = made_of(made, session)
    side = side_of(texts, texts.model_rows, OWN)
    assert np.abs(side[OWN].values).max() == 0
    human = Need("next_token", by="decoder")
    texts = [made_of(m, session)[0] for m in (made, settings(tmp_path, model))]
    sides = [side_of(t, t.human_rows, human)[human].context for t in texts]
    assert (sides[0].lengths > sides[1].lengths).all()


def test_the_scorer_reads_the_plain_prompt(tmp_path, model, session):
    """The human row is the very same artifact: nothing of it was made again."""
    runs = [run(settings(tmp_path, model, w), session).folder for w in ("seed=0", "model.chat_template=true")]
    plain, chat = (read_json(folder / "record.json") for folder in runs)
    rows = [next(r for r in record["results"] if r["system"] == "human") for record in (plain, chat)]
    assert rows[0] == rows[1]
    inputs = ([i["artifact"] for i in r["inputs"] if i["role"] == "human" and i["gives"]] for r in (plain, chat))
    assert next(inputs) == next(inputs) != []
    assert (*(r["spec"]["models"]["model"]["chat_template"] for r in (plain, chat)),) == (False, True)
    assert (plain["axes"]["model"], chat["axes"]["model"]) == ("chatty", "chatty (chat)")
    assert any("chat template" in str(note) for note in chat["notes"])
    assert not any("chat template" in str(note) for note in plain["notes"])


def test_the_adversarial_decoder_aims_at_the_perplexity_within_the_chat(tmp_path, model, session):
    from openended.harness.models.score import compute_token_nll

    made = settings(tmp_path, model, "model.chat_template=true", "decoder=adversarial")
    texts, _ = made_of(made, session)
    rows, chat = RowFile(texts.executor.locate(texts.human_rows)), read_chat(texts)
    lm = session.model(made.models.model, made.runtime)
    nll = compute_token_nll(lm, scoring(chat.prompt_ids, rows.token_ids, batch_size=8))
    assert texts.settings.decoder.human_ppl == pytest.approx(math.exp(nll.values.mean()), rel=1e-6)
    plain, _ = made_of(settings(tmp_path, model, "decoder=adversarial"), session)
    assert plain.settings.decoder.human_ppl != pytest.approx(texts.settings.decoder.human_ppl, rel=1e-3)


@pytest.mark.slow
def test_another_template_is_another_key(tmp_path, model, session):
    other = tmp_path / "chatty"
    shutil.copytree(model, other)
    (other / "chat_template.jinja").write_text(TEMPLATE.replace("says", "writes"))
    both = (settings(tmp_path, m, "model.chat_template=true") for m in (model, str(other)))
    first, second = (made_of(chosen, session)[0].path for chosen in both)
    assert first != second
    plain = [made_of(settings(tmp_path, m), session)[0].path for m in (model, str(other))]
    assert plain[0] == plain[1]


def test_a_plan_says_that_there_is_no_template(tmp_path, session):
    words = ("bundled:docs-s", "model.chat_template=true")
    (missing,) = plan(settings(tmp_path, *words), session).missing
    assert "has no chat template; set model.chat_template=false" in str(missing)
    check_error(DataError, "no chat template", run, settings(tmp_path, *words), session)
