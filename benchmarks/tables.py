"""Prints plain aligned tables to standard output, and progress to standard error."""

from __future__ import annotations

import sys
import textwrap

from benchmarks.interleave import Interval


class Table:
    """Rows of strings with headings; every column is as wide as its widest entry.

    Example:
        >>> table = Table("what", "ratio")
        >>> table.add("bare", "×1.000")
        >>> table.print()
          what  ratio
          bare  ×1.000
    """

    def __init__(self, *headings: str) -> None:
        self._rows: list[tuple[str, ...]] = [headings]

    def add(self, *cells: str) -> None:
        """Add a row."""
        if len(cells) != len(self._rows[0]):
            raise ValueError(f"a row of {len(cells)} cells under {len(self._rows[0])} headings")
        self._rows.append(cells)

    def print(self) -> None:
        """Print it."""
        widths = [max(map(len, column)) for column in zip(*self._rows, strict=True)]
        for row in self._rows:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print(f"  {line}".rstrip())


def heading(text: str) -> None:
    """Print the heading of a part."""
    print(f"\n== {text}", flush=True)


def note(text: str) -> None:
    """Print a remark below a table."""
    print(textwrap.fill(text, 118, initial_indent="  ", subsequent_indent="    "), flush=True)


def progress(text: str) -> None:
    """Print the current measurement to standard error."""
    print(f"… {text}", file=sys.stderr, flush=True)


def ratio_text(interval: Interval) -> str:
    """Return a ratio with its interval.

    Example:
        >>> from benchmarks.interleave import interval_of
        >>> ratio_text(interval_of([1.0, 1.02, 1.01]))
        '×1.010 [1.000–1.020]'
    """
    return f"×{interval.median:.3f} [{interval.low:.3f}–{interval.high:.3f}]"


def span_text(interval: Interval, unit: str, *, scale: float = 1.0, digits: int = 1) -> str:
    """Return a value with its extremes.

    Example:
        >>> from benchmarks.interleave import interval_of
        >>> span_text(interval_of([0.1, 0.3, 0.2]), "ms", scale=1e3, digits=0)
        '200 ms (100–300)'
    """
    median, least, greatest = (
        f"{value * scale:,.{digits}f}" for value in (interval.median, interval.least, interval.greatest)
    )
    return f"{median} {unit} ({least}–{greatest})"
