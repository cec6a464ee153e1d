"""The `nmn` command: train, evaluate, export, publish, zoo."""

import argparse
import ast
import dataclasses
import inspect
import itertools
import json
import os
import subprocess
import sys
import textwrap
import typing
from pathlib import Path

import nmn_keras


def main(argv=None) -> int:
    """Run the command line; gives the exit status: 0 done, 2 bad input, 1 diverged, 130 interrupted."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's notes would tear the progress bar
    argv = sys.argv[1:] if argv is None else argv
    arguments = _parser(argv[:1]).parse_args(argv)
    arguments.argv = argv
    try:
        return arguments.run(arguments) or 0
    except (ValueError, OSError) as error:
        print(f"nmn {arguments.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130


def _parser(command):
    parser = argparse.ArgumentParser(
        prog="nmn",
        allow_abbrev=False,
        description="Train, evaluate, export and publish neuromodulated recurrent agents.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    train = _add_train(commands)
    if command == ["train"]:  # the recipes' options need Keras, for which the other commands' help must not wait
        _add_recipe_options(train)
    for add in (_add_evaluate, _add_export, _add_publish, _add_zoo):
        add(commands)
    return parser


# train


def _add_train(commands):
    parser = commands.add_parser(
        "train",
        allow_abbrev=False,
        help="train an agent of the zoo's architectures",
        description="Train an agent and score it against the optimum. KERAS_BACKEND=jax is the fast backend.",
        epilog="Example: KERAS_BACKEND=jax nmn train b1-nmn --recipe fast --seed 0",
    )
    parser.add_argument("name", help="architecture: b1-nmn, b1-rnn, ... (benchmark and kind)")
    parser.add_argument("--recipe", default="fast", choices=("fast", "paper"), help="default: fast")
    parser.add_argument("--seed", type=int, default=0, help="of weights and of everything drawn; default: 0")
    parser.add_argument("--seeds", type=_span, metavar="A:B", help="train seeds A to B-1, a process per core, instead")
    parser.add_argument("--jobs", type=_positive, help="with --seeds: how many at a time; default: one per core")
    parser.add_argument("--run-dir", type=Path, help="default: runs/NAME-RECIPE-sSEED")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the run directory")
    for option, text, defaults in (
        ("validation_episodes", "full episodes that choose the best weights, 0 = none", "500 on b1, 100 on b2 and b3"),
        ("validation_freq", "updates from one validation to the next", "10 on b1, 20 on b2 and b3"),
    ):
        parser.add_argument(
            f"--{option.replace('_', '-')}",
            type=int,
            metavar="N",
            help=f"{text}; default: {defaults}",
        )
    parser.add_argument("--checkpoint-freq", type=int, default=10, help="updates between two; default: 10")
    parser.add_argument("--test-episodes", type=_positive, default=1000, help="for the final score; default: 1000")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=_train)
    return parser


def _add_recipe_options(parser):
    from nmn_keras import presets, recipes

    for name in sorted(recipes.RECIPES):
        _add_fields(parser, recipes.RECIPES[name])
    changed = [
        f"{bench}: {', '.join(f'{k} {v}' for k, v in s.recipe.items())}"
        for bench, s in presets.FAST.items()
        if s.recipe
    ]
    parser.epilog += f" Other defaults of the fast recipe on {'; '.join(changed)}."


def _add_fields(parser, recipe):
    """One option per field of a recipe; its help is the sentence under the field."""
    group = parser.add_argument_group(f"with --recipe {recipe.name}")
    sentences = _field_sentences(recipe)
    for field in dataclasses.fields(recipe):
        option = f"--{field.name.replace('_', '-')}"
        text = f"{sentences[field.name]} Default: {field.default}".replace("%", "%%")
        if option in parser._option_string_actions:  # a field of both recipes is one option
            group.description = f"{group.description or ''} {option} (default: {field.default});"
            continue
        group.add_argument(option, type=_reader(field.type), default=argparse.SUPPRESS, metavar="X", help=text)


def _field_sentences(recipe):
    """`{field: the string under it}` of a dataclass."""
    tree: ast.Module = ast.parse(textwrap.dedent(inspect.getsource(recipe)))
    return {
        ast.unparse(field.target): str(ast.literal_eval(text.value))
        for field, text in itertools.pairwise(getattr(tree.body[0], "body"))  # noqa: B009
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def _reader(kind):
    """A function from text to a value of a field's type: a number, or None where "none" is accepted."""
    kinds = typing.get_args(kind) or (kind,)
    number = int if int in kinds else float

    def read(text):
        return None if type(None) in kinds and text.lower() == "none" else number(text)

    read.__name__ = number.__name__  # argparse's errors name it
    return read


def _positive(text):
    """A positive integer, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer. Received: {text!r}")
    return int(text)


def _span(text):
    """A range "A:B" of seeds, for argparse."""
    first, colon, end = text.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise argparse.ArgumentTypeError(f"must be A:B with A < B, such as 0:5. Received: {text!r}")
    return range(int(first), int(end))


def _chosen_recipe(arguments):
    """The recipe with the preset's settings, changed by the options given."""
    from nmn_keras import presets, recipes

    _, recipe = presets.get(arguments.name, arguments.recipe)
    names = {field.name for field in dataclasses.fields(recipe)}
    every = {f.name for other in recipes.RECIPES.values() for f in dataclasses.fields(other)}
    given = {name: getattr(arguments, name) for name in every if hasattr(arguments, name)}
    if foreign := sorted(set(given) - names):
        raise ValueError(f"The {recipe.name!r} recipe has no {foreign}. It has {sorted(names)}.")
    return dataclasses.replace(recipe, **given)


def _train(arguments):
    if arguments.seeds is not None:
        return _train_seeds(arguments)
    return _train_seed(arguments)


def _train_seeds(arguments):
    """Train each seed with this command in a process of its own; those that have ended are left as they are."""
    from nmn_keras import checkpoint
    from nmn_keras.sweep import Job, run_jobs

    if arguments.run_dir is not None or arguments.seed:
        raise ValueError("`--seeds` gives each run its seed and directory: leave out --seed and --run-dir.")
    _chosen_recipe(arguments)  # a bad option is refused here, not in each log
    jobs = []
    for seed in arguments.seeds:
        run_dir = _run_dir(arguments, seed)
        if arguments.resume and (run_dir / "scores.json").exists():
            print(f"{run_dir}: has ended")
            continue
        if not arguments.resume:
            checkpoint.refuse_existing(run_dir)
        command = [sys.executable, "-m", "nmn_keras.cli", *_without_seeds(arguments.argv), "--seed", str(seed)]
        if not checkpoint.exists(run_dir):
            command = [word for word in command if word != "--resume"]
        jobs.append(Job(str(run_dir), [*command, "--quiet"], run_dir.with_name(run_dir.name + ".log")))
    statuses = run_jobs(jobs, arguments.jobs or os.cpu_count() or 1, lambda line: print(line, flush=True))
    return max(map(abs, statuses.values()), default=0)


def _without_seeds(argv):
    """The words of this command but for the options that say how many processes there are."""
    left, words = list(argv), []
    while left:
        word = left.pop(0)
        name, equals, _ = word.partition("=")
        if name not in ("--seeds", "--jobs"):
            words.append(word)
        elif not equals:
            left.pop(0)
    return words


def _run_dir(arguments, seed):
    return arguments.run_dir or Path("runs") / f"{arguments.name}-{arguments.recipe}-s{seed}"


def _train_seed(arguments):
    import keras

    from nmn_keras.actor_critic import ActorCritic, TrainingDiverged
    from nmn_keras.callbacks import BestWeights, CurveLogger

    name, seed = arguments.name, arguments.seed
    run_dir = _run_dir(arguments, seed)
    agent = ActorCritic.from_preset(name, _chosen_recipe(arguments), seed)
    validation = {
        k: default if getattr(arguments, k) is None else getattr(arguments, k)
        for k, default in _validation(name).items()
    }
    if arguments.resume:
        agent.restore(run_dir)
    record = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: _write_origin(arguments, agent, run_dir))
    try:
        agent.fit(
            name.partition("-")[0],
            seed=seed,
            resume=arguments.resume,
            run_dir=run_dir,
            callbacks=[record, BestWeights(run_dir), CurveLogger(run_dir / "curves.csv")],
            verbose=0 if arguments.quiet else 1,
            checkpoint_freq=arguments.checkpoint_freq,
            **validation,
        )
    except TrainingDiverged as error:
        print(f"\nnmn train: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nStopped after update {agent.run.update}; --resume goes on.", file=sys.stderr)
        return 130
    if validation["validation_episodes"]:
        agent.load_weights(run_dir / "best.weights.h5")
    _score(agent, arguments.test_episodes, run_dir / "scores.json")
    return 0


def _validation(name):
    """The benchmark's default options of validation."""
    from nmn_keras import presets

    return presets.VALIDATION[name.partition("-")[0]]


def _write_origin(arguments, agent, run_dir):
    """Note what to type, and at which commit, to have this run again; a resumed run keeps its first note."""
    import keras

    from nmn_keras import presets

    if (run_dir / "origin.json").exists():
        return
    _, defaults = presets.get(arguments.name, agent.recipe.name)
    changed = [
        f"--{field.name.replace('_', '-')} {getattr(agent.recipe, field.name)}"
        for field in dataclasses.fields(defaults)
        if getattr(agent.recipe, field.name) != getattr(defaults, field.name)
    ]
    command = [
        f"KERAS_BACKEND={keras.backend.backend()} nmn train {arguments.name}",
        f"--recipe {agent.recipe.name} --seed {arguments.seed}",
        *changed,
    ]
    for option, default in _validation(arguments.name).items():
        value = getattr(arguments, option)
        if value not in (None, default):
            command.append(f"--{option.replace('_', '-')} {value}")
    run_dir.mkdir(parents=True, exist_ok=True)
    origin = {"command": " ".join(command), "commit": _commit()}
    (run_dir / "origin.json").write_text(json.dumps(origin, indent=1) + "\n")


def _commit():
    """The checkout's commit, marked if files differ from it; "unknown" outside a checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        changes = subprocess.run([*git, "status", "--porcelain", "--", "."], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return f"unknown (version {nmn_keras.__version__})"
    return commit.stdout.strip() + (" with changes" if changes.stdout else "")


# evaluate


def _add_evaluate(commands):
    parser = commands.add_parser(
        "evaluate", help="score an agent on test episodes", description="Score an agent on full test episodes."
    )
    parser.add_argument("agent", help="a zoo name or a run directory (its best-validated weights)")
    parser.add_argument("--episodes", type=_positive, default=1000, help="default: 1000")
    parser.add_argument("--runtime", choices=("keras", "onnx"), default="keras", help="for a zoo agent")
    parser.add_argument("--json", type=Path, help="also write the scores to this file")
    parser.set_defaults(run=_evaluate)


def _evaluate(arguments):
    _score(_open_agent(arguments.agent, arguments.runtime), arguments.episodes, arguments.json)


def _open_agent(name, runtime="keras"):
    """An agent by zoo name, or from a run directory with its best-validated weights."""
    from nmn_keras import checkpoint, zoo

    if checkpoint.exists(name):
        if runtime != "keras":
            raise ValueError(f"A run directory is evaluated with Keras; export it first. Received: runtime={runtime!r}")
        from nmn_keras.actor_critic import ActorCritic

        agent = ActorCritic.load(name)
        best = Path(name) / "best.weights.h5"
        if best.exists():
            agent.load_weights(best)
        return agent
    return zoo.load(name, runtime=runtime)


def _score(agent, episodes, path=None):
    """Evaluate deterministic and sampled actions, print both, and keep them."""
    scores = {
        mode: agent.evaluate(episodes=episodes, deterministic=mode == "deterministic")
        for mode in ("deterministic", "sampled")
    }
    for mode, score in scores.items():
        low, high = score["discounted_return_interval"]
        share = f", {score['share']:.1%} of the optimum" if "share" in score else ""
        print(
            f"{mode:>13}: discounted return {score['discounted_return']:.1f} [{low:.1f}, {high:.1f}]{share}; "
            f"undiscounted {score['return']:.1f}; {episodes} episodes"
        )
    if path is not None:
        Path(path).write_text(json.dumps(scores, indent=1))
    return scores


# export


def _add_export(commands):
    parser = commands.add_parser(
        "export",
        help="write policy.onnx and golden.npz",
        description="Export an agent: one step with explicit state as ONNX, and 200 golden steps.",
    )
    parser.add_argument("agent", help="a zoo name or a run directory (its best-validated weights)")
    parser.add_argument("directory", type=Path, help="where to; must not hold the files yet")
    parser.add_argument("--name", help="name in the metadata; default: the last part of AGENT")
    parser.set_defaults(run=_export)


def _export(arguments):
    from nmn_keras.export import FILES, export_agent

    present = [str(p) for file in FILES if (p := arguments.directory / file).exists()]
    if present:
        raise FileExistsError(f"{present} exist; nothing was written. Give another directory.")
    agent = _open_agent(arguments.agent)
    paths = export_agent(agent, arguments.directory, arguments.name or Path(arguments.agent).name)
    for path in paths.values():
        print(f"{path} ({path.stat().st_size:,} bytes)")


# publish


def _add_publish(commands):
    parser = commands.add_parser(
        "publish",
        help="score the runs of all seeds and write a zoo entry",
        description="Score finished runs on test episodes and publish the best-validated one.",
        epilog="Example: nmn publish b1-nmn runs/b1-nmn-fast-s* runs/b1-nmn-paper-s*",
    )
    parser.add_argument("name", help="the agent's name in the zoo")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument("--zoo", type=Path, help="default: the checkout's zoo, or $NMN_ZOO")
    parser.add_argument("--add", action="store_true", help="keep the seeds that are published and add these")
    parser.add_argument("--episodes", type=_positive, default=1000, help="test episodes; default: 1000")
    parser.set_defaults(run=_publish)


def _publish(arguments):
    from nmn_keras import zoo
    from nmn_keras.publish import publish

    directory = zoo.directory(arguments.zoo)
    publish(arguments.name, arguments.runs, directory, arguments.episodes, arguments.add)
    print((directory / arguments.name / "README.md").read_text())


# zoo


def _add_zoo(commands):
    parser = commands.add_parser(
        "zoo", help="list the published agents", description="List the published agents, or show one's card."
    )
    parser.add_argument("name", nargs="?", help="show this agent's card")
    parser.add_argument("--zoo", type=Path, help="another zoo directory")
    parser.set_defaults(run=_zoo)


def _zoo(arguments):
    from nmn_keras import zoo

    if arguments.name:
        print(zoo.path(arguments.name, "README.md", arguments.zoo).read_text())
        return
    for name in zoo.list_agents(arguments.zoo):
        card = zoo.card(name, arguments.zoo)
        scores = card["scores"][card["served_action"]]
        share = f", {scores['share']:.1%} of the optimum" if "share" in scores else ""
        print(f"{name:12} {card['env_id']:28} discounted return {scores['discounted_return']:.1f}{share}")


if __name__ == "__main__":
    sys.exit(main())
