"""Every published number and picture has its command beside it, and numbers of the README are those of the zoo."""

import functools
import json
import re
from pathlib import Path

import pytest

from nmn_keras import presets, zoo
from nmn_keras.analysis.trained import actor_parameters
from nmn_keras.networks import build_network

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
COMMAND = re.compile(
    r"\bnmn (?:train|evaluate|publish|reproduce) |\bpython3? (?:-m |-c \"from )?(?:benchmarks|examples|nmn_keras)\b"
)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
PICTURE = re.compile(r"!\[|<img ")
INTERVAL = re.compile(r"\[[^]]*\]")
SHARE = re.compile(r"(?<![\d.])0\.\d{3}(?!\d| \[)")  # of the optimum, without an interval
UNCERTAIN = re.compile(r"-?\d[\d.]* (?:\[-?[\d.]+, -?[\d.]+\]|± \d+(?:\.\d+)?)")  # with an interval or a deviation


def sections(text):
    """Parts of a page from one heading of the first two levels to the next: `[(heading, text)]`."""
    parts = re.split(r"^(##? .*)$", text, flags=re.M)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def measured_rows(text):
    """Rows of tables with two measured numbers or more: with a decimal point or of four digits."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    numbers = [[n for n in NUMBER.findall(row) if "." in n or len(n.replace(",", "")) >= 4] for row in rows]
    return [row for row, found in zip(rows, numbers, strict=True) if len(found) >= 2]


@pytest.mark.parametrize("page", PAGES)
def test_numbers_and_pictures_have_a_command_beside_them(page):
    for heading, text in sections((ROOT / page).read_text()):
        if measured_rows(text) or PICTURE.search(text):
            assert COMMAND.search(text), f"{page}, {heading!r}: name the command that gives its numbers or pictures"


def test_there_are_numbers_to_check():
    found = {page: sum(len(measured_rows(text)) for _, text in sections((ROOT / page).read_text())) for page in PAGES}
    assert found["README.md"] > 10 and found["docs/RESULTS.md"] > 10 and found["docs/training.md"] > 5
    assert COMMAND.search("`python -m nmn_keras.known_task b2`") and not COMMAND.search(
        "the nmn trains; python is nice"
    )


@functools.cache
def actor_size(name, recipe):
    """Parameters of an actor; the paper recipe has the paper's networks, the fast one others on b2 and b3."""
    architecture, _ = presets.get(name, recipe)
    return build_network(architecture, architecture.policy_units).count_params()


@pytest.mark.parametrize("name", zoo.list_agents())
def test_every_score_of_the_zoo_has_its_command_and_commit(name):
    scores = json.loads(zoo.path(name, "scores.json").read_text())
    for record in scores["seeds"]:
        expected = f"nmn train {name} --recipe {record['recipe']} --seed {record['seed']}"
        assert re.fullmatch(rf"KERAS_BACKEND=\w+ {expected}(?: --\S+ \S+)*", record["command"]), record["command"]
        assert re.fullmatch(r"[0-9a-f]{40}", record["commit"]), record["commit"]
        assert record["parameters"] == actor_size(name, record["recipe"])
    assert actor_parameters(zoo.path(name, "agent.weights.h5")) == actor_size(name, scores["published"]["recipe"])
    card = zoo.path(name, "README.md").read_text()
    assert zoo.card(name)["command"] in card and zoo.card(name)["commit"] in card


def score_rows(page):
    """Rows of tables of scores, as lists of cells: agent, recipe, and what was measured."""
    rows = [[cell.strip(" *`") for cell in row.split("|")[1:-1]] for row in measured_rows((ROOT / page).read_text())]
    return [row for row in rows if row[0] in zoo.list_agents()]


def test_the_scores_in_the_readme_are_those_of_the_results_and_the_zoo():
    rows, results = score_rows("README.md"), score_rows("docs/RESULTS.md")
    for agent, recipe, *cells, published in rows:
        (found, *_) = [row for row in results if row[:2] == [agent, recipe]]
        assert found[2:4] + found[7:11] == cells, (agent, recipe)
        scores = json.loads(zoo.path(agent, "scores.json").read_text())["published"]
        if recipe == scores["recipe"]:
            value, low, high = (float(number) for number in NUMBER.findall(published))
            served = scores["deterministic"]
            assert value == pytest.approx(served["discounted_return"], abs=0.051)
            assert [low, high] == pytest.approx(served["discounted_return_interval"], abs=0.051)
        else:
            assert published == "–"
    assert {row[0] for row in rows} >= {f"b{i}-{kind}" for i in (1, 2, 3) for kind in ("nmn", "rnn")}


def uncertain_numbers(text):
    """Numbers with an interval or a deviation behind them, without the signs and marks that pages differ in."""
    return set(UNCERTAIN.findall(" ".join(text.replace("−", "-").replace("+", "").replace("*", "").split())))


def findings(page, start, end):
    """The prose of a page between two marks, on one line."""
    text = (ROOT / page).read_text()
    return " ".join(text[text.index(start) :].split(end)[0].split())


def test_the_findings_in_the_readme_are_those_of_the_results():
    numbers = uncertain_numbers(findings("README.md", "\n- **b1, the paper's recipe", "\nCommands:"))
    assert len(numbers) >= 10
    assert not numbers - uncertain_numbers((ROOT / "docs/RESULTS.md").read_text())


def published_share(agent):
    """Of the optimum, deterministic, of the seed that the zoo serves, to three decimals."""
    return f"{json.loads(zoo.path(agent, 'scores.json').read_text())['published']['deterministic']['share']:.3f}"


@pytest.mark.parametrize(
    ("page", "start", "end"),
    [
        ("README.md", "\n- **b1, the paper's recipe", "\nCommands:"),
        ("docs/architectures.md", "- **Which one?", "\n- **"),
    ],
)
def test_shares_in_prose_are_those_of_the_tables(page, start, end):
    shares = set(SHARE.findall(INTERVAL.sub("[", findings(page, start, end))))
    tables = {cell for row in score_rows("docs/RESULTS.md") for cell in row}
    assert len(shares) >= 5
    assert not shares - tables - {published_share(agent) for agent in zoo.list_agents()}
