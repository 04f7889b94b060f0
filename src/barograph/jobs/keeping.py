"""Instances that stay after their job, for the next similar one of the same user (`--keep-alive`).

    kept/NAME.json      the job that they were started for; there until they are released

They belong to the controller that kept them. If it is killed, the next one releases them.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barograph.errors import BarographError
from barograph.jobs.engines.engine import Engine, NotYet
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.spec import JobSpec
from barograph.model.clock import Clock
from barograph.store.whole_file import write_whole

_RETRY_SECS = 5.0
_MOMENT_SECS = 2.0


@dataclass(frozen=True, slots=True)
class KeptNote:
    """Record of kept instances.

    Attributes:
        name: Job that started them.
        engine: Engine that has them.
        until_unix: Time of their release, unless another job takes them over.
        ends: Release them now.
    """

    name: str
    engine: str
    until_unix: float
    ends: bool = False


@dataclass(slots=True)
class _Kept:
    key: tuple[Any, ...]
    until: float


class Keeping:
    """Keeps instances between jobs, for one controller.

    Args:
        home: Directory of the jobs.
        engine_named: Returns an engine.
        clock: The time.
    """

    def __init__(self, home: JobsHome, engine_named: Callable[[str], Engine], clock: Clock) -> None:
        self._home, self._engine_named, self._clock = home, engine_named, clock
        self._kept: dict[str, _Kept] = {}
        self._again_at: dict[str, float] = {}

    def keep(self, record: JobRecord, spec: JobSpec) -> None:
        """Keep the instances of a job that has ended. It is closed afterwards."""
        # First the note: if the controller is killed then, the next one releases them.
        _write(self._home, KeptNote(record.name, record.engine, self._clock.unix() + spec.keep_alive_secs))
        self._kept[record.name] = _Kept(_key(self._home, record.name, spec),
                                        self._clock.monotonic() + spec.keep_alive_secs)
        self._engine_named(record.engine).keep(record.name)

    def keep_address(self, record: JobRecord) -> None:
        """Keep what the release of instances needs of the environment of their job, which was deleted."""
        if (kept := self._kept.get(record.name)) is not None:
            self._home.set_environment(record.name, dict(kept.key[-1]))

    def take_over(self, record: JobRecord, spec: JobSpec) -> bool:
        """Give kept instances to a job that fits; return whether there were some."""
        if not self._kept:
            return False
        key = _key(self._home, record.name, spec)
        for name, kept in self._kept.items():
            if kept.key == key:
                self._engine_named(record.engine).take_over(name, record.name)
                self._forget(name)
                return True
        return False

    def make_room(self, record: JobRecord, spec: JobSpec, waited_secs: float) -> bool:
        """Release the instances that were kept first where a job waits for room; return whether there were some.

        A cluster may have room, and take a moment to say so.
        """
        if not self._kept or spec.cluster or waited_secs < _MOMENT_SECS * (record.engine != "local"):
            return False
        place = _place(_key(self._home, record.name, spec))
        for note in kept_notes(self._home):
            kept = self._kept.get(note.name)
            if kept is not None and _place(kept.key) == place:
                self._release(note)
                return True
        return False

    def turn(self) -> int:
        """Release what is not to be kept any longer; return how many jobs' instances are kept."""
        notes = kept_notes(self._home)
        for note in notes:
            kept = self._kept.get(note.name)
            if (kept is None or note.ends or self._clock.monotonic() >= kept.until) \
                    and self._clock.monotonic() >= self._again_at.get(note.name, 0.0):
                self._release(note)
        return len(notes)

    def _release(self, note: KeptNote) -> None:
        try:
            self._engine_named(note.engine).release(note.name)
        except NotYet:
            pass  # at the next turn
        except BarographError as error:
            self._again_at[note.name] = self._clock.monotonic() + _RETRY_SECS
            print(f"{note.name}: {error}", file=sys.stderr, flush=True)
        else:
            self._forget(note.name)

    def _forget(self, name: str) -> None:
        self._kept.pop(name, None)
        self._home.set_environment(name, {})
        _path(self._home, name).unlink(missing_ok=True)


def kept_notes(home: JobsHome) -> list[KeptNote]:
    """Return what is kept, first what ends first."""
    found = []
    for file in (home.path / "kept").glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            found.append(KeptNote(**json.loads(file.read_bytes())))
    return sorted(found, key=lambda note: note.until_unix)


def end_keeping(home: JobsHome, name: str) -> bool:
    """Have the instances that are kept after a job released; return whether there are some.

    Raises:
        StoreDenied, StoreFull: The request cannot be written.
    """
    for note in kept_notes(home):
        if note.name == name:
            _write(home, KeptNote(note.name, note.engine, note.until_unix, ends=True))
            return True
    return False


def _key(home: JobsHome, name: str, spec: JobSpec) -> tuple[Any, ...]:
    """Return what two jobs must have in common to use the same instances."""
    ray = sorted(item for item in home.environment(name).items() if item[0].startswith("RAY_"))
    cluster = b""
    with contextlib.suppress(OSError):
        cluster = Path(spec.cluster).read_bytes() if spec.cluster else b""
    return spec.engine, spec.cluster, cluster, spec.instances, spec.cpus, spec.memory_bytes, spec.gpus, tuple(ray)


def _place(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what two jobs have in common that take each other's room: engine, cluster file, address."""
    return key[0], key[1], key[-1]


def _write(home: JobsHome, note: KeptNote) -> None:
    path = _path(home, note.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps({name: getattr(note, name) for name in KeptNote.__slots__}).encode())


def _path(home: JobsHome, name: str) -> Path:
    return home.path / "kept" / f"{name}.json"
