"""What an experiment is: a module of this package with three functions over plain data.

    measure(options) -> data      from scratch: trains or plays, and gives a dict that JSON can hold
    figures(data) -> drawings     `{file stem: draw}`, where `draw(theme)` gives a matplotlib `Figure`
    section(data) -> text         its part of docs/RESULTS.md: the heading "## ...", a table of claims (the paper's
                                  words, what we measured, whether it holds, why), figures with captions, the command

`data` is all that figures and text are made of, so that they can be rebuilt byte for byte. Where it is kept:

- Experiments on learning curves have a fourth function, `stored(options) -> data`, which reads `zoo/*/curves.csv` and
  `zoo/*/scores.json`.
- Data of all others lie in `docs/results/data/NAME.json`, where `nmn reproduce NAME` writes what `measure` gave; they
  are rounded to the digits that matter.

A figure is named for its experiment ("adaptation-b1"); it is drawn twice, for a light and a dark page (`themes.py`),
and shown in the text by `picture` (`markdown.py`). Matplotlib is imported where figures are drawn and nowhere else.
"""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from nmn_keras.analysis.themes import Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Data = dict[str, Any]
"""What an experiment measured, ready for JSON."""
Draw = Callable[[Theme], "Figure"]
"""Draws one figure for a light or a dark page."""

_ORDER = ("learning", "adaptation", "freezing", "robustness", "beyond")
NAMES = tuple(name for name in _ORDER if importlib.util.find_spec(f"{__package__}.{name}"))
"""The experiments that there are, in the order of the page."""
BENCHES = ("b1", "b2", "b3")
STORED = Path(__file__).parent.parent.parent / "docs" / "results" / "data"
"""Where a checkout keeps what was measured, beside the curves and scores in its zoo."""


@dataclass(frozen=True)
class Options:
    """What a measurement may be told. None = the experiment's own choice."""

    benches: tuple[str, ...] = BENCHES
    """Benchmarks, by short name; an experiment leaves out those that do not concern it."""
    seeds: range | None = None
    """Training seeds, where agents are trained."""
    episodes: int | None = None
    """Episodes trained on each seed, or played where nothing is trained."""
    recipe: str | None = None
    """"fast" or "paper", where agents are trained or chosen."""
    test_episodes: int | None = None
    """Episodes that score what was trained."""
    jobs: int | None = None
    """Processes at a time; None = one per core."""
    ray: str | None = None
    """The address of a Ray cluster to train on, as `nmn_keras.cluster.run_jobs` takes it; None = train here."""
    resume: bool = False
    """Go on with the runs that are in `directory`."""
    directory: Path = Path("reproduced")
    """Where runs and their logs go."""
    zoo: Path | None = None
    """The zoo that is read; None = as `nmn_keras.zoo.directory`."""
    report: Callable[[str], None] = field(default=print, compare=False)
    """Called with a line whenever there is progress to tell."""


class Experiment(Protocol):
    """The module of an experiment."""

    def measure(self, options: Options) -> Data:
        """Measure from scratch."""

    def figures(self, data: Data) -> Mapping[str, Draw]:
        """Give the drawings by file stem."""

    def section(self, data: Data) -> str:
        """Give the experiment's part of the page, Markdown."""


def load(name: str) -> Experiment:
    """Give an experiment's module.

    Raises:
        ValueError: if there is none of that name.
    """
    if name not in NAMES:
        raise ValueError(f"Unknown experiment. Known: {', '.join(NAMES)}. Received: {name!r}")
    return cast(Experiment, importlib.import_module(f"nmn_keras.analysis.{name}"))
