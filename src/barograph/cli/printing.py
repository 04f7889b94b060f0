"""How commands print: tables and lines for a terminal, plain ones for a pipe, and JSON.

On a terminal there is colour and the width is kept. In a pipe every row is one line, columns stand two
spaces apart, nothing is cut and nothing is coloured, so that `grep` and `awk` can be relied on.
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
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from barograph.model.one_line import shown as shown_on_one_line
from barograph.watch.lasting_stream import LastingStream, silence
from barograph.watch.plain import plain

Cell = str | Text

EXIT_BROKEN_PIPE = 141
"""128 and the number of SIGPIPE, as shells count."""

_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
"""All but the line break, which begins a new line within a cell."""
_INDENT = 2
_GAP = 3
_PROSE = 40
_NOTEBOOK_WIDTH = 120
_in_notebook: ContextVar[bool] = ContextVar("in_notebook", default=False)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        title: Its head.
        right: Numbers, which stand to the right and are never broken.
        terminal, pipe: Whether it is shown there.
        prose: Text that may be broken anywhere.
        spare: On a terminal that is too narrow the column with the greatest number goes first; 0 stays.
    """

    title: str
    right: bool = False
    terminal: bool = True
    pipe: bool = True
    prose: bool = False
    spare: int = 0


class Printer:
    """Prints on one stream, as that stream is best read.

    Args:
        console: Where to; None: standard output.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or console_on()

    @property
    def on_terminal(self) -> bool:
        """Whether a person looks on."""
        return self.console.is_terminal

    def line(self, line: Cell = "", *, indent: int = 0) -> None:
        """Print a line; on a terminal one that is too long goes on below its own beginning."""
        text = _text(line)
        if self.on_terminal:
            self.console.print(Padding(text, (0, 0, 0, indent), expand=False))
        else:
            self.console.print(Text(" " * indent) + text, soft_wrap=True)

    def lines(self, lines: Sequence[Cell], most: int) -> None:
        """Print lines of a section, the first of very many, and how many more there are."""
        for line in lines[:most]:
            self.line(line, indent=2)
        if len(lines) > most:
            self.line(f"and {len(lines) - most} more (--json has all)", indent=2)

    def heading(self, title: str, rest: Cell = "") -> None:
        """Print the head of a section, with an empty line before it."""
        self.console.print()
        head = Text(shown_on_one_line(title), "bold")
        self.line(Text.assemble(head, "  ", _text(rest)) if rest else head)

    def entries(self, entries: Iterable[tuple[str, Cell]]) -> None:
        """Print names and what belongs to each, below each other."""
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

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
        """Print a table.

        Args:
            columns: Its columns.
            rows: A cell for each column, those that are not shown included.
        """
        cells = [[_text(cell) for cell in row] for row in rows]
        if self.on_terminal:
            self._rich_table(columns, cells)
        else:
            self._plain_table(columns, cells)

    def json(self, data: object) -> None:
        """Print data as JSON, alone and strict: NaN as null, infinities as "inf" and "-inf"."""
        self._write(json.dumps(plain(data), indent=1, allow_nan=False) + "\n")

    def _rich_table(self, columns: Sequence[Column], rows: list[list[Text]]) -> None:
        shown = [index for index, column in enumerate(columns)
                 if column.terminal and any(row[index].plain for row in rows)]
        while _width([columns[index] for index in shown], [[row[index] for index in shown] for row in rows]) > (
            self.console.width - _INDENT
        ):
            spare = max(shown, key=lambda index: columns[index].spare)
            if not columns[spare].spare:
                break
            shown.remove(spare)
        table = _rich(columns, rows, shown)
        self.console.print(Padding(table, (0, 0, 0, _INDENT), expand=False))

    def _plain_table(self, columns: Sequence[Column], rows: list[list[Text]]) -> None:
        shown = [index for index, column in enumerate(columns) if column.pipe]
        lines = [[shown_on_one_line(columns[index].title) for index in shown]]
        lines += [[row[index].plain.strip() or "-" for index in shown] for row in rows]
        widths = [max(cell_len(line[at]) for line in lines) for at in range(len(shown))]
        # Not line by line through the console: there may be a hundred thousand, and nothing is to be laid out.
        self._write("".join(
            "  ".join(
                _padded(cell, width, right=columns[index].right)
                for cell, width, index in zip(line, widths, shown, strict=True)
            ).rstrip() + "\n"
            for line in lines
        ))

    def _write(self, text: str) -> None:
        try:
            self.console.file.write(text)
            self.console.file.flush()
        except BrokenPipeError:
            self.console.on_broken_pipe()


def console_on(*, stderr: bool = False, lasting: bool = False) -> Console:
    """Return a console on standard output or error that prints names as they are.

    A letter that the stream cannot show is replaced: that is no reason to fail.

    Args:
        stderr: On standard error.
        lasting: Where nobody reads any more, go on and say nothing. Without, the command ends, as programs do whose
            reader (head, say) has seen enough.
    """
    stream = sys.stderr if stderr else sys.stdout
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    if lasting:
        return Console(file=cast(TextIO, LastingStream(stream)), highlight=False, markup=False, emoji=False,
                       force_jupyter=False)
    # Never as Rich prints in a notebook, where each line would be an output of its own.
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False, force_jupyter=False,
                    force_terminal=True if _in_notebook.get() else None,
                    width=_NOTEBOOK_WIDTH if _in_notebook.get() else None)


@contextmanager
def in_notebook() -> Iterator[None]:
    """Print in this block as for a person, in colour, though no terminal is there: for cells of notebooks."""
    before = _in_notebook.set(True)
    try:
        yield
    finally:
        _in_notebook.reset(before)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        end_unheard()


def end_unheard() -> NoReturn:
    """End as programs do whose reader has seen enough."""
    # What is still buffered must not fail once more when the interpreter ends.
    silence(sys.stdout)
    raise SystemExit(EXIT_BROKEN_PIPE)


def _width(columns: Sequence[Column], rows: list[list[Text]]) -> int:
    """Return the width a table asks for; prose asks for little, since it can go on below."""
    widths = [max([cell_len(column.title), *(row[at].cell_len for row in rows)]) for at, column in enumerate(columns)]
    asked = [min(width, _PROSE) if column.prose else width for width, column in zip(widths, columns, strict=True)]
    return sum(asked) + _GAP * (len(columns) - 1)


def _rich(columns: Sequence[Column], rows: list[list[Text]], shown: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim", border_style="dim")
    for index in shown:
        column = columns[index]
        # Folded, not cut: half a name is the name of nothing.
        table.add_column(Text(shown_on_one_line(column.title)), justify="right" if column.right else "left",
                         overflow="fold", no_wrap=column.right)
    for row in rows:
        table.add_row(*(row[index] for index in shown))
    return table


def _text(cell: Cell) -> Text:
    if not isinstance(cell, Text):
        return Text(shown_on_one_line(cell))
    if _CONTROLS.search(cell.plain):
        cell = cell.copy()
        # Letter by letter, so that styles stay where they are.
        cell.plain = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", cell.plain)
    return cell


def _padded(cell: str, width: int, *, right: bool) -> str:
    gap = " " * (width - cell_len(cell))
    return gap + cell if right else cell + gap
