"""Meta-regression with `NMNDense` in a plain Keras model, beside concatenation and beside no context at all.

A task is a sine wave `y = amplitude * sin(x + phase)`, amplitude ~ U[0.1, 5], phase ~ U[0, 2 pi), x ~ U[-5, 5], much
as in Finn et al. 2017. A network sees K = 10 points of it and predicts others. One encoder (dense layers for each
point, then the mean over points) gives a code of the context; the code modulates a main network, or is concatenated to
x, or is left out. All three have as many parameters, within 1 %, and learn by `keras.Model.fit`, each at the learning
rate that has the lowest error on validation tasks, mean over seeds.

    KERAS_BACKEND=jax python examples/sine_regression.py --json docs/results/data/sine.json
"""

import argparse
import json
import shlex
import sys
from pathlib import Path

import keras
import numpy as np

from nmn_keras import NMNDense

CONTEXT, QUERIES, CODE = 10, 20, 32
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 10: 2.262}
"""0.975 quantiles of Student's t distribution, by number of seeds."""


def draw_tasks(generator, tasks):
    """Context `(tasks, K, 2)` of points (x, y), queries x `(tasks, Q, 1)` and what to predict `(tasks, Q, 1)`."""
    amplitude = generator.uniform(0.1, 5.0, (tasks, 1))
    phase = generator.uniform(0.0, 2.0 * np.pi, (tasks, 1))
    x = generator.uniform(-5.0, 5.0, (tasks, CONTEXT + QUERIES))
    y = amplitude * np.sin(x + phase)
    points = np.stack([x, y], axis=-1).astype("float32")
    return points[:, :CONTEXT], points[:, CONTEXT:, :1], points[:, CONTEXT:, 1:]


def encode(context):
    """A code of the points that does not depend on their order."""
    y = keras.layers.Dense(64, "relu")(context)
    y = keras.layers.Dense(64, "relu")(y)
    y = keras.layers.GlobalAveragePooling1D()(y)
    return keras.layers.Dense(CODE, "tanh")(y)


def modulated(units=40):
    """The code sets gain and bias of every neuron of a network of x."""
    context, x = keras.Input((CONTEXT, 2)), keras.Input((QUERIES, 1))
    signal, y = encode(context), x
    for _ in range(2):
        y = NMNDense(units, "relu")(y, signal)
    return keras.Model([context, x], NMNDense(1)(y, signal))


def concatenated(units=67):
    """The same code as further inputs of a plain network of x."""
    context, x = keras.Input((CONTEXT, 2)), keras.Input((QUERIES, 1))
    code = keras.layers.RepeatVector(QUERIES)(encode(context))
    y = keras.layers.Concatenate()([x, code])
    for _ in range(2):
        y = keras.layers.Dense(units, "relu")(y)
    return keras.Model([context, x], keras.layers.Dense(1)(y))


def without_context(units=114):
    """A plain network that sees x alone: the best it can do is the mean wave, 0."""
    context, x = keras.Input((CONTEXT, 2)), keras.Input((QUERIES, 1))
    y = x
    for _ in range(2):
        y = keras.layers.Dense(units, "relu")(y)
    return keras.Model([context, x], keras.layers.Dense(1)(y))


MODELS = {"modulated": modulated, "concatenated": concatenated, "without context": without_context}


def train(build, seed, rate, tasks):
    """Fit a fresh model on tasks drawn for it; gives its mean squared errors on validation and on test tasks.

    Both are the same for all models.
    """
    keras.utils.set_random_seed(seed)
    model = build()
    context, x, y = draw_tasks(np.random.default_rng([seed, 1]), tasks)
    model.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(rate, 4 * (tasks // 64))), "mse")
    model.fit([context, x], y, batch_size=64, epochs=4, verbose=0)
    held_out = [draw_tasks(np.random.default_rng([0, stream]), 2000) for stream in (3, 2)]
    return [float(model.evaluate([context, x], y, batch_size=500, verbose=0)) for context, x, y in held_out]


def compare_rates(build, seeds, tasks):
    """Train at every rate with every seed; gives the rate that validation chooses and its test errors."""
    errors = {rate: np.transpose([train(build, seed, rate, tasks) for seed in range(seeds)]) for rate in RATES}
    chosen = min(RATES, key=lambda rate: np.mean(errors[rate][0]))
    return chosen, errors[chosen][1].tolist()


def summarise(build, seeds, tasks):
    """What `--json` holds of a model: test errors, their mean and its 95 % interval over seeds (Student's t)."""
    rate, errors = compare_rates(build, seeds, tasks)
    mean = float(np.mean(errors))
    found = {"parameters": build().count_params(), "learning_rate": rate, "test_errors": errors, "mean": mean}
    if seeds in STUDENT:
        half = STUDENT[seeds] * float(np.std(errors, ddof=1)) / seeds**0.5
        found["interval"] = [mean - half, mean + half]
    return found


def main(argv=None):
    """Train every model with every seed and rate, and print the errors at its best rate."""
    parser = argparse.ArgumentParser(description="Meta-regression of sine waves; see the file's first lines.")
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0 to N-1; default: 5")
    parser.add_argument("--tasks", type=int, default=25_600, help="waves to learn from, each seen 4 times")
    parser.add_argument("--json", type=Path, help="also write the errors to this file")
    arguments = parser.parse_args(argv)
    results = {}
    for name, build in MODELS.items():
        results[name] = found = summarise(build, arguments.seeds, arguments.tasks)
        interval = "[{:.4f}, {:.4f}], ".format(*found["interval"]) if "interval" in found else ""
        print(
            f"{name:>15}: {found['mean']:.4f} {interval}{found['parameters']} parameters, "
            f"learning rate {found['learning_rate']:g}"
        )
    if arguments.json:
        words = ["python", "examples/sine_regression.py", *(sys.argv[1:] if argv is None else argv)]
        told = {
            "command": f"KERAS_BACKEND={keras.backend.backend()} {shlex.join(words)}",
            "measure": "mean squared error on 2000 test tasks, 20 points each, 95 % intervals over seeds",
            "seeds": arguments.seeds,
            "tasks": arguments.tasks,
            "context_points": CONTEXT,
            "learning_rates": RATES,
            "models": results,
        }
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
