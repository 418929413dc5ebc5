"""A value of judgments stands in the row of a system only if it is the system's own, in every experiment that has one."""

import csv
import itertools
import math
from functools import cache

import numpy as np
import pytest

from openended.harness.app.hydra.command_line import parse_command_line
from openended.harness.app.hydra.compose import Composer
from openended.harness.app.hydra.grid import list_jobs
from openended.harness.core import HarnessError, SpecError, UndefinedMetric
from openended.harness.run.players import JudgmentSource, check_players
from openended.metrics.bradley_terry import BradleyTerry
from tests.helpers import cases, check_error, openended, run_settings, write_jsonl

# Files as human_evaluation.md of krishnap25/mauve-experiments describes them, with scores that are known: player i of
# strength a wins a / (a + b) of its a + b comparisons (twice as many rows) with a player of strength b.

SIZES = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
PAPER = ("human", *(f"{size} {decoder}" for decoder in ("nucleus", "ancestral") for size in SIZES[::-1]))
DOCS = ("human", "nucleus", "ancestral", "greedy")
COLUMNS = (
    "HITId", "WorkerId", "WorkTimeInSeconds", "Input.idx", "Input.ctx", "Input.model_a", "Input.completiona",
    "Input.len_a", "Input.model_b", "Input.completionb", "Input.len_b", "Answer.q1", "Answer.q2", "Answer.q3",
    "Answer.te",
)  # fmt: skip


def write_study(path, players):
    """Write a study in which the first player is the strongest, for `human_like`; all are equal in `sensible`."""
    strengths = {player: len(players) - at for at, player in enumerate(players)}
    rows = []
    for a, b in itertools.combinations(players, 2):
        games = 2 * (strengths[a] + strengths[b])
        for game in range(games + 1):
            first_wins, seconds = game < 2 * strengths[a], 40
            if game == games:
                first_wins, seconds = False, 10  # too fast to be counted
            sides, letters = ((a, b), "ab") if game % 3 else ((b, a), "ba")
            degree = 1 + game % 2
            won, even = letters[not first_wins], letters[game % 2]
            texts = [(side, f"text, by\n{side}", 50) for side in sides]
            answers = [f"{degree}{won}", f"{degree}{even}", f"{degree}{won}"]
            worker = [len(rows), f"w{len(rows) % 7}", 90, game, "a context"]
            rows.append([*worker, *texts[0], *texts[1], *answers, seconds])
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    mean = np.mean([math.log(strength) for strength in strengths.values()])
    return {player: 100 * (math.log(strength) - mean) for player, strength in strengths.items()}


def test_the_file_of_mauves_authors_is_read_as_it_is_described(tmp_path):
    scores = write_study(tmp_path / "study.csv", PAPER)
    for ties in ("random", "half"):  # the file tells no ties from wins of side A
        metric, features = BradleyTerry(ties=ties, min_seconds=25, display_scale=100).from_file(tmp_path / "study.csv")
        values = metric.compute(features).values
        for player, score in scores.items():
            assert values[f"human_like/{player}"] == pytest.approx(score, abs=1e-6)
            assert values[f"interesting/{player}"] == pytest.approx(score, abs=1e-6)
            assert values[f"sensible/{player}"] == pytest.approx(0, abs=1e-6)
    assert metric.read(tmp_path / "study.csv").rows[0].rater.startswith("w")


@cache
def compose(experiment, file, *words):
    composer = Composer(parse_command_line([f"experiment={experiment}", f"judgments={file}", "seed=0", *words]))
    settings = [composer.compose_job(job).settings for job in list_jobs(composer, composer.compose_command())]
    check_players(settings)
    return settings


def score_rows(settings_of_grid):
    """Return (model, decoder) → the score that a run puts into its row, or None; and that of its human row."""
    rows = {}
    for settings in settings_of_grid:
        judgments = JudgmentSource.from_settings(settings)
        for metric in settings.list_judging():
            judged = judgments.read(metric)
            _, features = metric.from_file(settings.judgments.path)
            all_scores = metric.compute(features).values
            assert judgments.find_player(metric, judged, human=True) == "human"
            rows["human", ""] = all_scores["human_like/human"]
            try:
                player = judgments.find_player(metric, judged)
                rows[settings.models.model.title, settings.decoder.name] = all_scores[f"human_like/{player}"]
            except UndefinedMetric:
                rows[settings.models.model.title, settings.decoder.name] = None
    return rows


ON_DOCS = [("docs-m", decoder) for decoder in (*DOCS[1:], "adversarial")]


@pytest.mark.slow
@cases(
    "number, models, others, on_docs, unjudged_on_docs",
    (3, ["gpt2-xl"], ["greedy", "adversarial"], [("docs-m", d) for d in DOCS[1:]], ON_DOCS[-1:]),
    (4, SIZES, [], [("docs-s", "nucleus")], [("docs-m", "nucleus")]),
    (5, SIZES, [], [("docs-s", d) for d in DOCS[1:]], []),
    (6, SIZES, ["greedy", "adversarial"], [("docs-s", d) for d in DOCS[1:]], [("docs-s", "adversarial"), *ON_DOCS]),
    (9, SIZES, ["greedy"], [("docs-s", d) for d in DOCS[1:]], ON_DOCS),
    (14, SIZES, [], [("docs-s", d) for d in DOCS[1:]], []),
)
def test_every_table_of_mauve_has_its_row_of_people_from_one_option(
    tmp_path, number, models, others, on_docs, unjudged_on_docs
):
    """And on docs the systems that were judged have scores, and the others none."""
    scores = write_study(tmp_path / "study.csv", PAPER)
    judged = ["nucleus"] if number == 4 else ["ancestral", "nucleus"]
    expected = {("human", ""): scores["human"]} | {(m, decoder): None for m in models for decoder in others}
    expected |= {(m, decoder): scores[f"{m} {decoder}"] for m in models for decoder in judged}
    expected |= {("gpt2-xl", "adversarial"): None} if number == 9 else {}
    rows = score_rows(compose(f"mauve_table{number}", tmp_path / "study.csv"))
    assert rows == pytest.approx(expected, abs=1e-6)
    scores = write_study(tmp_path / "docs.csv", DOCS)
    words = (f"mauve_table{number}_docs", tmp_path / "docs.csv", "metric.bradley_terry.min_seconds=25")
    expected = {("human", ""): scores["human"], **{row: scores[row[1]] for row in on_docs}}
    assert score_rows(compose(*words)) == pytest.approx(expected | dict.fromkeys(unjudged_on_docs), abs=1e-6)


def test_table_13_prints_all_nine_players(tmp_path):
    scores = write_study(tmp_path / "study.csv", PAPER)
    done = openended("experiment=mauve_table13", "judgments=study.csv", cwd=tmp_path, code=0)
    lines = {" ".join(line.split()) for line in done.stdout.splitlines()}
    for player, score in scores.items():
        model, _, decoder = player.partition(" ")
        size = {"gpt2": "small", "human": "Human"}.get(model, model.removeprefix("gpt2-"))
        p = 0.95 if size in ("large", "xl") else 0.9
        row = {"nucleus": f"{size} Nucleus, {p}", "ancestral": f"{size} Sampling", "": size}[decoder]
        assert f"{row} {score:.3f} {score:.3f} 0.000" in lines


def test_without_judgments_the_row_of_people_is_absent_and_says_what_to_type(tmp_path):
    write_texts(tmp_path)
    words = ("generations=a.jsonl", "metric=[zipf,bradley_terry]", "judgments=none")
    done = openended(*TEXTS, *words, cwd=tmp_path, code=0)
    assert "there are no human judgments; judgments=FILE adds them" in " ".join(done.stdout.split())


# What is matched, and what is refused

TEXTS = ("task=texts", "task.path=human.jsonl", "num_examples=all", "max_new_tokens=null")
PAIRS = "bundled:example_pairs.csv"  # greedy, ancestral, nucleus and human


def write_texts(folder):
    for name in ("human", "a", "b"):
        words = ("one two three", "two three four five", f"four {name} six", "six one one two", f"{name} and on")
        write_jsonl(folder / f"{name}.jsonl", [{"text": text} for text in words])


def read_scores(folder):
    """Return the row's label → its Bradley-Terry score in the latest report, rounded; an absent one is empty."""
    *_, latest = sorted(folder.glob("outputs/**/tables/results.csv"), key=lambda path: path.stat().st_mtime_ns)
    cells = {row["system"]: row["bradley_terry"] for row in csv.DictReader(latest.read_text().splitlines())}
    return {label: cell and f"{float(cell):.3f}" for label, cell in cells.items()}


def test_the_score_of_a_player_never_stands_in_the_row_of_another_system(tmp_path):
    write_texts(tmp_path)
    words = ("-m", *TEXTS, "generations=a.jsonl,b.jsonl", "metric=[zipf,bradley_terry]", f"judgments={PAIRS}")
    done = openended(*words, cwd=tmp_path, code=0)
    text = " ".join(done.stdout.split())
    assert "no name in the file is matched to this system; it has ancestral, greedy, human, nucleus" in text
    assert "judgment_systems={NAME: {model: MODEL, decoder: DECODER}} matches one" in text
    assert "0.405" not in done.stdout  # the score of the best player
    assert read_scores(tmp_path) == {"human": "0.573", "a": "", "b": ""}
    openended(*words, "judgment_systems={greedy: {model: b}}", cwd=tmp_path, code=0)
    assert read_scores(tmp_path) == {"human": "0.573", "a": "", "b": "-0.841"}


def test_the_human_text_is_a_player_of_any_name(tmp_path):
    write_texts(tmp_path)
    lines = ["system_a,system_b,outcome", *["gold,x,a"] * 3, "gold,x,b"]
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    words = (*TEXTS, "generations=a.jsonl", "metric=[zipf,bradley_terry]", "judgments=pairs.csv")
    openended(*words, "judgment_systems={gold: human, x: {model: a}}", cwd=tmp_path, code=0)
    assert read_scores(tmp_path) == {"human": "0.549", "a": "-0.549"}  # ln 3 / 2
    openended(*words, "judgment_systems={x: {model: a}}", cwd=tmp_path, code=0)
    assert read_scores(tmp_path) == {"human": "", "a": "-0.549"}


RATED = [f"{i},{s},{r}\n" for i in range(3) for s, r in (("human", 5), ("m", 2))]
RATINGS = "example_id,system,rating\n" + "".join(RATED)


@pytest.mark.parametrize("metric", ["mean_rating", "huse", "bradley_terry", "distinct_k"])
def test_no_metric_of_a_file_takes_another_systems_judgments(tmp_path, metric):
    classes = "example_id,sample,class,system\n0,0,x,m\n0,1,y,m\n"
    text = {"bradley_terry": "system_a,system_b,outcome\nhuman,m,a\n", "distinct_k": classes}.get(metric, RATINGS)
    (tmp_path / "file.csv").write_text(text)
    options = ["metric.distinct_k.partition=file"] if metric == "distinct_k" else []
    settings = run_settings("decoder=greedy", f"metric=[{metric}]", f"judgments={tmp_path / 'file.csv'}", *options)
    (reader,) = settings.list_judging()
    judgments = JudgmentSource.from_settings(settings)
    judged = judgments.read(reader)
    assert "m" in judged.players
    with pytest.raises(UndefinedMetric, match=r"no name in the file is matched to this system; it has .*m"):
        judgments.find_player(reader, judged)


@pytest.mark.parametrize("text", [RATINGS.replace(",m,", ",0,").replace("system", "is_model"), None])
def test_a_file_that_names_no_system_is_of_one_system_only(tmp_path, text):
    """A single run takes it; the same file cannot be about two systems of a grid."""
    metric, options = "mean_rating", []
    if text is None:
        metric, options, text = "distinct_k", ["metric.distinct_k.partition=file"], "example_id,sample,class\n0,0,x\n"
    path = tmp_path / "file.csv"
    path.write_text(text.replace("human", "0") if metric == "distinct_k" else
                    "example_id,is_model,rating\n0,0,5\n0,1,2\n")  # fmt: skip
    words = (f"metric=[{metric}]", f"judgments={path}", *options)
    grid = [run_settings(f"decoder={decoder}", *words) for decoder in ("greedy", "ancestral")]
    (reader,) = grid[0].list_judging()
    judgments = JudgmentSource.from_settings(grid[0])
    assert judgments.find_player(reader, judgments.read(reader)) == "model"
    check_players([grid[0], grid[0]])
    message = r"file\.csv: system model is matched to two systems, decoder=greedy and decoder=ancestral;"
    check_error(SpecError, message, check_players, grid)


def test_one_player_or_file_of_vectors_is_not_of_two_systems(tmp_path):
    words = ("metric=[zipf,bradley_terry]", f"judgments={PAIRS}", "judgment_systems={nucleus: {decoder: nucleus}}")
    grid = [run_settings(f"model={model}", *words) for model in ("docs-s", "docs-m")]
    with pytest.raises(SpecError, match=r"system nucleus is matched to two systems, model=docs-s and model=docs-m"):
        check_players(grid)
    check_players([grid[0], run_settings("model=docs-s", "seed=1", *words)])
    write_texts(tmp_path)
    words = ("-m", *TEXTS, "metric=[frechet]", "features.human=h.npy", "features.model=a.npy")
    for name in ("h", "a"):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).normal(size=(5, 3)))
    done = openended(*words, "generations=a.jsonl,b.jsonl", cwd=tmp_path)
    assert "features.model=a.npy is matched to two systems" in done.stderr


def test_axes_match_as_they_are_typed():
    players = "judgment_systems={x: {decoder: nucleus, decoder.p: 0.95}, y: {decoder: nucleus, decoder.p: 0.9}}"
    for words, matched in ((["nucleus"], ["x"]), (["nucleus", "decoder.p=0.9"], ["y"]), (["greedy"], [])):
        chosen = run_settings(f"decoder={words[0]}", *words[1:], players)
        assert JudgmentSource.from_settings(chosen).list_players() == matched
    both = "judgment_systems={nucleus: {decoder: nucleus}, greedy: {model: docs-s}}"
    settings = run_settings("decoder=nucleus", both, "metric=[bradley_terry]", f"judgments={PAIRS}")
    (reader,) = settings.list_judging()
    judgments = JudgmentSource.from_settings(settings)
    with pytest.raises(SpecError, match=r"nucleus and greedy are matched to one system, .*add an axis"):
        judgments.find_player(reader, judgments.read(reader))


@cases(
    "players, message",
    ("{x: {}}", r"judgment_systems\.x: expected a system"),
    ("{x: gpt2}", r"judgment_systems\.x: expected a system, .*got 'gpt2'"),
    ("{x: {decodr: greedy}}", r"no axis 'decodr'; did you mean 'decoder'"),
    ("[x]", "judgment_systems: expected"),
)
def test_wrong_players(players, message):
    check_error(HarnessError, message, run_settings, f"judgment_systems={players}")


@pytest.mark.parametrize("metric", ["mean_rating", "bradley_terry"])
def test_a_file_alone_takes_no_system(tmp_path, metric):
    pairs = "system_a,system_b,outcome\nhuman,m,a\nhuman,m,b\n"
    (tmp_path / "file.csv").write_text(RATINGS if metric == "mean_rating" else pairs)
    for words in (["decoder=greedy"], ["task=docs"], ["-m", "decoder=greedy,nucleus"]):
        done = openended(f"metric=[{metric}]", "judgments=file.csv", *words, cwd=tmp_path, code=2)
        option = words[-1].partition("=")[0]
        assert f"{option}: no effect, because metric=[{metric}] scores the file of judgments alone;" in done.stderr
    openended(f"metric=[{metric}]", "judgments=file.csv", cwd=tmp_path, code=0)
