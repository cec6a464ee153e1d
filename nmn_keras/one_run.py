"""One run of `nmn train`: its agent, its directory, its end, and what it leaves beside its checkpoints."""

import sys
from pathlib import Path

import keras

from nmn_keras import checkpoint, planning, scoring
from nmn_keras.actor_critic import TrainingDiverged
from nmn_keras.callbacks import Origin

VALIDATION = ("validation_episodes", "validation_freq")


def train(arguments):
    """Train one seed, or go on with it; the exit status."""
    alone = arguments.name is None and arguments.resume and arguments.run_dir is not None
    plan = None if alone else planning.plan(arguments)  # alone, the directory knows all there is to know
    seed = arguments.seed or 0
    agent, options, reasons = prepare(arguments, plan, seed, directory(arguments, plan, seed), arguments.resume)
    tell(arguments, reasons)
    status = until_stopped([agent], lambda: agent.fit(plan and plan.env, **options))
    if not status:
        finish(arguments, agent, options)
    return status


def directory(arguments, plan, seed) -> Path:
    """Where a run goes."""
    return arguments.run_dir or Path("runs") / f"{plan.stem}-s{seed}"


def has_ended(arguments, run_dir) -> bool:
    """Whether a run has come to its end, and to the episodes that are asked for now."""
    if not (run_dir / "scores.json").exists():
        return False
    config, state, *_ = checkpoint.read(run_dir)
    episodes = state["update"] * config["recipe"]["episodes_per_update"]
    return state["update"] >= state["updates"] and episodes >= getattr(arguments, "episodes", 0)


def prepare(arguments, plan, seed, run_dir, resume):
    """The agent of one seed, the arguments of `fit` but for the environment, and the lines that say what was chosen."""
    options = {
        "seed": seed,
        "resume": resume,
        "run_dir": run_dir,
        "verbose": 0 if arguments.quiet else 1,
        "checkpoint_freq": arguments.checkpoint_freq,
        "env_kwargs": arguments.env_kwargs,
    }
    if resume:
        agent = planning.resumed(arguments, run_dir)
        options["episodes"] = getattr(arguments, "episodes", None)
        env, env_kwargs = scoring.environment(agent)
        reasons = ()
    else:
        agent = plan.agent(seed)
        env, env_kwargs, reasons = plan.env, plan.env_kwargs, plan.reasons
    defaults, why = planning.validation(env, env_kwargs, agent.recipe)
    if not resume:
        options["callbacks"] = [Origin(run_dir, _command(arguments, plan, seed, defaults))]
    asked = {name: value for name in VALIDATION if (value := getattr(arguments, name)) is not None}
    return agent, {**options, **defaults, **asked}, (*reasons, *(() if asked else why))


def _command(arguments, plan, seed, defaults):
    """What to type to have this run again."""
    command = [f"KERAS_BACKEND={keras.backend.backend()} nmn train", *plan.words(seed)]
    for name, default in defaults.items():
        value = getattr(arguments, name)
        if value not in (None, default):
            command.append(f"--{name.replace('_', '-')} {value}")
    return " ".join(command)


def tell(arguments, reasons):
    """Print the lines that say what was chosen."""
    if not arguments.quiet:
        print(*reasons, sep="\n", end="\n" if reasons else "", flush=True)


def until_stopped(agents, train):
    """Train; the exit status."""
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


def finish(arguments, agent, options):
    """Score the best-validated weights, or the last where none were."""
    best = options["run_dir"] / "best.weights.h5"
    if options["validation_episodes"] or best.exists():
        agent.load_weights(best)
    scores = scoring.score(agent, arguments.test_episodes)
    checkpoint.replace_json(options["run_dir"] / "scores.json", scores)  # its being there says that the run has ended
