"""The model card of a zoo entry, generated from its scores; needs neither Keras nor TensorFlow."""

from nmn_keras.contract import GOLDEN_STEPS

_TEMPLATE = """---
library_name: nmn_keras
pipeline_tag: reinforcement-learning
license: apache-2.0
tags: [keras, reinforcement-learning, meta-reinforcement-learning, neuromodulation, recurrent, onnx]
model-index:
- name: {name}
  results:
  - task: {{type: reinforcement-learning}}
    dataset: {{name: {env_id}, type: {env_id}}}
    metrics:
{metrics}
---
# {name}

A {kind} agent for `{env_id}` that adapts to a new task within an episode, without gradient steps. Trained with the
{recipe} recipe (seed {seed}, update {update}) at commit `{commit}`:

```
{command}
```

## Use
```python
import nmn_keras{needs}
agent = nmn_keras.zoo.load("{address}")                     # Keras
agent = nmn_keras.zoo.load("{address}", runtime="onnx")     # onnxruntime and numpy only
state = agent.initial_state(1)                           # zeros; so are prev_action and prev_reward at the start
action, state = agent.act(observation, prev_action, prev_reward, state)
```
`policy.onnx` is one step with explicit state (contract version 1); its metadata holds bounds, scaling and the layout of
the state. `golden.npz` holds {golden} steps of inputs and outputs to test another runtime with.

## Scores
{episodes} full test episodes (seed {test_seed}), empty memory at the start of each; discount {discount}; 95 % intervals
over episodes.
{chosen_by}
The action served is the deterministic one. The last column is the sampled policy while it learns, as the paper plots
it; the fast recipe does not play whole episodes.

{table}

Commands, commits and every figure are in `scores.json`, learning curves of all seeds in `curves.csv`.
"""

_COLUMNS = (
    "recipe",
    "seed",
    "episodes trained",
    "deterministic, discounted",
    "sampled, discounted",
    "deterministic, undiscounted",
    "sampled, undiscounted",
    "last 1,000 training episodes, discounted",
)
_HEADER = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"
_KINDS = {
    "nmn": "neuromodulated",
    "rnn": "recurrent (baseline)",
    "film": "recurrent, feature-wise modulated (FiLM)",
    "hyper": "recurrent, weight-generating (hypernetwork)",
}
_SELECTIONS = {
    True: "The weights are the best-validated over seeds and updates, on other episodes.",
    False: "The weights are those of the last update.",
}
_REFERENCES = {
    "optimal_discounted_return": "Bayes optimal: {:.1f} discounted.",
    "known_task_discounted_return": "Optimal control that knows the task, which no learner beats: {:.1f} discounted.",
    "paper_discounted_return": "The paper reports {:.0f} for this network after 20,000 episodes.",
}


def model_card(name: str, config: dict, scores: dict, address: str | None = None) -> str:
    """The card as Markdown with Hugging Face's metadata header.

    Args:
        name: the agent's name.
        config: the entry's `config.json`.
        scores: the entry's `scores.json`.
        address: where it is loaded from on the Hub; None for a zoo.
    """
    published, protocol = scores["published"], scores["protocol"]
    chosen = next(run for run in scores["seeds"] if _key(run) == _key(published))
    references = [_REFERENCES[key].format(value) for key, value in scores["references"].items()]
    if "worst_tenth_share" in published["deterministic"]:
        worst = published["deterministic"]["worst_tenth_share"]
        references.append(f"On the worst tenth of the tasks it earns {worst:.0%} of what is possible there.")
    return _TEMPLATE.format(
        name=name,
        kind=_KINDS[config["architecture"]["kind"]],
        env_id=protocol["env_id"],
        metrics="\n".join(_metrics(published["deterministic"])),
        address=address or name,
        needs='  # pip install "nmn_keras[hub]"' if address else "",
        recipe=published["recipe"],
        seed=published["seed"],
        update=published["update"],
        commit=chosen["commit"],
        command=chosen["command"],
        golden=GOLDEN_STEPS,
        episodes=f"{protocol['episodes']:,}",
        test_seed=protocol["test_seed"],
        discount=protocol["discount"],
        chosen_by=" ".join([_SELECTIONS[chosen["validation_discounted_return"] is not None], *references]),
        table="\n".join([_HEADER, *(_row(run, run is chosen) for run in scores["seeds"])]),
    )


def _metrics(scores):
    """Lines of the metadata; `mean_reward` is the Hub's word for the mean return of an episode."""
    found = {
        "discounted_return": f"{scores['discounted_return']:.1f}",
        "mean_reward": f"{scores['return']:.1f}",
        "share_of_optimum": f"{scores['share']:.4f}" if "share" in scores else None,
    }
    return [f"    - {{type: {kind}, value: {value}}}" for kind, value in found.items() if value is not None]


def _key(run):
    return run["recipe"], run["seed"]


def _row(run, published):
    cells = [
        run["recipe"],
        f"**{run['seed']}** (published)" if published else str(run["seed"]),
        f"{run['episodes_trained']:,}",
    ]
    for measure in ("discounted_return", "return"):
        for mode in ("deterministic", "sampled"):
            low, high = run[mode][f"{measure}_interval"]
            cells.append(f"{run[mode][measure]:.1f} [{low:.1f}, {high:.1f}]")
    training = run["training_discounted_return"]
    cells.append("–" if training is None else f"{training:.1f}")
    return f"| {' | '.join(cells)} |"
