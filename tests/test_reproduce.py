"""`nmn reproduce`: the published page is what the stored data give, claims follow the numbers, runs from scratch."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from made_groups import group
from matplotlib.colors import to_rgb

from nmn_keras import cli, presets, zoo
from nmn_keras.analysis import comparison, curve_figures, experiment, markdown, page, plots, themes, trained
from nmn_keras.analysis.experiment import BENCHES, Options

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
IMAGE = re.compile(r'(?:src|srcset)="results/([^"]+)"')


# The published page


def test_the_published_page_and_its_figures_are_what_is_stored(tmp_path, capsys):
    assert cli.main(["reproduce", "all", "--from-curves", "--output", str(tmp_path)]) == 0
    assert str(tmp_path / "RESULTS.md") == capsys.readouterr().out.splitlines()[-1]
    text = (tmp_path / "RESULTS.md").read_bytes()
    assert text == (DOCS / "RESULTS.md").read_bytes(), "run `nmn reproduce all --from-curves`"
    made = {path.name: path.read_bytes() for path in (tmp_path / "results").glob("*.png")}
    kept = {path.name: path.read_bytes() for path in (DOCS / "results").glob("*.png")}
    assert {*made} == {*kept} == {*IMAGE.findall(text.decode())}
    if json.loads((DOCS / "results" / "drawn-with.json").read_text()) == page.drawn_with():
        assert [name for name in made if made[name] != kept[name]] == []


def test_every_claim_is_shown_at_a_glance():
    _, glance, *sections = re.split(r"^## ", (DOCS / "RESULTS.md").read_text(), flags=re.M)
    shown = [line for line in glance.splitlines() if line.startswith("| [")]
    tables = "".join(sections).split(f"| {' | '.join(markdown.CLAIMS)} |")[1:]
    claimed = [line for part in tables for line in part.partition("\n\n")[0].splitlines()[2:]]
    assert len(shown) == len(claimed) > 20
    for brief, whole in zip(shown, claimed, strict=True):
        _, words, verdict = brief.split(" | ")
        assert whole.startswith(f"| {words} |") and f"| {verdict.removesuffix(' |')} |" in whole
    assert {f"#{anchor}" for anchor in ("learning", "b1-moving-target", "freezing", "robustness")} <= {
        *re.findall(r"\((#[^)]+)\)", glance)
    }


def test_cells_with_bars_are_claims_as_they_were_written():
    row = ("a | b", "P(x|y)", "holds|x", "–")
    assert [*markdown.claims(f"## Here\n\n{markdown.table(markdown.CLAIMS, [row])}\n\n| no | claim |")] == [
        ("Here", "a | b", "holds|x")
    ]


@pytest.mark.parametrize("name", experiment.NAMES)
def test_data_survive_json_and_give_the_same_again(name):
    data = page.read_data(name, Options())
    again = json.loads(json.dumps(data, allow_nan=False))
    module = experiment.load(name)
    assert module.section(data) == module.section(again)
    stem = next(iter(module.figures(data)), None)
    if stem:
        first, second = (plots.png(module.figures(one)[stem](themes.DARK)) for one in (data, again))
        assert first == second and len(first) > 5_000


def test_figures_have_labels_a_legend_and_the_colours_of_their_page():
    drawn = experiment.load("learning").figures(
        {"source": "Here.", "groups": trained.to_plain([group("b1-nmn", 0.9)]), "missing": []}
    )
    for theme in themes.THEMES:
        figure = drawn["learning-fast"](theme)
        assert figure.get_facecolor()[:3] == pytest.approx(to_rgb(theme.paper))
        top, bottom = figure.axes
        assert bottom.get_xlabel() == "episodes played" and "first 200 steps" in top.get_ylabel()
        labels = [text.get_text() for text in bottom.get_legend().get_texts()]
        assert labels == ["Bayes optimal", "NMN, 15 seeds"]


def test_a_seed_that_failed_does_not_press_the_others_together():
    """Below 0 it stands at the edge with its number; where half of the groups fail the axis is left alone."""
    good, bad = np.array([0.9, 0.95, 0.97, 0.96, -0.73]), np.array([0.1, 0.0, -0.02, 0.1, 0.2])
    rows = [curve_figures.Dots(name, 0, values, True) for name, values in [("good", good), ("bad", bad)]]
    columns = [("one", rows[:1]), ("both", rows)]
    figure = curve_figures.scores(columns, "share of the optimum")(themes.LIGHT)
    cut, whole = figure.axes
    assert cut.get_xlim()[0] == 0 and [text.get_text() for text in cut.texts] == ["-0.73"]
    assert cut.get_xlim()[1] > 0.97 and whole.get_xlim()[0] < -0.73 and not whole.texts


# What the zoo holds


def test_groups_are_what_the_zoo_says():
    names = zoo.list_agents()
    groups, missing = trained.from_zoo([*names, "b1-nobody"])
    assert missing == ["b1-nobody"]
    for name in names:
        scores = json.loads(zoo.path(name, "scores.json").read_text())
        mine = [one for one in groups if one.agent == name]
        assert sum(len(one.seeds) for one in mine) == len(scores["seeds"])
        for one in mine:
            for seed in one.seeds:
                (record,) = [r for r in scores["seeds"] if (r["recipe"], r["seed"]) == (one.recipe, seed.seed)]
                assert record["episodes_trained"] == one.episodes
                assert seed.scores["sampled"]["discounted_return"] == record["sampled"]["discounted_return"]
                assert record["sampled"]["share"] == pytest.approx(
                    record["sampled"]["discounted_return"] / one.best("sampled")
                )
                if one.whole:
                    assert one.measured("training")[one.seeds.index(seed)] == pytest.approx(
                        record["training_discounted_return"], rel=1e-4
                    )


def test_runs_and_their_networks_are_counted(runs):
    from nmn_keras import ActorCritic

    (one,) = trained.from_runs("b1-nmn", "fast", {0: runs["fast"]})
    assert (one.episodes, one.episodes_per_update, one.steps, len(one.seeds[0].curve)) == (32, 4, 20, 8)
    assert one.parameters == ActorCritic.load(runs["fast"]).actor.count_params()
    assert one.seeds[0].command.startswith("KERAS_BACKEND=") and len(one.seeds[0].validated) == 2


def test_matrix_products_are_counted(tmp_path):
    import onnx
    from onnx import TensorProto, helper

    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("Gemm", ["h", "b"], ["y"])]
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, np.zeros(shape).ravel())
        for name, shape in (("a", (4, 8)), ("b", (8, 3)))
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in (("x", 4), ("y", 3))
    ]
    onnx.save(helper.make_model(helper.make_graph(nodes, "two", ends[:1], ends[1:], weights)), tmp_path / "two.onnx")
    assert trained.step_operations(tmp_path / "two.onnx") == 4 * 8 + 8 * 3


# What is said of the numbers


@pytest.mark.parametrize(
    ("nmn", "rnn", "expected"),
    [
        (dict(share=0.9), dict(share=0.7), "holds"),
        (dict(share=0.7), dict(share=0.9), "does not hold"),
        (dict(share=0.8), dict(share=0.8), "no difference shown"),
        (dict(share=0.9, seeds=4), dict(share=0.7), "too few seeds"),
    ],
)
def test_a_claim_holds_where_the_numbers_say_so(nmn, rnn, expected):
    groups = [group("b3-nmn", **nmn), group("b3-rnn", **rnn)]
    text = experiment.load("learning").section(
        {"source": "Here.", "groups": trained.to_plain(groups), "missing": ["b1-nmn"]}
    )
    (row,) = [line for line in text.splitlines() if line.startswith("| NMNs converge towards better")]
    assert f"| b3, fast: {expected} |" in row
    assert "not trained yet: `b1-nmn`" in text
    if nmn.get("seeds") == 4:
        assert "`b3-nmn` 4" in text


def test_smaller_spreads_and_returns_are_judged_by_their_own_side():
    groups = [
        group("b1-nmn", 4534 / 4679, spread=0.001, recipe="paper"),
        group("b1-rnn", 0.8, spread=0.1, recipe="paper"),
    ]
    text = experiment.load("learning").section({"source": "Here.", "groups": trained.to_plain(groups), "missing": []})
    rows = {line.split("|")[1].strip()[:20]: line for line in text.splitlines() if line.startswith("| ")}
    assert (
        "| b1, paper: holds |" in rows["NMNs show very stabl"]
        and "ratio of spreads 0.01" in rows["NMNs show very stabl"]
    )
    assert "| 4534 ± 3 after 1,280 episodes, 15 seeds; interquartile mean 4534 [" in rows["On benchmark 1 the N"]
    assert "] | not contradicted |" in rows["On benchmark 1 the N"]
    lower = [group("b1-nmn", 0.9, spread=0.001, recipe="paper")]
    text = experiment.load("learning").section({"source": "Here.", "groups": trained.to_plain(lower), "missing": []})
    assert "] | does not hold: lower |" in text


@pytest.mark.parametrize("fewest", [5, 4])
def test_benchmarks_are_pooled_where_all_have_five_seeds(fewest):
    seeds = {"b1": 15, "b2": 5, "b3": fewest}
    shares = {"nmn": 0.9, "rnn": 0.8}
    groups = [group(f"{b}-{kind}", share, seeds[b], recipe="paper") for b in seeds for kind, share in shares.items()]
    text = experiment.load("learning").section({"source": "Here.", "groups": trained.to_plain(groups), "missing": []})
    said = "paper recipe, share of the optimum on test episodes (interquartile mean over all seeds"
    assert (said in text) == (fewest == 5)
    assert fewest == 4 or ("deterministic, NMN 0.900 [" in text and "P(NMN > RNN) 1.00 [1.00, 1.00]; sampled" in text)


def test_of_five_seeds_the_rank_test_decides_too():
    above = [5.0, 6.0, 7.0, 7.5, 9.0]
    for best_below, pairs, p, expected in ((5.5, 24, 4 / 252, "holds"), (8.0, 21, 24 / 252, "no difference shown")):
        found = comparison.probability(above, [1.0, 2.0, 3.0, 4.0, best_below])
        assert found.value == pairs / 25 and found.low > 0.5  # the interval excludes 0.5 in both cases
        assert found.p == pytest.approx(p) and comparison.verdict(found, 0.5) == expected


def test_variants_are_compared_with_what_was_trained_alike():
    names = {"b1-nmn": 0.95, "b1-nmn-sigmoid": 0.93, "b1-rnn": 0.9, "b1-rnn-sigmoid": 0.5}
    names |= {"b1-nmn-depth0": 0.94, "b1-nmn-depth4": 0.94, "b1-rnn-depth0": 0.97, "b1-rnn-depth4": 0.4}
    groups = [group(name, share) for name, share in names.items()] + [group("b1-nmn", 0.1, recipe="paper")]
    module, data = experiment.load("robustness"), {"source": "Here.", "groups": trained.to_plain(groups), "missing": []}
    text = module.section(data)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert "b1 NMN, fast: holds: worse<br>b1 RNN, fast: holds: worse" in rows[1]
    assert re.search(r"RNN loses \+0.380 \[[^]]+\] of the optimum more than the NMN, p < 0.001 \|", rows[2])
    assert "| b1, fast: holds |" in rows[2]
    assert "| b1, fast: holds: the RNN is ahead |" in rows[3]
    assert "varies by +0.560 [" in rows[4] and "| b1, fast: holds |" in rows[4]
    assert {*module.figures(data)} == {"robustness-sigmoid-fast", "robustness-depth-fast", "robustness-scores"}
    assert {f"{stem}-light.png" for stem in module.figures(data)} <= {*IMAGE.findall(text)}
    assert len(module.figures(data)["robustness-depth-fast"](themes.LIGHT).axes) == 6
    labels = {"srelu": "sReLU", "relu": "ReLU", "sigmoid": "sigmoid"}
    for name in (
        f"{bench}-{kind}{ending}" for bench in BENCHES for kind in ("nmn", "rnn") for ending in ("", "-sigmoid")
    ):
        activation = labels[presets.ARCHITECTURES[name].activation]
        assert module._activation_label(group(name, 0.9)).endswith(f", {activation}")


def test_kinds_beyond_the_paper_are_compared_with_the_nmn():
    groups = [group("b1-nmn", 0.9, 5), group("b1-film", 0.8, 5), group("b2-hyper", 0.8, 1)]
    module, data = (
        experiment.load("beyond"),
        {"source": "Here.", "groups": trained.to_plain(groups), "missing": ["b1-nbrc"], "sine": None},
    )
    sine = {
        "context_points": 10,
        "seeds": 3,
        "measure": "errors",
        "learning_rates": [0.1, 0.01],
        "command": "python examples/sine_regression.py",
    }
    models = {
        "nmn": {"mean": 0.125, "interval": [0.1, 0.15], "parameters": 1234, "learning_rate": 0.1},
        "none": {"mean": 3.0, "parameters": 9, "learning_rate": 0.01},
    }
    text = module.section({**data, "sine": {**sine, "models": models}})
    assert "| nmn | 1,234 | 0.1 | 0.1250 [0.1000, 0.1500] |\n| none | 9 | 0.01 | 3.0000 |" in text
    assert sine["command"] in text
    assert "sine" not in module.section(data)
    assert (
        "| `b1-film` | fast | 5 and 5 | 0.00 [0.00, 0.00], p = 0.008 |" in text
        and "`b2-hyper` | fast | 1 and" not in text
    )
    assert {f"{stem}-dark.png" for stem in module.figures(data)} <= {*IMAGE.findall(text)}
    assert all(f"`{name}`" in text.split("### Kinds that are missing")[1] for name in ("b1-nbrc", "b3-shared"))


def test_estimates_without_an_interval_say_nothing():
    few = comparison.probability([1.0, 2.0], [0.0] * 9)
    assert few.text(2) == "1.00" and comparison.verdict(few, 0.5) == "too few seeds"
    assert comparison.difference([3.0] * 5, [1.0] * 5).text(1, "+") == "+2.0 [+2.0, +2.0]"


# The command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "required: FIGURE"),
        ("posters", "invalid choice: 'posters'"),
        ("learning --bench b9", "argument --bench: invalid choice: 'b9'"),
        ("learning --seeds 0", "argument --seeds: must be a positive integer. Received: '0'"),
        ("learning --seeds 4:2", "argument --seeds: must be A:B with A < B, such as 0:5. Received: '4:2'"),
        ("learning --episodes -5", "argument --episodes: must be a positive integer. Received: '-5'"),
        ("learning --from-curves --seeds 2 --resume", "accepted with it. Received: --resume, --seeds"),
        ("all --from-curves --test-episodes 2", "--output and --zoo are accepted with it. Received: --test-episodes"),
        ("learning --from-curves --zoo nowhere", "nmn reproduce: There is no zoo here."),
        ("learning --episodes 70 --bench b1 --seeds 1 --output notes", "'notes/runs/b1-nmn-fast-s0' exists and is not"),
    ],
)
def test_bad_input_is_one_clear_message_and_writes_nothing(capsys, tmp_path, monkeypatch, arguments, message):
    (tmp_path / "notes" / "runs" / "b1-nmn-fast-s0").mkdir(parents=True)
    (tmp_path / "notes" / "runs" / "b1-nmn-fast-s0" / "mine").touch()
    before = {*tmp_path.rglob("*")}
    monkeypatch.chdir(tmp_path)
    try:
        status = cli.main(["reproduce", *arguments.split()])
    except SystemExit as error:
        status = error.code
    err = capsys.readouterr().err
    assert status == 2 and message in err and "Traceback" not in err
    assert {*tmp_path.rglob("*")} == before


@pytest.mark.slow
def test_from_scratch_interrupted_and_gone_on_with(tmp_path):
    """Real processes: two networks are trained, Ctrl-C saves them, --resume ends with table and picture."""
    options = "learning --bench b1 --seeds 1 --episodes 128 --test-episodes 2 --output here".split()
    command = [sys.executable, "-m", "nmn_keras.cli", "reproduce", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    runs = [tmp_path / "here" / "runs" / f"b1-{kind}-fast-s0" for kind in ("nmn", "rnn")]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and not (runs[0] / "checkpoint.json").exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "--resume goes on" in err and "Traceback" not in err
    assert "2 runs, 0 of them have ended." in out and not (tmp_path / "here" / "learning.md").exists()

    done = subprocess.run([*command, "--resume"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + (runs[0].with_name(runs[0].name + ".log")).read_text()
    assert done.stdout.splitlines()[-1] == "here/learning.md" and "| `b1-rnn` | fast | 128 | 1 |" in done.stdout
    pictures = IMAGE.findall((tmp_path / "here" / "learning.md").read_text())
    assert pictures and {*pictures} == {path.name for path in (tmp_path / "here" / "results").glob("*.png")}
    groups = trained.from_plain(
        json.loads((tmp_path / "here" / "results" / "data" / "learning.json").read_text())["groups"]
    )
    assert [(one.agent, len(one.seeds[0].curve)) for one in groups] == [("b1-nmn", 2), ("b1-rnn", 2)]

    again = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert again.returncode == 2 and "exists and is not empty; nothing was written" in again.stderr
    longer = [*command, "--resume", "--episodes", "256"]
    refused = subprocess.run(longer, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert refused.returncode == 2 and "accepted with --episodes 128. Received: 256" in refused.stderr
