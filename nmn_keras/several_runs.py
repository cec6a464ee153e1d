"""Several seeds of `nmn train`: a process each, here or on a cluster, or one compiled program."""

import sys

import keras

from nmn_keras import checkpoint, cluster, one_run, planning
from nmn_keras.sweep import Job


def train(arguments):
    """Train several seeds; those that have ended are left as they are."""
    if arguments.seeds is not None and (arguments.run_dir is not None or arguments.seed is not None):
        raise ValueError("`--seeds` gives each run its seed and directory: leave out --seed and --run-dir.")
    if arguments.ray is not None and arguments.together:
        raise ValueError("`--together` is one process, `--ray` has one for each seed: leave out one of them.")
    run_jobs = cluster.runner(arguments.ray, arguments.jobs)
    plan = planning.plan(arguments)  # a bad option is refused here, not in each log
    together = _are_together(arguments, plan)
    runs = {}
    for seed in arguments.seeds or [arguments.seed or 0]:
        run_dir = one_run.directory(arguments, plan, seed)
        if arguments.resume and one_run.has_ended(arguments, run_dir):
            print(f"{run_dir}: has ended")
            continue
        if not arguments.resume:
            checkpoint.refuse_existing(run_dir)
        runs[seed] = run_dir
    if not runs:
        return 0
    return _train_together(arguments, plan, runs) if together else _train_as_jobs(arguments, plan, runs, run_jobs)


def _are_together(arguments, plan):
    """Whether all seeds are one program: if asked for, else where it pays and is possible."""
    if arguments.together is False or (arguments.together is None and not _could_be_together(arguments)):
        return False
    if arguments.jobs:
        raise ValueError("`--together` is one process: leave out --jobs.")
    if keras.backend.backend() != "jax":
        raise ValueError(
            "`--together` needs JAX: set KERAS_BACKEND=jax, or leave it out to train each seed in a process of its "
            f"own. Received: {keras.backend.backend()!r}"
        )
    from nmn_keras import lockstep

    try:
        lockstep.check_env(plan.env, plan.recipe.rollout_steps, plan.env_kwargs)
    except ValueError as error:
        if arguments.together:
            raise ValueError(f"`--together` is not accepted here. {error}") from error
        return False
    return True


def _could_be_together(arguments):
    """Whether nothing speaks against it, and JAX is Keras's backend and computes on something else than a CPU."""
    if arguments.jobs or arguments.ray is not None or keras.backend.backend() != "jax":
        return False
    import jax

    return jax.default_backend() != "cpu"


def _train_as_jobs(arguments, plan, runs, run_jobs):
    """Train each seed with this command in a process of its own."""
    _, why = planning.validation(plan.env, plan.env_kwargs, plan.recipe)
    one_run.tell(arguments, (*plan.reasons, *why))  # the processes are quiet
    backend = {"KERAS_BACKEND": keras.backend.backend()}  # which Keras's own file may have chosen
    jobs = []
    for seed, run_dir in runs.items():
        command = [sys.executable, "-m", "nmn_keras.cli", *_words_of_one(arguments.argv), "--quiet"]
        command += ["--seed", str(seed), "--run-dir", str(run_dir.absolute())]
        jobs.append(Job(str(run_dir), command, run_dir.with_name(run_dir.name + ".log"), backend, run_dir))
    statuses = run_jobs(jobs, report=lambda line: print(line, flush=True))
    return max(map(abs, statuses.values()), default=0)


def _train_together(arguments, plan, runs):
    """Train all seeds in one compiled program; the progress bar is the first one's."""
    from nmn_keras import lockstep

    prepared = []
    for seed, run_dir in runs.items():
        resume = arguments.resume and checkpoint.exists(run_dir)
        prepared.append(one_run.prepare(arguments, plan, seed, run_dir, resume))
    one_run.tell(arguments, prepared[0][2])
    agents = [agent for agent, *_ in prepared]
    options = [{**chosen, "verbose": chosen["verbose"] if i == 0 else 0} for i, (_, chosen, _) in enumerate(prepared)]
    status = one_run.until_stopped(agents, lambda: lockstep.fit(agents, plan.env, options))
    if not status:
        for agent, chosen, _ in prepared:
            print(chosen["run_dir"])
            one_run.finish(arguments, agent, chosen)
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
