"""What a script leaves: its model and output become artifacts of the run, its checkpoints are there again later."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from barograph.errors import ObjectNotFound
from barograph.jobs.layout import InstanceLayout
from barograph.runs.format.layout import JOB, MANIFEST
from barograph.runs.format.metadata import manifest_from_bytes
from barograph.store.base import Store
from barograph.store.inside import Inside
from barograph.store.streaming import put_parts

CHECKPOINTS = f"{JOB}/checkpoints"
_PART_BYTES = 2**20


def upload_outputs(run: Store, layout: InstanceLayout, index: int, *, now_unix: float) -> int:
    """Store the model and the output of an instance as artifacts of the run; return how many files there are.

    The files of the first instance are called `model/…` and `output/…`, those of others `algo-2/model/…`.

    Raises:
        SettingsError: A file changed meanwhile, or has an impossible name.
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
    links = [artifact_of(root, path, prefix + name, media_type="", copy=True) for path, name in found]
    Journal(run, JOURNAL_OF_RUN).write([Entry(uid, Verb.OUTPUT, asdict(link), now_unix) for link in links])
    return len(links)


def _parts_of_file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(_PART_BYTES):
            yield part


class CheckpointSync:
    """Keeps the checkpoint directory of a script in the job's store.

    Args:
        store: Store of the job.
        directory: What the script knows as `SM_CHECKPOINT_DIR`.
        index: Which instance.
    """

    def __init__(self, store: Store, directory: Path, index: int) -> None:
        self._store, self._directory, self._folder = store, directory, f"{CHECKPOINTS}/{index}"
        self._known: dict[str, tuple[int, int]] = {}

    def download(self) -> int:
        """Bring the files of the last attempt; return how many there are.

        Raises:
            StoreError: The store cannot be read.
        """
        inside = Inside(self._directory)
        names = self._names()
        for name in names:
            inside.write(name, bytes(self._store.get(f"{self._folder}/files/{name}")))
            self._known[name] = self._stamp(self._directory / name)
        return len(names)

    def upload(self, *, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """Store files that are new or have changed, and forget those that are gone.

        Raises:
            StoreError: The store rejects it.
        """
        now = {path.relative_to(self._directory).as_posix(): self._stamp(path)
               for path in sorted(self._directory.rglob("*")) if path.is_file()}
        if now == self._known:
            return
        for name, stamp in now.items():
            if self._known.get(name) != stamp and not is_stopping():
                put_parts(self._store, f"{self._folder}/files/{name}", _parts_of_file(self._directory / name))
        self._store.put(f"{self._folder}/names.json", json.dumps(sorted(now)).encode())
        for name in self._known.keys() - now.keys():
            self._store.delete(f"{self._folder}/files/{name}")
        self._known = now

    def _names(self) -> list[str]:
        try:
            names: list[str] = json.loads(bytes(self._store.get(f"{self._folder}/names.json")))
        except ObjectNotFound:
            return []
        return names

    @staticmethod
    def _stamp(path: Path) -> tuple[int, int]:
        state = path.stat()
        return state.st_size, state.st_mtime_ns
