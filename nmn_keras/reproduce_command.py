"""The `nmn reproduce` command: the paper's figures and tables, from scratch or from what is stored."""

import json
import sys
from pathlib import Path

from nmn_keras.analysis import page
from nmn_keras.analysis.experiment import BENCHES, NAMES, Options, load
from nmn_keras.checkpoint import replace_text
from nmn_keras.options import add_ray, positive, span

ALL = "all"
_FRESH = Path("reproduced")
_DOCS = Path("docs")
_TRAINING_ONLY = ("seeds", "recipe", "test_episodes", "jobs", "ray", "resume")
_SCRATCH_ONLY = ("bench", "episodes", *_TRAINING_ONLY)


def add_reproduce(commands):
    """Add the command."""
    parser = commands.add_parser(
        "reproduce",
        allow_abbrev=False,
        help="make the paper's figures and tables",
        description="Measure the paper's claims: train, play, and write figures and a page of tables. "
        "--from-curves makes them of what is stored instead: the zoo's curves and scores, and docs/results/data.",
        epilog="Example: nmn reproduce learning --bench b1 --seeds 2 --episodes 2000",
    )
    parser.add_argument("figure", choices=(*NAMES, ALL), metavar="FIGURE", help=f"{', '.join(NAMES)}, or {ALL}")
    parser.add_argument("--from-curves", action="store_true", help="train and play nothing, draw what is stored")
    parser.add_argument("--bench", nargs="+", choices=BENCHES, metavar="BENCH", help="b1, b2, b3; default: all three")
    parser.add_argument(
        "--seeds", type=_seeds, metavar="N or A:B", help="train seeds 0 to N-1, or A to B-1; default: 15"
    )
    parser.add_argument("--episodes", type=positive, metavar="N", help="train, or play, so many; default: as published")
    parser.add_argument("--recipe", choices=("fast", "paper"), help="to train with; default: fast")
    parser.add_argument("--test-episodes", type=positive, metavar="N", help="to score what was trained; default: 1000")
    parser.add_argument("--jobs", type=positive, help="processes at a time; default: one per core")
    add_ray(parser)
    parser.add_argument("--resume", action="store_true", help="go on with the runs in the output directory")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="where to; default: docs for all --from-curves, reproduced else"
    )
    parser.add_argument("--zoo", type=Path, help="another zoo directory")
    parser.set_defaults(run=_reproduce)


def _seeds(text):
    """Seeds "N" or "A:B", for argparse."""
    return span(text) if ":" in text else range(positive(text))


def _reproduce(arguments):
    names = NAMES if arguments.figure == ALL else (arguments.figure,)
    _check(arguments, names)
    whole = arguments.figure == ALL
    output = arguments.output or (_DOCS if whole and arguments.from_curves else _FRESH)
    options = Options(
        benches=tuple(sorted(set(arguments.bench or BENCHES))),
        seeds=arguments.seeds,
        episodes=arguments.episodes,
        recipe=arguments.recipe,
        test_episodes=arguments.test_episodes,
        jobs=arguments.jobs,
        ray=arguments.ray,
        resume=arguments.resume,
        directory=output,
        zoo=arguments.zoo,
        report=_say,
    )
    if arguments.from_curves:
        return _write(names, {name: page.read_data(name, options) for name in names}, output, whole)
    return _from_scratch(names, options, whole)


def _check(arguments, names):
    """Refuse options that would be ignored."""
    given = {name for name in _SCRATCH_ONLY if getattr(arguments, name) not in (None, False)}
    if arguments.from_curves and given:
        raise ValueError(
            "`--from-curves` shows what is stored, all of it; --output and --zoo are accepted with it. "
            f"Received: {_words(given)}"
        )
    trained = [name for name in names if hasattr(load(name), "stored")]
    foreign = given & {*_TRAINING_ONLY}
    if foreign and not trained:
        raise ValueError(
            f"`{names[0]}` trains nothing, it plays agents of the zoo; --bench, --episodes, --output and --zoo are "
            f"accepted with it. Received: {_words(foreign)}"
        )


def _words(names):
    return ", ".join(f"--{name.replace('_', '-')}" for name in sorted(names))


def _from_scratch(names, options, whole):
    """Measure each experiment, then write; the measured data are kept at once."""
    from nmn_keras.analysis.training import TrainingFailed

    found = {}
    try:
        for name in names:
            _say(f"{name}: measuring")
            path, found[name] = page.write_data(name, load(name).measure(options), options.directory)
            _say(str(path))
    except TrainingFailed as error:
        print(f"nmn reproduce: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; what has been trained is saved, --resume goes on.", file=sys.stderr)
        return 130
    return _write(names, found, options.directory, whole)


def _write(names, found, output, whole):
    """Write figures and the page, and end with the page and where it is."""
    lacking = [name for name in names if found[name] is None]
    if lacking and not whole:
        raise ValueError(
            f"Nothing is stored of {lacking[0]!r}; leave out --from-curves to measure it. Received: {lacking[0]}"
        )
    output.mkdir(parents=True, exist_ok=True)
    for name in names:
        if found[name] is not None:
            for path in page.write_figures(name, found[name], output):
                _say(str(path))
    if whole:
        path, text = output / page.WHOLE, page.whole_page(found)
        replace_text(output / "results" / "drawn-with.json", json.dumps(page.drawn_with(), indent=1) + "\n")
    else:
        path, text = output / f"{names[0]}.md", load(names[0]).section(found[names[0]]) + "\n"
    replace_text(path, text)
    print(f"\n{text}\n{path}" if not whole else path, flush=True)
    return 0


def _say(line):
    print(line, flush=True)
