"""Other ways for a recurrent network to modulate a policy, under the same protocol as the paper's."""

import json
from collections.abc import Mapping

from nmn_keras.analysis import comparison
from nmn_keras.analysis.experiment import BENCHES, STORED, Data, Draw, Options
from nmn_keras.analysis.learning import BANDS, DOTS, RECIPES, TRAINED, ZOO
from nmn_keras.analysis.markdown import picture, table
from nmn_keras.analysis.score_table import COST, WORDS, lacking, scores_table
from nmn_keras.analysis.trained import MODES, from_plain, from_zoo, matched, to_plain, trained_alike

KINDS = {
    "nmn": "NMN, the paper's: gains and biases from a GRU that sees the past alone",
    "rnn": "RNN, the paper's baseline: a GRU that sees the observation too, and layers on it",
    "film": "FiLM: gains and biases from the current hidden state, the observation included",
    "hyper": "a recurrent hypernetwork: all weights of the main network from the hidden state",
    "nbrc": "NMN whose modulator has nBRC cells (bistable) instead of a GRU",
    "shared": "NMN whose neurons share gain and bias within a layer, the paper's own suggestion",
}
"""What each kind is, by the part of an agent's name that says it."""
WANTED = 5
"""Seeds of each."""


def measure(options: Options) -> Data:
    """Train all of them; see `training.train`."""
    from nmn_keras.analysis.training import train

    return {"source": TRAINED, "groups": to_plain(train(_names(options.benches), options)), "missing": [], "sine": None}


def stored(options: Options) -> Data:
    """Read what the zoo has of them."""
    groups, missing = from_zoo(_names(options.benches), options.zoo)
    return {"source": ZOO, "groups": to_plain(groups), "missing": missing, "sine": _read_sine()}


def _read_sine():
    """What `examples/sine_regression.py --json` wrote, or None."""
    path = STORED / "sine.json"
    return json.loads(path.read_text()) if path.exists() else None


def _names(benches):
    return [f"{bench}-{kind}" for bench in benches for kind in KINDS]


def _kind(group):
    return group.agent.partition("-")[2]


def _is_new(group):
    return _kind(group) not in ("nmn", "rnn")


def _has_new(groups):
    return any(map(_is_new, groups))


def figures(data: Data) -> Mapping[str, Draw]:
    """Curves of each recipe under which a new kind was trained, and scores."""
    from nmn_keras.analysis import curve_figures, group_figures

    groups = trained_alike(from_plain(data["groups"]), _is_new)
    look = group_figures.Look(_kind, lambda group: [*KINDS].index(_kind(group)))
    drawn = {}
    for recipe in RECIPES:
        mine = [group for group in groups if group.recipe == recipe]
        if _has_new(mine):
            drawn[f"beyond-{recipe}"] = curve_figures.curves(group_figures.training_panels(mine, look))
    if _has_new(groups):
        drawn["beyond-scores"] = curve_figures.scores(group_figures.score_columns(groups, look), "share of the optimum")
    return drawn


def section(data: Data) -> str:
    """Scores to choose from, comparisons with the NMN, figures."""
    groups = trained_alike(from_plain(data["groups"]), _is_new)
    recipes = [recipe for recipe in RECIPES if any(group.recipe == recipe for group in groups)]
    missing = [line for recipe in recipes for line in lacking(groups, _names(BENCHES), recipe, WANTED)]
    return "\n\n".join(
        [
            "## Beyond",
            f"{_INTRODUCTION} {data['source']}",
            table(("name", "what it is"), [(f"`b1-{kind}`, ...", words) for kind, words in KINDS.items()]),
            "### To choose from",
            f"{WORDS} {COST}",
            scores_table(groups),
            "### Against the NMN",
            *_against(groups),
            "### Kinds that are missing",
            "\n".join(missing) or f"Nothing: {WANTED} seeds of each.",
            *_captions(groups),
            *_sine(data["sine"]),
        ]
    )


_INTRODUCTION = """What the paper did not try, trained in the same way as its two networks. `nmn reproduce beyond`
trains 15 seeds of each."""


def _against(groups):
    rows = []
    for bench in BENCHES:
        for kind in [*KINDS][1:]:
            for other, nmn in matched(groups, [f"{bench}-{kind}", f"{bench}-nmn"]):
                chances = [
                    comparison.probability(other.measured(measure), nmn.measured(measure))
                    for measure in ("area", *MODES)
                ]
                cells = [chance.text(2) + chance.tested() for chance in chances]
                seeds = f"{len(other.seeds)} and {len(nmn.seeds)}"
                rows.append([f"`{other.agent}`", other.recipe, seeds, *cells])
    yield (
        "Probability that a seed of it beats one of the NMN trained in the same way; 0.5 is no difference. p: of the "
        "exact rank test."
    )
    yield table(("agent", "recipe", "seeds", "P, sooner", "P, test, deterministic", "P, test, sampled"), rows)


def _captions(groups):
    for recipe in RECIPES:
        if _has_new([group for group in groups if group.recipe == recipe]):
            text = picture(f"beyond-{recipe}", f"Learning curves of all kinds, {recipe} recipe")
            yield f"{text}\n\n*All kinds while training, {recipe} recipe. {BANDS}*"
    if _has_new(groups):
        yield f"{picture('beyond-scores', 'Scores of all kinds by seed')}\n\n*{DOTS}*"


def _sine(found):
    """Supervised meta-learning, which the paper names as a track to follow."""
    if not found:
        return
    yield "### Supervised: sine waves"
    yield (
        'The paper: "Supervised meta-learning would be an interesting track to follow". Networks see '
        f"{found['context_points']} points of an unknown sine wave and predict others; `NMNDense` in a plain Keras "
        f"model, `keras.Model.fit`, {found['seeds']} seeds. Shown: {found['measure']} (Student's t), each at the "
        f"learning rate of {', '.join(f'{rate:g}' for rate in found['learning_rates'])} that validation tasks choose. "
        f"Command: `{found['command']}`."
    )
    rows = []
    for name, model in found["models"].items():
        error = comparison.Estimate(model["mean"], *model.get("interval", (None, None)))
        rows.append((name, f"{model['parameters']:,}", f"{model['learning_rate']:g}", error.text(4)))
    yield table(("network", "parameters", "learning rate", "mean squared error"), rows)
