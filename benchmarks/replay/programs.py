"""The programs of the replay bench: short trainings like people's own, each of which fails at a known step."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent / "programs"
TABLE = "programs.toml"
MARK = "# breaks here"
"""Stands at the line of a script whose operation first makes something that is not finite."""


class BadTable(Exception):
    """The table of programs cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One training script, and what is known of it beforehand.

    Attributes:
        path: Of the script.
        covers: What kind of training it is, for the table.
        step: Of its optimizer, the one that is held.
        optimizer: Whose step; "" where there is one.
        held: Why, as the capsule says it.
        norm_above: Setting of the recorder; None: not set.
        operations: Names of operations that would be right; none: all stays finite, or it was handed in.
        phase: "forward" or "backward".
        of: The operation of the forward pass whose derivative it is part of.
        handed_in: What was not finite already; "": nothing was.
        guilty: Rows of the batch that alone make the step fail, none where it is none alone; None: not asked.
        workers: Processes.
    """

    path: Path
    covers: str
    step: int
    optimizer: str = ""
    held: str = "not finite"
    norm_above: float | None = None
    operations: tuple[str, ...] = ()
    phase: str = "forward"
    of: str = ""
    handed_in: str = ""
    guilty: tuple[int, ...] | None = None
    workers: int = 1

    @property
    def name(self) -> str:
        """The script's name without its ending."""
        return self.path.stem

    @property
    def blames(self) -> bool:
        """Whether there is an operation, or what was handed in, that is to be named."""
        return bool(self.operations or self.handed_in)

    @property
    def line(self) -> int:
        """Number of the line that is to be named; 0 where none is."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return next((number for number, line in enumerate(lines, 1) if MARK in line), 0)

    @property
    def recorder(self) -> dict[str, Any]:
        """How the recorder is set."""
        return {} if self.norm_above is None else {"norm_above": self.norm_above}


def programs_of(home: Path = HOME) -> tuple[Program, ...]:
    """Return the programs, in the order of their table.

    Raises:
        BadTable: The table names a script that is not there, or lacks something.
    """
    entries = tomllib.loads((home / TABLE).read_text(encoding="utf-8"))["program"]
    return tuple(_program(home, entry) for entry in entries)


def _program(home: Path, entry: Mapping[str, Any]) -> Program:
    rest = dict(entry)
    known = {item.name for item in fields(Program)} - {"path"} | {"file"}
    if unknown := sorted(set(rest) - known):
        raise BadTable(f"{entry.get('file')}: nobody knows {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    try:
        path = home / rest.pop("file")
        program = Program(path=path, **{name: tuple(value) if isinstance(value, list) else value
                                        for name, value in rest.items()})
    except (KeyError, TypeError) as error:
        raise BadTable(f"a program that lacks something: {dict(entry)}: {error}") from error
    if not path.is_file():
        raise BadTable(f"there is no {path}")
    if bool(program.operations) != bool(program.line):
        raise BadTable(f'{program.name}: a script has a line "{MARK}" if and only if an operation is to be named')
    return program
