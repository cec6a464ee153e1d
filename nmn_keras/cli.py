"""The `nmn` command: train, evaluate, play, export, publish, withdraw, push, reproduce, zoo."""

import argparse
import os
import sys
from pathlib import Path

from nmn_keras import options
from nmn_keras.play_command import add_play
from nmn_keras.reproduce_command import add_reproduce
from nmn_keras.train_command import add_field_options, add_train


def main(argv=None) -> int:
    """Run the command line; gives the exit status: 0 done, 2 bad input, 1 diverged, 130 interrupted."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's notes would tear the progress bar
    argv = options.with_equals(sys.argv[1:] if argv is None else argv)
    if not {"", os.getcwd()} & {*sys.path}:
        sys.path.append("")  # "module:id" may name a module of the current directory, as with `python -m`
    arguments = _parser(argv[:1]).parse_args(argv)
    arguments.argv = argv
    try:
        return arguments.run(arguments) or 0
    except _bad_input() as error:
        print(f"nmn {arguments.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130


def _bad_input():
    """The errors that say what was wrong with the input; looked up when there is one, so that help need not wait."""
    import gymnasium

    return ValueError, OSError, ImportError, gymnasium.error.Error


def _parser(command):
    parser = argparse.ArgumentParser(
        prog="nmn",
        allow_abbrev=False,
        description="Train, evaluate, watch, export and publish neuromodulated recurrent agents; reproduce the paper.",
        epilog="From any Gymnasium id to a server: nmn train Pendulum-v1; nmn play runs/Pendulum-v1-nmn-s0; nmn "
        "publish pendulum runs/Pendulum-v1-nmn-s0 --zoo my-zoo; python -m serve --zoo my-zoo",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    train = add_train(commands)
    if command == ["train"]:  # the fields' options need Keras, for which the other commands' help must not wait
        add_field_options(train)
    for add in (_add_evaluate, add_play, _add_export, _add_publish, _add_withdraw, _add_push, add_reproduce, _add_zoo):
        add(commands)
    return parser


# evaluate


def _add_evaluate(commands):
    parser = commands.add_parser(
        "evaluate", help="score an agent on test episodes", description="Score an agent on full test episodes."
    )
    parser.add_argument("agent", help="a zoo name, hf://user/name or a run directory (its best-validated weights)")
    parser.add_argument("--episodes", type=options.positive, help="default: 1000 on benchmarks, else 100")
    parser.add_argument("--runtime", choices=("keras", "onnx"), default="keras", help="for a zoo agent")
    parser.add_argument("--json", type=Path, help="also write the scores to this file")
    options.add_zoo(parser)
    parser.set_defaults(run=_evaluate)


def _evaluate(arguments):
    from nmn_keras import scoring

    if arguments.json is not None and not arguments.json.absolute().parent.is_dir():
        raise FileNotFoundError(f"There is no folder for --json. Received: {arguments.json}")
    agent = scoring.open_agent(arguments.agent, arguments.runtime, arguments.zoo)
    scoring.score(agent, arguments.episodes, arguments.json)


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
    options.add_zoo(parser)
    parser.set_defaults(run=_export)


def _export(arguments):
    from nmn_keras import scoring
    from nmn_keras.export import FILES, export_agent

    present = [str(p) for file in FILES if (p := arguments.directory / file).exists()]
    if present:
        raise FileExistsError(f"{present} exist; nothing was written. Give another directory.")
    agent = scoring.open_agent(arguments.agent, zoo=arguments.zoo)
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
        epilog="Examples: nmn publish pendulum runs/Pendulum-v1-nmn-s* --zoo my-zoo; nmn publish b1-nmn "
        "runs/b1-nmn-fast-s* runs/b1-nmn-paper-s*",
    )
    parser.add_argument("name", help="the agent's name in the zoo")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument("--zoo", type=Path, help="made if missing; default: the checkout's zoo, or $NMN_ZOO")
    parser.add_argument("--add", action="store_true", help="keep the seeds that are published and add these")
    parser.add_argument("--episodes", type=options.positive, default=1000, help="test episodes; default: 1000")
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
    settings = {"private": arguments.private, "revision": arguments.revision, "message": arguments.message}
    print(zoo.push(arguments.address, name, directory, **settings))


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
        score = f"return {scores['return']:.1f}"
        if "share" in scores:
            score = f"discounted return {scores['discounted_return']:.1f}, {scores['share']:.1%} of the optimum"
        print(f"{name:12} {card['env_id']:28} {score}")


if __name__ == "__main__":
    sys.exit(main())
