"""The programs of the fault benchmark: short, realistic trainings, in parts, each with its table."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from barograph.errors import nearest
from barograph.model.cause import Cause

HOME = Path(__file__).resolve().parent
HALVES = ("first", "second")
"""The parts whose programs train with PyTorch."""

PARTS = (*HALVES, "keras", "jax", "trees")
TABLE = "programs.toml"


class BadTable(Exception):
    """A table of programs is invalid; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One training script, and its known properties.

    Attributes:
        part: Its part.
        path: The script, which takes `--seed N`.
        planted: The planted cause, a name of `Cause`; "" if it is healthy.
        also: Other names that a careful expert would accept for it.
        steps: Number of planned optimizer steps, of its busiest optimizer.
        begins: First step, from 0, at which the fault can be visible.
        workers: Number of processes; above 1 it is started by torchrun.
        effect: Measured effect of the fault, compared with the sound variant; or the result of a healthy one.
        note: Other remarks.
        repair: Pairs of strings that make the sound variant: replace the first, which occurs once, with the second.
    """

    part: str
    path: Path
    planted: str = ""
    also: tuple[str, ...] = ()
    steps: int
    begins: int = 0
    workers: int = 1
    effect: str = ""
    note: str = ""
    repair: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The script's name without its ending."""
        return self.path.stem

    @property
    def healthy(self) -> bool:
        """Whether it has no planted fault."""
        return not self.planted

    @property
    def accepted(self) -> frozenset[str]:
        """The correct causes."""
        return frozenset((self.planted, *self.also)) if self.planted else frozenset()

    @property
    def digest(self) -> str:
        """Digest of everything that invalidates its trials."""
        return hashlib.sha256(b"%d\0" % self.workers + self.path.read_bytes()).hexdigest()[:16]

    def sound_text(self) -> str:
        """Return the script with its fault repaired; unchanged if it is healthy.

        Raises:
            BadTable: The code to repair does not occur exactly once in the script.
        """
        text = self.path.read_text(encoding="utf-8")
        for wrong, right in self.repair:
            if text.count(wrong) != 1:
                raise BadTable(f"{self.name}: {wrong!r} stands {text.count(wrong)} times in the script, not once")
            text = text.replace(wrong, right)
        return text


def programs_of(part: str, home: Path = HOME) -> tuple[Program, ...]:
    """Return the programs of one part, in the order of its table; empty if there is no such part.

    Raises:
        BadTable: The table has a missing script, an unknown cause, or lacks a field.
    """
    table = home / part / TABLE
    if not table.exists():
        return ()
    try:
        entries = tomllib.loads(table.read_text(encoding="utf-8"))["program"]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise BadTable(f"{table}: no table of [[program]]: {error}") from error
    programs = tuple(_program(part, table.parent, entry) for entry in entries)
    names = [program.name for program in programs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadTable(f"{table}: {', '.join(twice)} stands there twice")
    return programs


def _program(part: str, folder: Path, entry: Mapping[str, Any]) -> Program:
    rest = dict(entry)
    try:
        path = folder / rest.pop("file")
        steps = int(rest.pop("steps"))
    except KeyError as error:
        raise BadTable(f"{folder.name}: a program without {error}: {dict(entry)}") from None
    known = {item.name for item in fields(Program)}
    if unknown := sorted(set(rest) - known):
        raise BadTable(f"{path.stem}: nobody knows {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    if not path.is_file():
        raise BadTable(f"{path.stem}: there is no {path}")
    for pair in ("also", "repair"):
        rest[pair] = tuple(tuple(item) if isinstance(item, list) else item for item in rest.get(pair, ()))
    program = Program(part=part, path=path, steps=steps, **rest)
    causes = [cause.value for cause in Cause]
    for name in sorted(program.accepted):
        if name not in causes:
            raise BadTable(f'{path.stem}: "{name}" is no cause. {nearest(name, causes)}')
    if steps < 1 or not 0 <= program.begins < steps or program.workers < 1:
        raise BadTable(f"{path.stem}: steps {steps}, begins {program.begins} and workers {program.workers} cannot be")
    return program
