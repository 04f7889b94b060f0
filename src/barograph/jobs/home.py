"""The directory of a user's jobs on this machine: their records, secrets, working directories and caches.

    jobs/NAME.json      where the job's store is, and its place in the queue
    secrets/NAME.json   environment variables of the submitting shell, readable by the user only
    submitting/ID.json  submissions that have begun, see `leftovers`
    work/NAME/          directories of its instances
    kept/NAME.json      see `keeping`
    cache/              environments and data that jobs share
    controller.log      output of the controller
    controller.json     see `handover`
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from barograph.errors import DamagedChunk, JobRefused, UnknownJob, nearest
from barograph.machine.host_lock import HostLock

HOME_VARIABLE = "BAROGRAPH_HOME"
"""Environment variable with the directory of the jobs."""

_LISTED = 5
_LONGEST_WAIT_SECS = 10.0
_LOOK_SECS = 0.005


@dataclass(frozen=True, slots=True)
class JobRecord:
    """Record of a job.

    Attributes:
        name: Name of the job.
        url: URL of its store, which is also the store of its run.
        number: Orders the queue; 0 until the job is added.
        engine: Engine that runs it.
        over: Whether the job has ended.
    """

    name: str
    url: str
    number: int
    engine: str
    over: bool = False


@dataclass(frozen=True, slots=True)
class DamagedRecord:
    """A damaged record of a job.

    Attributes:
        name: Name of the job.
        path: The file.
        why: What is wrong.
    """

    name: str
    path: Path
    why: str

    @property
    def reason(self) -> str:
        """Error message: what is damaged, and how to remove it."""
        return (f"The record of the job is damaged: {self.why}. Delete the file to forget the job; its processes and "
                f"directories are removed, too ({self.path}).")


class JobsHome:
    """The jobs of a user on this machine.

    Args:
        path: Directory; None: `BAROGRAPH_HOME`, else `barograph` in the state directory of the user.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path or os.environ.get(HOME_VARIABLE) or _state_directory()).absolute()
        self._known: dict[str, tuple[tuple[int, int, int], JobRecord | DamagedRecord]] = {}

    @property
    def cache(self) -> Path:
        """Environments and data that jobs share."""
        return self.path / "cache"

    @property
    def controller_log(self) -> Path:
        """Output of the controller."""
        return self.path / "controller.log"

    def work(self, name: str) -> Path:
        """Directory of a job's instances."""
        return self.path / "work" / name

    def unique(self, name: str) -> str:
        """Name of a job that is unique among all users, directories and machines.
        """
        return f"{name}@{hashlib.sha256(f'{platform.node()}:{self.path}'.encode()).hexdigest()[:8]}"

    def check_is_free(self, name: str) -> None:
        """Raise `JobRefused` if there is a job of that name, or none can be added."""
        with self._mapped():
            (self.path / "jobs").mkdir(parents=True, exist_ok=True)
        if self.has(name):
            raise JobRefused(f'There is a job named "{name}" already. Use another --name.')

    def has(self, name: str) -> bool:
        """Return whether there is a record of a job of that name, damaged or not."""
        return (self.path / "jobs" / f"{name}.json").exists()

    def write_submitting(self, identity: str, note: Mapping[str, object]) -> Path:
        """Record that a submission has begun; return the file.

        Raises:
            JobRefused: It cannot be written.
        """
        self._write("submitting", identity, dict(note), replaces=True)
        return self.path / "submitting" / f"{identity}.json"

    def write_note(self, name: str, note: Mapping[str, object]) -> None:
        """Write a JSON file of the directory itself.

        Raises:
            JobRefused: It cannot be written.
        """
        with self._mapped():
            self._write_mapped(self.path / name, dict(note), replaces=True)

    def add(self, record: JobRecord, environment: Mapping[str, str]) -> None:
        """Add a job at the end of the queue.

        Args:
            record: The job; a number of 0 is replaced by its place in the queue.
            environment: Environment variables for its script.

        Raises:
            JobRefused: There is a job of that name.
        """
        self.check_is_free(record.name)
        # One at a time: of two jobs of one name, the second must not replace the secrets of the first; and a job that
        # is entered later must not have an earlier place, because those behind it may have started.
        lock = HostLock("entering a job", self.path)
        deadline = time.monotonic() + _LONGEST_WAIT_SECS
        try:
            while not lock.take() and time.monotonic() < deadline:
                time.sleep(_LOOK_SECS)
            self.check_is_free(record.name)
            record = replace(record, number=record.number or time.time_ns())
            self._write("secrets", record.name, dict(environment), replaces=True)
            self._write("jobs", record.name, asdict(record), replaces=False)
        except FileExistsError:
            raise JobRefused(f'There is a job named "{record.name}" already. Use another --name.') from None
        finally:
            lock.release()

    def all(self) -> list[JobRecord]:
        """Return all jobs in the order of submission, without those whose record is damaged."""
        records = [record for record in self._read() if isinstance(record, JobRecord)]
        return sorted(records, key=lambda record: (record.number, record.name))

    def damaged(self) -> list[DamagedRecord]:
        """Return the records that cannot be read, by name."""
        records = [record for record in self._read() if isinstance(record, DamagedRecord)]
        return sorted(records, key=lambda record: record.name)

    def _read(self) -> list[JobRecord | DamagedRecord]:
        """Return all records. A controller asks many times a second, so those that have not changed are kept.

        The record of an ended job does not change, so it is read again only if another file replaced it.
        """
        found: dict[str, tuple[tuple[int, int, int], JobRecord | DamagedRecord]] = {}
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.path / "jobs") as entries:
            for entry in entries:
                if entry.name.endswith(".json") and not entry.name.startswith("."):
                    known = self._known.get(entry.name)
                    if known and known[0][0] == entry.inode() and isinstance(known[1], JobRecord) and known[1].over:
                        found[entry.name] = known
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat()
                        stamp = status.st_ino, status.st_mtime_ns, status.st_size
                        found[entry.name] = known if known and known[0] == stamp else (stamp, _record(Path(entry.path)))
        self._known = found
        return [record for _, record in found.values()]

    def named(self, name: str) -> JobRecord:
        """Return a job by its name, or by the beginning or the end of it if that is unique.

        Raises:
            UnknownJob: There is no such job, or there are several.
            DamagedChunk: Its record is damaged.
        """
        if (exact := self._exactly(name)) is not None:
            return exact
        for damaged in self.damaged():
            if damaged.name == name:
                raise DamagedChunk(damaged.reason)
        records = self.all()
        found = [record for record in records
                 if record.name.startswith(name) or record.name.endswith(name)] if name else []
        if len(found) == 1:
            return found[0]
        names = [record.name for record in found or records]
        if found:
            raise UnknownJob(f'"{name}" is the beginning or the end of several jobs: {", ".join(names[-_LISTED:])}.')
        near = nearest(name, names) if names else "There are no jobs."
        if len(names) > _LISTED and near.startswith("There are"):
            near = f"The newest: {', '.join(reversed(names[-_LISTED:]))}. To list all:  barograph jobs --all"
        raise UnknownJob(f'There is no job named "{name}". {near}')

    def _exactly(self, name: str) -> JobRecord | None:
        """Return the job of this name without reading the others; None if there is none, or it is damaged."""
        if not name or name != os.path.basename(name):
            return None
        try:
            record = _record(self.path / "jobs" / f"{name}.json")
        except (OSError, ValueError):
            return None
        return record if isinstance(record, JobRecord) else None

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment variables for the script of a job; empty once it has ended."""
        try:
            values: dict[str, str] = json.loads((self.path / "secrets" / f"{name}.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return values

    def set_environment(self, name: str, values: Mapping[str, str]) -> None:
        """Replace what `environment` returns; with nothing, delete it."""
        if values:
            self._write("secrets", name, dict(values), replaces=True)
        else:
            (self.path / "secrets" / f"{name}.json").unlink(missing_ok=True)

    def close(self, record: JobRecord) -> None:
        """Record that a job has ended, and delete its secrets. Its engine removes the directories of its instances."""
        self._write("jobs", record.name, asdict(replace(record, over=True)), replaces=True)
        (self.path / "secrets" / f"{record.name}.json").unlink(missing_ok=True)

    def forget(self, name: str) -> None:
        """Remove the record of a job; the controller ends its processes and removes its directories."""
        for folder in ("jobs", "secrets"):
            (self.path / folder / f"{name}.json").unlink(missing_ok=True)

    def _write(self, folder: str, name: str, data: object, *, replaces: bool) -> None:
        with self._mapped():
            self._write_mapped(self.path / folder / f"{name}.json", data, replaces=replaces)

    @contextlib.contextmanager
    def _mapped(self) -> Iterator[None]:
        """Raise an error of the file system as one that says what to do."""
        try:
            yield
        except FileExistsError:
            raise
        except OSError as error:
            raise JobRefused(f"The directory of the jobs cannot be written: {error.strerror}. Set {HOME_VARIABLE} to "
                             f"another one ({self.path}).") from error

    def _write_mapped(self, target: Path, data: object, *, replaces: bool) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.parent.chmod(0o700)
        part = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(3).hex()}")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(data, file)
                file.flush()
                os.fsync(file.fileno())
            if replaces:
                os.replace(part, target)
            else:
                os.link(part, target)
        finally:
            part.unlink(missing_ok=True)


def _record(path: Path) -> JobRecord | DamagedRecord:
    name = path.name.removesuffix(".json")
    try:
        data = json.loads(path.read_bytes())
        record = JobRecord(**data)
    except FileNotFoundError:
        raise
    except OSError as error:
        return DamagedRecord(name, path, error.strerror or str(error))
    except (ValueError, RecursionError):
        return DamagedRecord(name, path, "it is not JSON" if path.stat().st_size else "it is empty")
    except TypeError:
        return DamagedRecord(name, path, "its entries are wrong")
    wrong = [field.name for field in fields(record)
             if type(getattr(record, field.name)).__name__ != field.type]
    if wrong:
        return DamagedRecord(name, path, f'its entry "{wrong[0]}" is wrong')
    return record if record.name == name else DamagedRecord(name, path, f'it describes another job, "{record.name}"')


def _state_directory() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "barograph"
