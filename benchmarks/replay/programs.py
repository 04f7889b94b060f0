"""The programs of the replay benchmark: short, realistic trainings that fail at a known step."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent / "programs"
TABLE = "programs.toml"
MARK = "# breaks here"
"""Marks the line of a script whose operation first produces a non-finite value."""


class BadTable(Exception):
    """The table of programs is invalid; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One training script, and its known properties.

    Attributes:
        path: The script.
        covers: Kind of training, for the table.
        step: Withheld step of its optimizer.
        optimizer: Label of the optimizer; "" if there is one.
        held: Reason in the capsule.
        norm_above: Setting of the recorder; None: not set.
        operations: Names of correct operations; empty: everything is finite, or the cause is an input.
        phase: "forward" or "backward".
        of: The operation of the forward pass whose derivative it belongs to.
        handed_in: The input that was already non-finite; "": none.
        guilty: Rows of the batch that alone make the step fail, empty if no single row does; None: not checked.
        workers: Number of processes.
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
        """Whether an operation or an input must be named."""
        return bool(self.operations or self.handed_in)

    @property
    def line(self) -> int:
        """Number of the line that must be named; 0 if none."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return next((number for number, line in enumerate(lines, 1) if MARK in line), 0)

    @property
    def recorder(self) -> dict[str, Any]:
        """Settings of the recorder."""
        return {} if self.norm_above is None else {"norm_above": self.norm_above}


def programs_of(home: Path = HOME) -> tuple[Program, ...]:
    """Return the programs, in the order of their table.

    Raises:
        BadTable: The table names a missing script, or lacks a field.
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
