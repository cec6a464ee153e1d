"""The `nmn train` command: its options, one seed, several seeds, and what a run leaves beside its checkpoints."""

import argparse
import ast
import dataclasses
import inspect
import itertools
import json
import sys
import textwrap
import typing
from pathlib import Path

from nmn_keras import checkpoint


class _Help(argparse.HelpFormatter):
    """Help that does not break names at their hyphens."""

    def _fill_text(self, text, width, indent):
        lines = textwrap.wrap(" ".join(text.split()), width - len(indent), break_on_hyphens=False)
        return textwrap.indent("\n".join(lines), indent)


def add_train(commands):
    """Add the command; the recipes' options only come with `add_recipe_options`."""
    parser = commands.add_parser(
        "train",
        allow_abbrev=False,
        formatter_class=_Help,
        help="train an agent of the zoo's architectures",
        description="Train an agent and score it against the optimum. KERAS_BACKEND=jax is the fast backend.",
        epilog="Example: KERAS_BACKEND=jax nmn train b1-nmn --recipe fast --seed 0.",
    )
    parser.add_argument("name", help="preset: benchmark, kind of network and variant, such as b1-nmn-sigmoid")
    parser.add_argument("--recipe", default="fast", choices=("fast", "paper"), help="default: fast")
    parser.add_argument("--seed", type=int, default=0, help="of weights and of everything drawn; default: 0")
    parser.add_argument("--seeds", type=span, metavar="A:B", help="train seeds A to B-1 instead")
    parser.add_argument("--jobs", type=positive, help="with --seeds: processes at a time; default: one per core")
    parser.add_argument(
        "--together",
        action=argparse.BooleanOptionalAction,
        help="with --seeds: all in one process and one compiled program (JAX); default: if JAX sees a GPU or TPU",
    )
    add_ray(parser)
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
    parser.add_argument("--test-episodes", type=positive, default=1000, help="for the final score; default: 1000")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=_train)
    return parser


def add_recipe_options(parser):
    """Add an option for each field of each recipe, and the names of the presets."""
    from nmn_keras import presets, recipes

    for name in sorted(recipes.RECIPES):
        _add_fields(parser, recipes.RECIPES[name])
    parser.epilog += f" Presets: {', '.join(sorted(presets.ARCHITECTURES))}."
    for name in sorted(recipes.RECIPES):
        settings = presets.recipe_settings(name).items()
        changed = [
            f"{bench}: {', '.join(f'{k} {v}' for k, v in fields.items())}" for bench, fields in settings if fields
        ]
        parser.epilog += f" Other defaults of the {name} recipe on {'; '.join(changed)}."


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


def positive(text):
    """A positive integer, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer. Received: {text!r}")
    return int(text)


def span(text):
    """A range "A:B" of seeds, for argparse."""
    first, colon, end = text.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise argparse.ArgumentTypeError(f"must be A:B with A < B, such as 0:5. Received: {text!r}")
    return range(int(first), int(end))


def add_ray(parser):
    """Add the option that sends runs to a cluster: None without it, "" without an address."""
    parser.add_argument(
        "--ray",
        type=_address,
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="train on the Ray cluster at HOST:PORT, ray://HOST:PORT, auto or local (a new one); without an address "
        "that of RAY_ADDRESS, or one on this machine; the current directory must be on a path that all nodes share",
    )


def _address(text):
    """An address of a Ray cluster, for argparse, which would take a name that follows for one."""
    if text not in ("", "auto", "local") and ":" not in text:
        raise argparse.ArgumentTypeError(f"must be HOST:PORT, ray://HOST:PORT, auto or local. Received: {text!r}")
    return text


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
    if arguments.seeds is None and arguments.ray is None:
        return _train_seed(arguments)
    return _train_seeds(arguments)


def _train_seeds(arguments):
    """Train several seeds; those that have ended are left as they are."""
    from nmn_keras import cluster

    if arguments.seeds is not None and (arguments.run_dir is not None or arguments.seed):
        raise ValueError("`--seeds` gives each run its seed and directory: leave out --seed and --run-dir.")
    if arguments.ray is not None and arguments.together:
        raise ValueError("`--together` is one process, `--ray` has one for each seed: leave out one of them.")
    run_jobs = cluster.runner(arguments.ray, arguments.jobs)
    _chosen_recipe(arguments)  # a bad option is refused here, not in each log
    seeds = []
    for seed in arguments.seeds or [arguments.seed]:
        run_dir = _run_dir(arguments, seed)
        if arguments.resume and (run_dir / "scores.json").exists():
            print(f"{run_dir}: has ended")
            continue
        if not arguments.resume:
            checkpoint.refuse_existing(run_dir)
        seeds.append(seed)
    if not seeds:
        return 0
    together = arguments.together
    if together is None:
        together = not arguments.jobs and arguments.ray is None and _has_accelerator()
    return _train_together(arguments, seeds) if together else _train_as_jobs(arguments, seeds, run_jobs)


def _has_accelerator():
    """Whether JAX is Keras's backend and computes on something else than a CPU."""
    import keras

    if keras.backend.backend() != "jax":
        return False
    import jax

    return jax.default_backend() != "cpu"


def _train_as_jobs(arguments, seeds, run_jobs):
    """Train each seed with this command in a process of its own."""
    import keras

    from nmn_keras.sweep import Job

    jobs = []
    for seed in seeds:
        run_dir = _run_dir(arguments, seed)
        command = [sys.executable, "-m", "nmn_keras.cli", *_words_of_one(arguments.argv), "--quiet"]
        command += ["--seed", str(seed), "--run-dir", str(run_dir.absolute())]
        backend = {"KERAS_BACKEND": keras.backend.backend()}  # which Keras's own file may have chosen
        jobs.append(Job(str(run_dir), command, run_dir.with_name(run_dir.name + ".log"), backend, run_dir))
    statuses = run_jobs(jobs, report=lambda line: print(line, flush=True))
    return max(map(abs, statuses.values()), default=0)


def _train_together(arguments, seeds):
    """Train all seeds in one compiled program; the progress bar is the first one's."""
    import keras

    if arguments.jobs:
        raise ValueError("`--together` is one process: leave out --jobs.")
    if keras.backend.backend() != "jax":
        raise ValueError(
            "`--together` needs JAX: set KERAS_BACKEND=jax, or leave it out to train each seed in a process of its "
            f"own. Received: {keras.backend.backend()!r}"
        )
    from nmn_keras import lockstep

    runs = []
    for seed in seeds:
        resume = arguments.resume and checkpoint.exists(_run_dir(arguments, seed))
        runs.append(_prepare(argparse.Namespace(**{**vars(arguments), "seed": seed, "resume": resume})))
    agents = [agent for agent, _ in runs]
    options = [{**chosen, "verbose": chosen["verbose"] if i == 0 else 0} for i, (_, chosen) in enumerate(runs)]
    status = _until_stopped(agents, lambda: lockstep.fit(agents, arguments.name.partition("-")[0], options))
    if not status:
        for agent, chosen in runs:
            print(chosen["run_dir"])
            _finish(arguments, agent, chosen)
    return status


def _words_of_one(argv):
    """The words of this command but for the options that say how many processes there are, and where."""
    left, words = list(argv), []
    while left:
        word = left.pop(0)
        name, equals, _ = word.partition("=")
        if name in ("--seeds", "--jobs") and not equals:
            left.pop(0)
        elif name == "--ray" and not equals and left and not left[0].startswith("-"):
            left.pop(0)
        elif name not in ("--seeds", "--jobs", "--ray", "--together", "--no-together", "--resume"):
            words.append(word)
    return words


def _run_dir(arguments, seed):
    return arguments.run_dir or Path("runs") / f"{arguments.name}-{arguments.recipe}-s{seed}"


def _train_seed(arguments):
    agent, options = _prepare(arguments)
    status = _until_stopped([agent], lambda: agent.fit(arguments.name.partition("-")[0], **options))
    if not status:
        _finish(arguments, agent, options)
    return status


def _prepare(arguments):
    """The agent of one seed, and the arguments of `fit`."""
    from nmn_keras.actor_critic import ActorCritic
    from nmn_keras.callbacks import Origin

    name, seed = arguments.name, arguments.seed
    run_dir = _run_dir(arguments, seed)
    agent = ActorCritic.from_preset(name, _chosen_recipe(arguments), seed)
    validation = {
        k: default if getattr(arguments, k) is None else getattr(arguments, k)
        for k, default in _validation(name).items()
    }
    if arguments.resume:
        agent.restore(run_dir)
    return agent, {
        "episodes": agent.recipe.episodes,
        "seed": seed,
        "resume": arguments.resume,
        "run_dir": run_dir,
        "callbacks": [Origin(run_dir, _command(arguments, agent))],
        "verbose": 0 if arguments.quiet else 1,
        "checkpoint_freq": arguments.checkpoint_freq,
        **validation,
    }


def _until_stopped(agents, train):
    """Train; the exit status."""
    from nmn_keras.actor_critic import TrainingDiverged

    try:
        train()
    except TrainingDiverged as error:
        print(f"\nnmn train: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        updates = ", ".join(str(agent.run.update) for agent in agents)
        print(f"\nStopped after update {updates}; --resume goes on.", file=sys.stderr)
        return 130
    return 0


def _finish(arguments, agent, options):
    """Score the best-validated weights, or the last where none were."""
    if options["validation_episodes"]:
        agent.load_weights(options["run_dir"] / "best.weights.h5")
    scores = score(agent, arguments.test_episodes)
    checkpoint.replace_json(options["run_dir"] / "scores.json", scores)  # its being there says that the run has ended


def _validation(name):
    """The benchmark's default options of validation."""
    from nmn_keras import presets

    return presets.VALIDATION[name.partition("-")[0]]


def _command(arguments, agent):
    """What to type to have this run again."""
    import keras

    from nmn_keras import presets

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
    return " ".join(command)


def score(agent, episodes, path=None):
    """Evaluate deterministic and sampled actions, print both, and keep them."""
    scores = {
        mode: agent.evaluate(episodes=episodes, deterministic=mode == "deterministic")
        for mode in ("deterministic", "sampled")
    }
    for mode, score in scores.items():
        interval = "[{:.1f}, {:.1f}]".format(*score["discounted_return_interval"]) if episodes > 1 else "(no interval)"
        share = f", {score['share']:.1%} of the optimum" if "share" in score else ""
        print(
            f"{mode:>13}: discounted return {score['discounted_return']:.1f} {interval}{share}; "
            f"undiscounted {score['return']:.1f}; {episodes} episode{'s' if episodes > 1 else ''}"
        )
    if path is not None:
        Path(path).write_text(json.dumps(scores, indent=1))
    return scores
