"""Colours of figures on light and dark pages; no matplotlib."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Theme:
    """Colours that belong together. Those of data are of Okabe and Ito (2008), safe for the colour-blind."""

    name: str
    """Part of the file's name: "light" or "dark"."""
    paper: str
    """Behind everything; that of GitHub's pages."""
    ink: str
    """Text and axes."""
    faint: str
    """Grids and what must stand back."""
    colours: tuple[str, ...]
    """For data: the NMN's, the RNN's, then others."""
    reference: str
    """For an optimum or another yardstick."""


LIGHT = Theme(
    "light",
    "#ffffff",
    "#1f2328",
    "#c4ccd4",
    ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
    "#57606a",
)
DARK = Theme(
    "dark",
    "#0d1117",
    "#e6edf3",
    "#3d444d",
    ("#56b4e9", "#e69f00", "#2fc79a", "#e59ac4", "#f0e442", "#d55e00"),
    "#9198a1",
)
THEMES = (LIGHT, DARK)
