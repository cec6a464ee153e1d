"""Pieces of Markdown that every section uses."""

import re
from collections.abc import Iterable, Iterator, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Give a table; cells may hold Markdown of one line.

    Raises:
        ValueError: if a row has another number of cells than the header.
    """
    lines = [_row(header), f"|{'---|' * len(header)}"]
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"A row of this table needs {len(header)} cells. Received: {row!r}")
        lines.append(_row(row))
    return "\n".join(lines)


def _row(cells):
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


CLAIMS = ("the paper says", "what we measured", "verdict", "why, and what to know")
"""The header of a table of claims."""


def claims(section: str) -> Iterator[tuple[str, str, str]]:
    """Give the claims of a section's tables: the heading above each, the paper's words, the verdict.

    Args:
        section: Markdown.
    """
    heading, within = "", False
    for line in section.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        within = line.startswith("|") and (within or line == _row(CLAIMS))
        if within and line != _row(CLAIMS) and not line.startswith("|---"):
            words, _, verdict, _ = (cell.replace("\\|", "|") for cell in re.split(r" (?<!\\)\| ", line[2:-2]))
            yield heading, words, verdict


def picture(stem: str, text: str) -> str:
    """Give a figure in its light and dark variants.

    Args:
        stem: the figure's name, see `experiment.py`.
        text: what it shows, for those who cannot see it; no quotes.
    """
    return (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="results/{stem}-dark.png">\n'
        f'  <img alt="{text}" src="results/{stem}-light.png">\n</picture>'
    )
