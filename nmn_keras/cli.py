"""The `nmn` command: train, evaluate, export, publish, withdraw, push, reproduce, zoo."""

import argparse
import os
import sys
from pathlib import Path

from nmn_keras.reproduce_command import add_reproduce
from nmn_keras.train_command import add_recipe_options, add_train, positive, score


def main(argv=None) -> int:
    """Run the command line; gives the exit status: 0 done, 2 bad input, 1 diverged, 130 interrupted."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's notes would tear the progress bar
    argv = sys.argv[1:] if argv is None else argv
    arguments = _parser(argv[:1]).parse_args(argv)
    arguments.argv = argv
    try:
        return arguments.run(arguments) or 0
    except (ValueError, OSError, ImportError) as error:
        print(f"nmn {arguments.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130


def _parser(command):
    parser = argparse.ArgumentParser(
        prog="nmn",
        allow_abbrev=False,
        description="Train, evaluate, export and publish neuromodulated recurrent agents; reproduce the paper.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    train = add_train(commands)
    if command == ["train"]:  # the recipes' options need Keras, for which the other commands' help must not wait
        add_recipe_options(train)
    for add in (_add_evaluate, _add_export, _add_publish, _add_withdraw, _add_push, add_reproduce, _add_zoo):
        add(commands)
    return parser


# evaluate


def _add_evaluate(commands):
    parser = commands.add_parser(
        "evaluate", help="score an agent on test episodes", description="Score an agent on full test episodes."
    )
    parser.add_argument("agent", help="a zoo name, hf://user/name or a run directory (its best-validated weights)")
    parser.add_argument("--episodes", type=positive, default=1000, help="default: 1000")
    parser.add_argument("--runtime", choices=("keras", "onnx"), default="keras", help="for a zoo agent")
    parser.add_argument("--json", type=Path, help="also write the scores to this file")
    parser.set_defaults(run=_evaluate)


def _evaluate(arguments):
    if arguments.json is not None and not arguments.json.absolute().parent.is_dir():
        raise FileNotFoundError(f"There is no folder for --json. Received: {arguments.json}")
    score(_open_agent(arguments.agent, arguments.runtime), arguments.episodes, arguments.json)


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
    name = arguments.name or Path(arguments.agent).name or Path(arguments.agent).resolve().name
    paths = export_agent(agent, arguments.directory, name)
    for path in paths.values():
        print(f"{path} ({path.stat().st_size:,} bytes)")


# publish


def _add_publish(commands):
    parser = commands.add_parser(
        "publish",
        help="score the runs of all seeds and write a zoo entry",
        description="Score finished runs of `nmn train` or ActorCritic.fit on test episodes and publish the "
        "best-validated one.",
        epilog="Example: nmn publish b1-nmn runs/b1-nmn-fast-s* runs/b1-nmn-paper-s*",
    )
    parser.add_argument("name", help="the agent's name in the zoo")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument("--zoo", type=Path, help="made if missing; default: the checkout's zoo, or $NMN_ZOO")
    parser.add_argument("--add", action="store_true", help="keep the seeds that are published and add these")
    parser.add_argument("--episodes", type=positive, default=1000, help="test episodes; default: 1000")
    parser.set_defaults(run=_publish)


def _publish(arguments):
    from nmn_keras.publish import publish

    directory = _zoo_directory(arguments)
    publish(arguments.name, arguments.runs, directory, arguments.episodes, arguments.add)
    print((directory / arguments.name / "README.md").read_text())


def _zoo_directory(arguments):
    """The directory to write to."""
    from nmn_keras import hub, zoo

    if arguments.zoo is None and hub.is_address(os.environ.get(zoo.ENVIRONMENT_VARIABLE)):
        raise ValueError(
            "Agents are published in a directory: give one as --zoo; `nmn push` sends what is published to the Hub. "
            f"Received: {zoo.ENVIRONMENT_VARIABLE}={os.environ[zoo.ENVIRONMENT_VARIABLE]}"
        )
    return arguments.zoo or zoo.directory()


# withdraw


def _add_withdraw(commands):
    parser = commands.add_parser(
        "withdraw",
        help="take the runs of one recipe out of a zoo entry",
        description="Take the scores and curves of one recipe's runs out of a zoo entry. The published weights stay.",
        epilog="Example: nmn withdraw b2-nmn --recipe paper",
    )
    parser.add_argument("name", help="the agent's name in the zoo")
    parser.add_argument("--recipe", required=True, choices=("fast", "paper"), help="whose runs")
    parser.add_argument("--zoo", type=Path, help="default: the checkout's zoo, or $NMN_ZOO")
    parser.set_defaults(run=_withdraw)


def _withdraw(arguments):
    from nmn_keras.publish import withdraw

    scores = withdraw(arguments.name, arguments.recipe, _zoo_directory(arguments))
    print(f"{arguments.name}: {len(scores['seeds'])} runs are left")


# push


def _add_push(commands):
    parser = commands.add_parser(
        "push",
        help="send a published agent to the Hugging Face Hub",
        description="Send a published agent to the Hugging Face Hub, as one commit. The token is that of HF_TOKEN or "
        "of `hf auth login`. A repository or branch that is missing is made.",
        epilog="Example: nmn push hf://ann/b1-nmn b1-nmn",
    )
    parser.add_argument("address", help="where to: hf://user/name or hf://user/name@branch")
    parser.add_argument("agent", help="a zoo name, or an agent's directory in a zoo: zoo/b1-nmn")
    parser.add_argument("--zoo", type=Path, help="another zoo directory, for a name")
    parser.add_argument("--private", action="store_true", help="make the repository private")
    parser.add_argument("--revision", metavar="BRANCH", help="branch to commit to; default: main")
    parser.add_argument("--message", help="of the commit; default: Agent NAME")
    parser.set_defaults(run=_push)


def _push(arguments):
    from nmn_keras import zoo

    name, directory = arguments.agent, arguments.zoo
    if os.sep in name:
        if directory is not None:
            raise ValueError(
                f"A directory needs no --zoo. Accepted is one of both. Received: {name}, --zoo {directory}"
            )
        name, directory = Path(name).name, Path(name).parent
    options = {"private": arguments.private, "revision": arguments.revision, "message": arguments.message}
    print(zoo.push(arguments.address, name, directory, **options))


# zoo


def _add_zoo(commands):
    parser = commands.add_parser(
        "zoo", help="list the published agents", description="List the published agents, or show one's card."
    )
    parser.add_argument("name", nargs="?", help="show this agent's card; hf://user/name for one on the Hub")
    parser.add_argument("--zoo", type=Path, help="another zoo directory")
    parser.set_defaults(run=_zoo)


def _zoo(arguments):
    from nmn_keras import hub, zoo

    if hub.is_address(arguments.name):
        print(hub.read_card(arguments.name))
        return
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
