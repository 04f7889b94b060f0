"""What is in a run's folder: which files are to be read, which are superseded, which are foreign."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.runs.format.layout import (
    ATTEMPTS,
    CAPSULES,
    CHECKPOINTS,
    CONTROL,
    ENDINGS,
    FINDINGS,
    IMPORTED,
    JOURNAL,
    MANIFEST,
    ORIGIN,
    OUTPUT,
    RETENTION,
    WATCH,
    ChunkName,
    CurvesName,
    TensorsName,
    TraceName,
    attempt_from_name,
    metadata_from_name,
    metadata_name,
    tensors_from_name,
)
from barograph.runs.format.metadata import ending_from_bytes, removed_through_from_bytes
from barograph.store.base import ObjectInfo, Store

Stream = tuple[int, str]
"""An attempt and a worker: those files of records belong together and are numbered through."""


class _SortedOut(NamedTuple):
    """The files of one stream: those to read, and those passed over though their rows are not all in these."""

    kept: Sequence[ChunkName]
    beside: Sequence[ChunkName]


@dataclass(frozen=True, slots=True)
class Survey:
    """One look at all names in a run.

    Attributes:
        chunks: For each stream its files of records, those too whose rows are all in another one.
        tensors: For each stream the files of tensors, in order.
        curves: For each stream the files of buckets, in order, of several that begin alike the widest first.
        metadata files: Folder, worker and attempt of each worker's metadata file.
        attempts: Attempts that were begun.
        foreign: Names that mean nothing here.
        size_bytes: Name to size, of every object.
        has_manifest: There is a `run.json`.
        named: Name to file of records, of every one.
    """

    chunks: Mapping[Stream, Sequence[ChunkName]]
    tensors: Mapping[Stream, Sequence[TensorsName]]
    curves: Mapping[Stream, Sequence[CurvesName]]
    metadata: frozenset[tuple[str, str, int]]
    attempts: Sequence[int]
    foreign: Sequence[str]
    size_bytes: Mapping[str, int]
    has_manifest: bool
    named: Mapping[str, ChunkName] = field(repr=False)
    _sorted_out: dict[tuple[Stream, frozenset[str]], _SortedOut] = field(default_factory=dict, repr=False)

    def files(self, stream: Stream, damaged: Collection[str] = ()) -> Sequence[ChunkName]:
        """Return the files of a stream to read, in order, none overlapping.

        Args:
            stream: Which.
            damaged: Names that cannot be read. Where one was made of several and these are still there, they
                stand in for it.
        """
        return self._sort_out(stream, damaged).kept

    def file_from(self, stream: Stream, chunk: int, damaged: Collection[str] = ()) -> ChunkName | None:
        """Return the first of the files to read that holds this chunk or a later one; None where there is none."""
        files = self.files(stream, damaged)
        at = bisect_left(files, chunk, key=attrgetter("last"))
        return files[at] if at < len(files) else None

    def conflicts(self, stream: Stream, damaged: Collection[str] = ()) -> Sequence[ChunkName]:
        """Return the files of a stream that are passed over though their rows are not all in another one.

        Nobody who writes as `FORMAT.md` says leaves such files: two with the same range, or ranges of which neither
        lies in the other. Which of them is read does not depend on who asks: see `files`.
        """
        return self._sort_out(stream, damaged).beside

    def _sort_out(self, stream: Stream, damaged: Collection[str]) -> _SortedOut:
        """Return what `files` and `conflicts` do, found in one walk and once for each set of damaged names."""
        asked = stream, frozenset(damaged)
        if asked not in self._sorted_out:
            kept: list[ChunkName] = []
            beside: list[ChunkName] = []
            for file in self.chunks.get(stream, ()):
                if damaged and str(file) in damaged:
                    continue
                # Files are made one whole and side by side, so ranges lie in one another or apart.
                if not kept or file.first > kept[-1].last:
                    kept.append(file)
                elif file.last > kept[-1].last or (file.first, file.last) == (kept[-1].first, kept[-1].last):
                    beside.append(file)
            self._sorted_out[asked] = _SortedOut(kept, beside)
        return self._sorted_out[asked]

    def conflict_damage(self, stream: Stream, damaged: Collection[str] = ()) -> list[str]:
        """Return one sentence for each of `conflicts`."""
        return [
            f"The file is skipped: another file of this worker and attempt has chunks with the same numbers ({file})."
            for file in self.conflicts(stream, damaged)
        ]

    def superseded(self) -> list[ChunkName]:
        """Return the files whose rows are all in another one; left by compaction."""
        return [
            file for stream, files in self.chunks.items()
            for file in set(files) - set(self.files(stream)) - set(self.conflicts(stream))
        ]

    @property
    def has_gap(self) -> bool:
        """Whether a number is missing between two files of one stream."""
        neighbours = (pair for stream in self.chunks for pair in pairwise(self.files(stream)))
        return any(later.first > earlier.last + 1 for earlier, later in neighbours)

    def has_gap_at_an_end(self, store: Store, last_chunks: dict[Stream, int]) -> bool:
        """Return whether numbers are missing before the first file of a stream, or after its last.

        What is before was removed, as a note says, or is missing; what is after, the ending tells.

        Args:
            store: The run's.
            last_chunks: What endings were found to tell; more is added.

        Raises:
            StoreError: These metadata files cannot be read.
        """
        ended = {(attempt, worker) for folder, worker, attempt in self.metadata if folder == ENDINGS}
        for stream in ended - set(last_chunks):
            last_chunks[stream] = self._told(ENDINGS, stream, store, _last_chunk)
        return any(self._lacks_an_end(stream, store, last_chunks) for stream in ended | set(self.chunks))

    def _lacks_an_end(self, stream: Stream, store: Store, last_chunks: Mapping[Stream, int]) -> bool:
        files = self.files(stream)
        first, last = (files[0].first, files[-1].last) if files else (0, -1)
        removed_through = -1
        if first > 0 or not files:
            removed_through = self._told(RETENTION, stream, store, removed_through_from_bytes)
        return first > removed_through + 1 or max(last, removed_through) < last_chunks.get(stream, -1)

    def _told(self, folder: str, stream: Stream, store: Store, read: Callable[[memoryview, str], int]) -> int:
        """Return the chunk that a metadata file speaks of; -1 where there is none that can be read."""
        attempt, worker = stream
        if (folder, worker, attempt) not in self.metadata:
            return -1
        name = metadata_name(folder, worker, attempt)
        try:
            return read(store.get(name), name)
        except (DamagedChunk, ObjectNotFound):
            return -1


def survey(store: Store, last_chunks: dict[Stream, int] | None = None) -> Survey:
    """Return what is in the run.

    While files are being made one, a listing may catch neither the new file nor the old ones. So where a
    number is missing (between two files, before the first, after the last that the worker's ending speaks of),
    it is looked again: the new file was there before the old ones went.

    Args:
        store: The run's.
        last_chunks: Kept by whoever looks again and again: what endings say never changes.

    Raises:
        StoreError: The store cannot be read.
    """
    found = surveyed(store.list())
    if found.has_gap or found.has_gap_at_an_end(store, {} if last_chunks is None else last_chunks):
        return surveyed(store.list())
    return found


def surveyed(listing: Iterable[ObjectInfo], before: Survey | None = None) -> Survey:
    """Return what a listing says.

    Args:
        listing: Of a run.
        before: What an earlier one said, which saves taking the same names apart again.
    """
    known = before.named if before else {}
    named: dict[str, ChunkName] = {}
    chunks: dict[Stream, list[ChunkName]] = {}
    tensors: dict[Stream, list[TensorsName]] = {}
    curves: dict[Stream, list[CurvesName]] = {}
    metadata: set[tuple[str, str, int]] = set()
    attempts: list[int] = []
    foreign: list[str] = []
    sizes: dict[str, int] = {}
    for name, size_bytes, _ in listing:
        sizes[name] = size_bytes
        if chunk := known.get(name) or ChunkName.from_name(name):
            named[name] = chunk
            chunks.setdefault((chunk.attempt, chunk.worker), []).append(chunk)
        elif tensor := tensors_from_name(name):
            tensors.setdefault((tensor.attempt, tensor.worker), []).append(tensor)
        elif buckets := CurvesName.from_name(name):
            curves.setdefault((buckets.attempt, buckets.worker), []).append(buckets)
        elif metadata_file := metadata_from_name(name):
            metadata.add(metadata_file)
        elif name.startswith(f"{ATTEMPTS}/") and (attempt := attempt_from_name(name)) is not None:
            attempts.append(attempt)
        elif TraceName.from_name(name):
            continue  # `trace` reads these, and `doctor` looks at them
        elif name != MANIFEST and name.partition("/")[0] not in _OTHERS:
            foreign.append(name)
    return Survey(
        chunks={stream: sorted(named, key=_widest_first) for stream, named in sorted(chunks.items())},
        tensors={stream: sorted(named) for stream, named in sorted(tensors.items())},
        curves={stream: sorted(named, key=_widest_first) for stream, named in sorted(curves.items())},
        metadata=frozenset(metadata),
        attempts=sorted(attempts),
        foreign=sorted(foreign),
        size_bytes=sizes,
        has_manifest=MANIFEST in sizes,
        named=named,
    )


_OTHERS = (FINDINGS, WATCH, CONTROL, CHECKPOINTS, CAPSULES, IMPORTED, JOURNAL, ORIGIN, OUTPUT)


def _last_chunk(data: memoryview, name: str) -> int:
    return ending_from_bytes(data, name)[1]


def _widest_first(file: ChunkName | CurvesName) -> tuple[int, int, str]:
    return file.first, -file.last, file.digest
