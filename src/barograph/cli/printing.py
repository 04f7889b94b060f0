"""Output of commands: tables and lines for a terminal, plain text for a pipe, and JSON.

A terminal gets colors, and tables fit its width: long cells are cut, less important columns are omitted, and a line
names them. A pipe gets one line per row with tab-separated cells, not cut, padded or colored, so that `grep`, `cut` and
`awk` work.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NoReturn, TextIO, cast

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from barograph.model.one_line import shown as shown_on_one_line
from barograph.model.plain import plain
from barograph.watch.lasting_stream import LastingStream, silence

Cell = str | Text

EXIT_BROKEN_PIPE = 141
"""128 plus the number of SIGPIPE, as in shells."""

_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
"""All control characters except the line break, which starts a new line within a cell."""
_INDENT = 2
_GAP = 3
_PROSE = 24
_MOST_NAMED = 3
_NOTEBOOK_WIDTH = 120
_in_notebook: ContextVar[bool] = ContextVar("in_notebook", default=False)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        title: Header.
        right: Column of numbers: right-aligned and never wrapped.
        terminal, pipe: Whether it is shown there.
        prose: Text that may be wrapped anywhere.
        spare: On a narrow terminal, columns with greater numbers are omitted first; 0: never omitted.
        most: Maximum characters of a cell on a terminal, where the rest is cut; 0: unlimited.
        called: Name of the column when it is listed as omitted; "": its title.
    """

    title: str
    right: bool = False
    terminal: bool = True
    pipe: bool = True
    prose: bool = False
    spare: int = 0
    most: int = 0
    called: str = ""


class Printer:
    """Prints to one stream, formatted for a terminal or a pipe.

    Args:
        console: Output; None: standard output.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or console_on()

    @property
    def on_terminal(self) -> bool:
        """Whether the output is a terminal."""
        return self.console.is_terminal

    def line(self, line: Cell = "", *, indent: int = 0) -> None:
        """Print a line; on a terminal, wrapped lines are indented like the first."""
        text = _text(line)
        if self.on_terminal:
            self.console.print(Padding(text, (0, 0, 0, indent), expand=False))
        else:
            self.console.print(Text(" " * indent) + text, soft_wrap=True)

    def lines(self, lines: Sequence[Cell], most: int) -> None:
        """Print the lines of a section; only the first, with the number of others, if there are many."""
        for line in lines[:most]:
            self.line(line, indent=2)
        if len(lines) > most:
            self.line(f"and {len(lines) - most} more (all: --json)", indent=2)

    def heading(self, title: str, rest: Cell = "") -> None:
        """Print an empty line and the heading of a section."""
        self.console.print()
        head = Text(shown_on_one_line(title), "bold")
        self.line(Text.assemble(head, "  ", _text(rest)) if rest else head)

    def entries(self, entries: Iterable[tuple[str, Cell]]) -> None:
        """Print names with their values, one per line."""
        listed = [(shown_on_one_line(name), value) for name, value in entries]
        width = max((len(name) for name, _ in listed), default=0)
        if not self.on_terminal:
            for name, value in listed:
                self.line(Text.assemble(f"{name:<{width}}  ", _text(value)), indent=_INDENT)
            return
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in listed:
            grid.add_row(name, _text(value))
        self.console.print(Padding(grid, (0, 0, 0, _INDENT), expand=False))

    def table(
        self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, rest: str = "--json", left_out: int = 0
    ) -> None:
        """Print a table.

        Args:
            columns: Its columns.
            rows: One cell for each column, including columns that are not shown.
            rest: Options that show the omitted columns.
            left_out: Number of further columns that the caller omits.
        """
        cells = [[_text(cell) for cell in row] for row in rows]
        if self.on_terminal:
            self._rich_table(columns, cells, rest, left_out)
        else:
            self._plain_table(columns, cells)
            if left_out:
                print(f"barograph: {_more_columns([], left_out, rest)}", file=sys.stderr)

    def json(self, data: object) -> None:
        """Print data as strict JSON: NaN as null, infinities as "inf" and "-inf"."""
        self._write(json.dumps(plain(data), indent=1, allow_nan=False) + "\n")

    def _rich_table(self, columns: Sequence[Column], rows: list[list[Text]], rest: str, left_out: int) -> None:
        rows = [[_cut(cell, column.most) for cell, column in zip(row, columns, strict=True)] for row in rows]
        filled = [index for index, column in enumerate(columns)
                  if column.terminal and any(row[index].plain for row in rows)]
        shown = self._that_fit(columns, rows, filled)
        spared = [index for index in filled if index not in shown]
        table = _rich(columns, rows, shown)
        self.console.print(Padding(table, (0, 0, 0, _INDENT), expand=False))
        if spared or left_out:
            names = [columns[index].called or columns[index].title for index in spared]
            self.line(Text(_more_columns(names, left_out, rest), "dim"), indent=_INDENT)

    def _that_fit(self, columns: Sequence[Column], rows: list[list[Text]], filled: Sequence[int]) -> list[int]:
        """Return the indices of the columns that fit; columns with `spare=0` always do."""
        widths = dict(zip(filled, _widths([columns[index] for index in filled],
                                          [[row[index] for index in filled] for row in rows]), strict=True))
        shown = [index for index in filled if not columns[index].spare]
        room = self.console.width - _INDENT - sum(widths[index] + _GAP for index in shown) + _GAP
        for index in sorted(filled, key=lambda index: columns[index].spare):
            if columns[index].spare and widths[index] + _GAP <= room + (0 if shown else _GAP):
                shown.append(index)
                room -= widths[index] + _GAP
        return sorted(shown)

    def _plain_table(self, columns: Sequence[Column], rows: list[list[Text]]) -> None:
        shown = [index for index, column in enumerate(columns) if column.pipe]
        lines = [[shown_on_one_line(columns[index].title) for index in shown]]
        lines += [[row[index].plain.strip() or "-" for index in shown] for row in rows]
        # Not line by line through the console: there may be a hundred thousand, and none needs layout.
        self._write("".join("\t".join(line) + "\n" for line in lines))

    def _write(self, text: str) -> None:
        try:
            self.console.file.write(text)
            self.console.file.flush()
        except BrokenPipeError:
            self.console.on_broken_pipe()


def console_on(*, stderr: bool = False, lasting: bool = False) -> Console:
    """Return a console on standard output or error that prints names verbatim.

    Characters that the stream cannot encode are replaced.

    Args:
        stderr: Use standard error.
        lasting: Discard output after the reader is gone. If False, the command exits then, like other programs in a
            pipe to `head`.
    """
    stream = sys.stderr if stderr else sys.stdout
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    if lasting:
        return Console(file=cast(TextIO, LastingStream(stream)), highlight=False, markup=False, emoji=False,
                       force_jupyter=False)
    # Not Rich's notebook mode, where each line would be a separate output.
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False, force_jupyter=False,
                    force_terminal=True if _in_notebook.get() else None,
                    width=_NOTEBOOK_WIDTH if _in_notebook.get() else None)


@contextmanager
def in_notebook() -> Iterator[None]:
    """Print as on a terminal, in color, within this block: for notebook cells."""
    before = _in_notebook.set(True)
    try:
        yield
    finally:
        _in_notebook.reset(before)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        end_without_reader()


def end_without_reader() -> NoReturn:
    """Exit like a program whose output pipe was closed."""
    # Buffered output must not fail again when the interpreter exits.
    silence(sys.stdout)
    raise SystemExit(EXIT_BROKEN_PIPE)


def _widths(columns: Sequence[Column], rows: list[list[Text]]) -> list[int]:
    """Return the desired widths of columns; small for prose, which can be wrapped."""
    widths = [max([_text(column.title).cell_len, *(row[at].cell_len for row in rows)])
              for at, column in enumerate(columns)]
    return [min(width, _PROSE) if column.prose else width for width, column in zip(widths, columns, strict=True)]


def _rich(columns: Sequence[Column], rows: list[list[Text]], shown: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim", border_style="dim")
    for index in shown:
        column = columns[index]
        # Wrapped, not cut: a cut name is useless.
        table.add_column(_text(column.title), justify="right" if column.right else "left", overflow="fold",
                         no_wrap=column.right)
    for row in rows:
        table.add_row(*(row[index] for index in shown))
    return table


def _text(cell: Cell) -> Text:
    if not isinstance(cell, Text):
        return Text(shown_on_one_line(cell))
    if _CONTROLS.search(cell.plain):
        cell = cell.copy()
        # By character, so that styles keep their positions.
        cell.plain = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", cell.plain)
    return cell


def _cut(cell: Text, most: int) -> Text:
    """Return a cell with its middle cut if it is too long: names of runs often differ only at the end."""
    if not most or cell.cell_len <= most:
        return cell
    after = most // 3
    cut = cell[: most - 1 - after] + Text("…") + cell[len(cell) - after :]
    if cut.cell_len > most:
        cut.truncate(most, overflow="ellipsis")
    return cut


def _more_columns(names: Sequence[str], left_out: int, rest: str) -> str:
    """Return the sentence about omitted columns and how to see them.

    Example:
        >>> _more_columns(["host", "cost", "a", "b"], 2, "--json")
        '6 more columns (host, cost, a, …): --json'
    """
    dots = ["…"] if len(names) + left_out > min(len(names), _MOST_NAMED) else []
    shown = [*map(shown_on_one_line, names[:_MOST_NAMED]), *dots]
    named = f" ({', '.join(shown)})" if names else ""
    total = len(names) + left_out
    return f"{total:,} more column{'s' if total != 1 else ''}{named}: {rest}"
