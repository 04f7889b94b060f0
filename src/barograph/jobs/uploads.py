"""Uploads of a script's files: model and output as artifacts of the run, checkpoints for the next attempt."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from barograph.errors import ObjectNotFound, SettingsError
from barograph.jobs.layout import InstanceLayout
from barograph.runs.format.layout import JOB, MANIFEST
from barograph.runs.format.metadata import manifest_from_bytes
from barograph.store.base import Store
from barograph.store.inside import Inside
from barograph.store.streaming import put_parts
from barograph.watch.figures import count

CHECKPOINTS = f"{JOB}/checkpoints"
_INDEX = "index.json"
_PART_BYTES = 2**20
_BACKSLASH = "\\"
"""Separates folders on Windows, so that no name with it can be restored."""
_PLAIN = re.compile(r"[A-Za-z0-9_.+=@/-]{1,200}")
_Stamp = tuple[int, int, int]
"""Size, time of the last change, and number of a file."""


def upload_outputs(run: Store, layout: InstanceLayout, index: int, *, now_unix: float) -> int:
    """Store the model and the output of an instance as artifacts of the run; return how many files there are.

    The files of the first instance are called `model/…` and `output/…`, those of others `algo-2/model/…`. Line breaks,
    backslashes and the like are stored as in URLs: `model/a%0Ab`.

    Raises:
        SettingsError: A file changed meanwhile, or cannot be read; those that can are stored.
        StoreError: The store rejects it.
    """
    found = [(path, f"{folder}/{path.relative_to(top).as_posix()}")
             for folder, top in (("model", layout.model), ("output", layout.output_data),
                                 ("output/intermediate", layout.intermediate))
             for path in sorted(top.rglob("*")) if path.is_file()]
    if not found:
        return 0
    # Loaded here, because most scripts of a test leave nothing.
    from dataclasses import asdict

    from barograph.experiments.artifacts import artifact_of, root_of
    from barograph.model.items import Entry, Verb
    from barograph.runs.state.journal import JOURNAL_OF_RUN, Journal

    root, uid = root_of(run), manifest_from_bytes(run.get(MANIFEST), MANIFEST).run_id
    prefix = f"algo-{index + 1}/" if index else ""
    readable = [(path, name) for path, name in found if os.access(path, os.R_OK)]
    links = [artifact_of(root, path, prefix + _escaped(name), media_type="", copy=True) for path, name in readable]
    if links:
        Journal(run, JOURNAL_OF_RUN).write([Entry(uid, Verb.OUTPUT, asdict(link), now_unix) for link in links])
    if unreadable := [_escaped(name) for path, name in found if (path, name) not in readable]:
        raise SettingsError(f"{count(len(unreadable), 'output')} of the script cannot be read, such as "
                            f"{unreadable[0]}. Change the permissions in the script.")
    return len(links)


def _escaped(name: str) -> str:
    return "".join(letter if letter.isprintable() and letter != "\\" else
                   "".join(f"%{byte:02X}" for byte in os.fsencode(letter)) for letter in name)


def _parts_of_file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(_PART_BYTES):
            yield part


class CheckpointSync:
    """Keeps the checkpoint directory of a script in the job's store.

    The store has the files of one moment: an index names them, and is replaced once all are stored.

    Args:
        store: Store of the job.
        directory: What the script knows as `SM_CHECKPOINT_DIR`.
        index: Which instance.
        say: Takes a sentence for each file that is not stored, once.
    """

    def __init__(
        self, store: Store, directory: Path, index: int, *, say: Callable[[str], object] = lambda text: None
    ) -> None:
        self._store, self._directory, self._folder = store, directory, f"{CHECKPOINTS}/{index}"
        self._known: dict[str, _Stamp] = {}
        self._objects: dict[tuple[str, _Stamp], str] = {}
        # Of two agents of this instance, neither replaces what the other one stored.
        self._mine, self._stored = secrets.token_hex(4), 0
        self._say = say
        self._left_out: set[str] = set()

    def download(self) -> int:
        """Bring the files of the last attempt; return how many there are.

        Raises:
            StoreError: The store cannot be read.
        """
        inside = Inside(self._directory)
        objects = self._index()
        for name, place in objects.items():
            inside.write(name, bytes(self._store.get(place)))
        self._known = {name: stamp for name, stamp in self._files().items() if name in objects}
        self._objects = {(name, stamp): objects[name] for name, stamp in self._known.items()}
        self._forget_all_but(set(objects.values()))
        return len(objects)

    def upload(self, *, is_stopping: Callable[[], bool] = lambda: False) -> bool:
        """Store the files if any are new, have changed or are gone; return whether the store has all of them.

        It has not if this is stopping, or if a file changed or vanished meanwhile; the next call stores the rest.

        Raises:
            StoreError: The store rejects it.
        """
        now = self._files()
        if now == self._known:
            return True
        for name, stamp in now.items():
            if (name, stamp) in self._objects:
                continue
            if is_stopping() or not self._store_file(name, stamp):
                return False
        kept = {(name, stamp): self._objects[name, stamp] for name, stamp in now.items()}
        index = {name: place for (name, _), place in kept.items()}
        self._store.put(f"{self._folder}/{_INDEX}", json.dumps(index).encode())
        gone = set(self._objects.values()) - set(index.values())
        self._known, self._objects = now, kept
        for place in gone:
            self._store.delete(place)
        return True

    def _leave_out(self, name: str, why: str) -> None:
        if name not in self._left_out:
            self._left_out.add(name)
            self._say(f"The checkpoint file {_escaped(name)} is not stored: {why}.")

    def _store_file(self, name: str, stamp: _Stamp) -> bool:
        """Store a file; return whether it stayed the same meanwhile."""
        # The index has the real name, which may be one that no store accepts.
        place = f"{self._folder}/{self._mine}-{self._stored:06d}/{name if _PLAIN.fullmatch(name) else 'file'}"
        self._stored += 1
        try:
            put_parts(self._store, place, _parts_of_file(self._directory / name))
        except FileNotFoundError:
            return False  # a temporary file that was renamed
        self._objects[name, stamp] = place
        return _stamp_of(self._directory / name) == stamp

    def _files(self) -> dict[str, _Stamp]:
        found: dict[str, _Stamp] = {}
        for folder, _, names in os.walk(self._directory):
            for path in (Path(folder, name) for name in names):
                if (stamp := _stamp_of(path)) is None:
                    continue
                name = path.relative_to(self._directory).as_posix()
                if _BACKSLASH in name:
                    self._leave_out(name, "its name has a backslash")
                elif os.access(path, os.R_OK):
                    found[name] = stamp
                elif path.exists():
                    self._leave_out(name, "it cannot be read")
        return dict(sorted(found.items()))

    def _index(self) -> dict[str, str]:
        try:
            objects: dict[str, str] = json.loads(bytes(self._store.get(f"{self._folder}/{_INDEX}")))
        except ObjectNotFound:
            return {}
        return objects

    def _forget_all_but(self, places: set[str]) -> None:
        """Delete what an attempt stored that was lost before it replaced the index."""
        for item in self._store.list(self._folder):
            if item.name not in places and item.name != f"{self._folder}/{_INDEX}":
                self._store.delete(item.name)


def _stamp_of(path: Path) -> _Stamp | None:
    """Return the stamp of a file; None if it is gone, such as a temporary file that was renamed, or is no file."""
    try:
        state = path.stat()
    except OSError:
        return None
    return (state.st_size, state.st_mtime_ns, state.st_ino) if stat.S_ISREG(state.st_mode) else None
