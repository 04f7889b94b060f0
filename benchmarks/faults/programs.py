"""The programs of the fault bench: short trainings like people's own, in parts, each with its table."""

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
    """A table of programs cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One training script, and what is known of it beforehand.

    Attributes:
        part: Which part it stands in.
        path: Of the script, which takes `--seed N`.
        planted: The cause that was planted, a name of `Cause`; "" where it is healthy.
        also: Other names that a careful expert would accept for it.
        steps: Optimizer steps that it plans, of its busiest optimizer.
        begins: First step, from 0, at which the fault can show.
        workers: Processes; above 1 it is started by torchrun.
        effect: What the fault does, measured against the sound twin; how well a healthy one learns.
        note: What else there is to say.
        repair: Pairs of texts that make the sound twin: each first one, which stands in the script once, by the second.
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
        """Whether nothing was planted in it."""
        return not self.planted

    @property
    def accepted(self) -> frozenset[str]:
        """The causes that are right."""
        return frozenset((self.planted, *self.also)) if self.planted else frozenset()

    @property
    def digest(self) -> str:
        """What changes when its trials must be made anew."""
        return hashlib.sha256(b"%d\0" % self.workers + self.path.read_bytes()).hexdigest()[:16]

    def sound_text(self) -> str:
        """Return the script with its fault repaired; as it is where it is healthy.

        Raises:
            BadTable: What is to be repaired does not stand in the script exactly once.
        """
        text = self.path.read_text(encoding="utf-8")
        for wrong, right in self.repair:
            if text.count(wrong) != 1:
                raise BadTable(f"{self.name}: {wrong!r} stands {text.count(wrong)} times in the script, not once")
            text = text.replace(wrong, right)
        return text


def programs_of(part: str, home: Path = HOME) -> tuple[Program, ...]:
    """Return the programs of one part, in the order of its table; none where there is no such part.

    Raises:
        BadTable: The table names a script that is not there, a cause that is none, or lacks something.
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
