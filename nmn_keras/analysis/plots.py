"""What all figures share: an empty figure in a theme's colours, and its bytes as PNG."""

import io

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from nmn_keras.analysis.themes import Theme

DPI = 150


def panels(
    theme: Theme, rows: int = 1, columns: int = 1, size: tuple[float, float] = (3.6, 2.7), **options
) -> tuple[Figure, np.ndarray]:
    """Give a figure of empty panels, and its axes `(rows, columns)`.

    Args:
        theme: its colours.
        rows: of panels.
        columns: of panels.
        size: width and height of one panel, inches.
        **options: of `Figure.subplots`.
    """
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), dpi=DPI, layout="constrained", facecolor=theme.paper)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for one in axes.flat:
        dress(one, theme)
    return figure, axes


def dress(axes: Axes, theme: Theme) -> None:
    """Put axes into a theme's colours; call it again on axes added later (a polar one, a colour bar's)."""
    axes.set_facecolor(theme.paper)
    axes.tick_params(colors=theme.ink, labelsize=8)
    for spine in axes.spines.values():
        spine.set_color(theme.faint)
    for name in ("top", "right"):
        if name in axes.spines:
            axes.spines[name].set_visible(False)
    axes.grid(True, color=theme.faint, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)
    for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
        text.set_color(theme.ink)
        text.set_fontsize(9)


def title(axes: Axes, theme: Theme, text: str) -> None:
    """Head a panel."""
    axes.set_title(text, color=theme.ink, fontsize=10)


def legend(target: Axes | Figure, theme: Theme, **options) -> None:
    """Add a legend to axes or, below all panels, to a figure."""
    if isinstance(target, Figure):
        options = {"loc": "outside lower center", "ncols": 6, **options}
    made = target.legend(**{"fontsize": 8, "labelcolor": theme.ink, "framealpha": 0.7, **options})
    made.get_frame().set(facecolor=theme.paper, edgecolor="none")


def png(figure: Figure) -> bytes:
    """Give a figure as PNG of 256 colours, a third of the size of one of all colours.

    The bytes are the same for the same figure and the same releases of matplotlib and Pillow: no date is in them.
    """
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    buffer = io.BytesIO()
    few = image.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
