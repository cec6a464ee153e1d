"""The `nmn train` command: its options."""

import argparse
from pathlib import Path

from nmn_keras import options

_KINDS = ("nmn", "rnn", "film", "hyper")  # as `architecture.KINDS`, whose import needs Keras


def add_train(commands):
    """Add the command; an option for each field only comes with `add_field_options`."""
    parser = commands.add_parser(
        "train",
        allow_abbrev=False,
        formatter_class=options.Help,
        help="train an agent on any Gymnasium environment, or one of the paper's",
        description="Train an agent on a Gymnasium environment, with defaults that follow from it, or a preset: one "
        "of the paper's networks on its benchmark. Validate it while it trains, and score it on test episodes in the "
        "end. KERAS_BACKEND=jax is the fast backend.",
        epilog="Examples: KERAS_BACKEND=jax nmn train Pendulum-v1; nmn train CartPole-v1 --kind rnn --seeds 0:5; nmn "
        "train b1-nmn --recipe paper; nmn train --resume --run-dir runs/Pendulum-v1-nmn-s0.",
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help='a Gymnasium id, "module:id" for one that a module registers, b1, b2 or b3; or a preset: benchmark, kind '
        "of network and variant, such as b1-nmn-sigmoid; not needed with --resume and --run-dir",
    )
    parser.add_argument("--kind", choices=_KINDS, help="of network, for an environment; default: nmn")
    options.add_env_kwargs(parser)
    parser.add_argument("--recipe", choices=("fast", "paper"), help="default: fast")
    parser.add_argument("--seed", type=int, help="of weights and of everything drawn; default: 0")
    parser.add_argument("--seeds", type=options.span, metavar="A:B", help="train seeds A to B-1 instead")
    parser.add_argument(
        "--jobs", type=options.positive, help="with --seeds: processes at a time; default: one per core"
    )
    parser.add_argument(
        "--together",
        action=argparse.BooleanOptionalAction,
        help="with --seeds: all in one process and one compiled program (JAX), on this project's environments; "
        "default: if JAX sees a GPU or TPU",
    )
    options.add_ray(parser)
    parser.add_argument("--run-dir", type=Path, help="default: runs/ENV-KIND-sSEED, of a preset runs/NAME-RECIPE-sSEED")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run in the run directory; with more --episodes, longer"
    )
    _add_validation(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress bar, no word of what was chosen")
    parser.set_defaults(run=_train)
    return parser


def _add_validation(parser):
    for option, text, defaults in (
        (
            "--validation-episodes",
            "full episodes that choose the best weights, 0 = none",
            "500 on b1, 100 on b2 and b3, elsewhere 10 to 100, a tenth of the steps trained on",
        ),
        (
            "--validation-freq",
            "updates from one validation to the next",
            "10 on b1, 20 on b2 and b3, elsewhere 1 to 10",
        ),
    ):
        parser.add_argument(option, type=int, metavar="N", help=f"{text}; default: {defaults}")
    parser.add_argument("--checkpoint-freq", type=int, default=10, help="updates between two; default: 10")
    parser.add_argument(
        "--test-episodes", type=options.positive, help="for the final score; default: 1000 on benchmarks, else 100"
    )


def add_field_options(parser):
    """Add an option for each field of the architecture and of each recipe, and the names of the presets."""
    from nmn_keras import field_options, presets, recipes
    from nmn_keras.architecture import Architecture

    field_options.add_fields(
        parser,
        "network (what follows from the environment or the preset need not be given)",
        Architecture,
        lambda field: "that of the environment, kind or preset",
        skip=("kind",),
    )
    for name in sorted(recipes.RECIPES):
        field_options.add_fields(
            parser, f"with --recipe {name}", recipes.RECIPES[name], lambda field: field_options.written(field.default)
        )
    parser.epilog += f" Presets: {', '.join(sorted(presets.ARCHITECTURES))}."
    for name in sorted(recipes.RECIPES):
        settings = presets.recipe_settings(name).items()
        changed = [
            f"{bench}: {', '.join(f'{k} {v}' for k, v in fields.items())}" for bench, fields in settings if fields
        ]
        parser.epilog += f" Other defaults of the {name} recipe with presets on {'; '.join(changed)}."
    parser.epilog += " With an environment some follow from it; the first lines of a run say which."


def _train(arguments):
    from nmn_keras import one_run, several_runs

    several = arguments.seeds is not None or arguments.ray is not None
    return (several_runs if several else one_run).train(arguments)
