"""Writes what experiments give: figures, measured data, and the page that shows them."""

import importlib.metadata
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from nmn_keras.analysis import experiment
from nmn_keras.analysis.experiment import BENCHES, STORED, Data, Options
from nmn_keras.analysis.markdown import claims, table
from nmn_keras.analysis.themes import THEMES
from nmn_keras.checkpoint import replace_text

WHOLE = "RESULTS.md"

HEAD = """# Results

Every claim of the paper beside what we measured. `nmn reproduce all --from-curves` makes this page and its figures of
what is stored, byte for byte: curves and scores of the zoo (`zoo/*/curves.csv`, `zoo/*/scores.json`) and what was
measured on its agents (`docs/results/data/`). Nothing here is written by hand. `nmn reproduce NAME` measures one part
from scratch: {names}.

The unit is a training run, a seed. The interquartile mean is the mean without the lowest and the highest quarter of the
seeds; intervals are 95 % percentile bootstraps, seeds drawn again with replacement, as in rliable (Agarwal et al.
2021); with five seeds they are narrower than they should be. A claim *holds* or *does not hold* where the interval
excludes that there is no difference and a test does too, two-sided, 5 %: of a probability P the exact rank test
(Mann-Whitney; of five seeds against five the interval alone would exclude it in 9.5 % of the cases without a
difference), of a ratio of spreads Brown and Forsythe's, where losses are compared Welch's t test. Else *no difference
shown*; *not contradicted*: the claim is that there is none, or a number that the interval contains; *too few seeds*:
fewer than five. Adaptation and freezing are of one agent each and have the yardsticks that they name."""


def read_data(name: str, options: Options) -> Data | None:
    """Give what is stored of an experiment, or None where nothing is.

    Args:
        name: of the experiment.
        options: which zoo, for those on learning curves.
    """
    module = experiment.load(name)
    if stored := getattr(module, "stored", None):
        return stored(options)
    path = STORED / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def write_data(name: str, data: Data, output: Path) -> tuple[Path, Data]:
    """Keep what was measured, so that figures can be drawn again.

    Args:
        name: of the experiment.
        data: what `measure` gave.
        output: where results go.

    Returns:
        The path, and the data that it holds: those of an experiment that keeps its benchmarks apart hold what was
        measured there before on others.
    """
    path = output / "results" / "data" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and data.keys() < {*BENCHES}:
        data = dict(sorted({**json.loads(path.read_text()), **data}.items()))
    replace_text(path, json.dumps(data, indent=1, allow_nan=False) + "\n")
    return path, data


def write_figures(name: str, data: Data, output: Path) -> Iterator[Path]:
    """Draw an experiment's figures, light and dark, one at a time.

    Yields:
        The path of each.
    """
    from nmn_keras.analysis import plots

    directory = output / "results"
    directory.mkdir(parents=True, exist_ok=True)
    for stem, draw in experiment.load(name).figures(data).items():
        for theme in THEMES:
            path = directory / f"{stem}-{theme.name}.png"
            path.write_bytes(plots.png(draw(theme)))
            yield path


def whole_page(found: Mapping[str, Data | None]) -> str:
    """Give the page of all experiments, in their order; those without data are named.

    Args:
        found: data by name.
    """
    names = ", ".join(f"`{name}`" for name in found)
    sections = [
        not_measured(name) if data is None else experiment.load(name).section(data) for name, data in found.items()
    ]
    return "\n\n".join([HEAD.format(names=names), *_at_a_glance(sections), *sections]) + "\n"


def _at_a_glance(sections):
    rows = [
        (f"[{heading}](#{re.sub(r'[^a-z0-9 -]', '', heading.lower()).replace(' ', '-')})", words, verdict)
        for section in sections
        for heading, words, verdict in claims(section)
    ]
    if rows:
        yield "## At a glance"
        yield "The verdicts of all sections, by `nmn reproduce all --from-curves`; the sections say what was measured."
        yield table(("where", "the paper says", "verdict"), rows)


def not_measured(name: str) -> str:
    """Give the section of an experiment without data."""
    return f"## {name.capitalize()}\n\nNot measured yet: `nmn reproduce {name}`."


def drawn_with() -> dict[str, str]:
    """Give what figures depend on beside the data: they are the same bytes where these are the same."""
    return {name: importlib.metadata.version(name) for name in ("matplotlib", "pillow", "numpy")}
