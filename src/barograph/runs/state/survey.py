"""Classification of the files of a run: files to read, superseded files, foreign files."""

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
"""Attempt and worker: their records files have consecutive numbers."""


class _SortedOut(NamedTuple):
    """The files of one stream: those to read, and skipped ones with other rows."""

    kept: Sequence[ChunkName]
    beside: Sequence[ChunkName]


@dataclass(frozen=True, slots=True)
class Survey:
    """One listing of a run, classified.

    Attributes:
        chunks: Records files of each stream, including superseded ones.
        tensors: Tensor files of each stream, in order.
        curves: Bucket files of each stream, in order; with the same start, the widest first.
        metadata: Folder, worker and attempt of each worker's metadata file.
        attempts: Attempts of the run.
        foreign: Unknown names.
        size_bytes: Size of every object by name.
        has_manifest: There is a `run.json`.
        named: Every records file by name.
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
            stream: The stream.
            damaged: Unreadable names. If one was merged from files that still exist, these are used instead.
        """
        return self._sort_out(stream, damaged).kept

    def file_from(self, stream: Stream, chunk: int, damaged: Collection[str] = ()) -> ChunkName | None:
        """Return the first file to read with this chunk or a later one; None if there is none."""
        files = self.files(stream, damaged)
        at = bisect_left(files, chunk, key=attrgetter("last"))
        return files[at] if at < len(files) else None

    def conflicts(self, stream: Stream, damaged: Collection[str] = ()) -> Sequence[ChunkName]:
        """Return the skipped files of a stream whose rows are not all in another one.

        A correct writer leaves no such files: two with the same range, or overlapping ranges without one containing the
        other. Every reader uses the same ones: see `files`.
        """
        return self._sort_out(stream, damaged).beside

    def _sort_out(self, stream: Stream, damaged: Collection[str]) -> _SortedOut:
        """Return the results of `files` and `conflicts`, computed once for each set of damaged names."""
        asked = stream, frozenset(damaged)
        if asked not in self._sorted_out:
            kept: list[ChunkName] = []
            beside: list[ChunkName] = []
            for file in self.chunks.get(stream, ()):
                if damaged and str(file) in damaged:
                    continue
                # Only whole adjacent files are merged, so ranges are nested or disjoint.
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
        """Return the files whose rows are all in another one, left over from compaction."""
        return [
            file for stream, files in self.chunks.items()
            for file in set(files) - set(self.files(stream)) - set(self.conflicts(stream))
        ]

    @property
    def has_gap(self) -> bool:
        """Whether a chunk is missing between two files of a stream."""
        neighbours = (pair for stream in self.chunks for pair in pairwise(self.files(stream)))
        return any(later.first > earlier.last + 1 for earlier, later in neighbours)

    def has_gap_at_an_end(self, store: Store, last_chunks: dict[Stream, int]) -> bool:
        """Return whether chunks are missing before the first file of a stream, or after its last.

        Retention notes list removed chunks, and endings have the last one.

        Args:
            store: Store of the run.
            last_chunks: Cache of last chunks from endings; extended here.

        Raises:
            StoreError: The endings or retention notes cannot be read.
        """
        ended = {(attempt, worker) for folder, worker, attempt in self.metadata if folder == ENDINGS}
        for stream in ended - set(last_chunks):
            last_chunks[stream] = self._from_metadata(ENDINGS, stream, store, _last_chunk)
        return any(self._lacks_an_end(stream, store, last_chunks) for stream in ended | set(self.chunks))

    def _lacks_an_end(self, stream: Stream, store: Store, last_chunks: Mapping[Stream, int]) -> bool:
        files = self.files(stream)
        first, last = (files[0].first, files[-1].last) if files else (0, -1)
        removed_through = -1
        if first > 0 or not files:
            removed_through = self._from_metadata(RETENTION, stream, store, removed_through_from_bytes)
        return first > removed_through + 1 or max(last, removed_through) < last_chunks.get(stream, -1)

    def _from_metadata(self, folder: str, stream: Stream, store: Store, read: Callable[[memoryview, str], int]) -> int:
        """Return the chunk in a metadata file; -1 if it is missing or unreadable."""
        attempt, worker = stream
        if (folder, worker, attempt) not in self.metadata:
            return -1
        name = metadata_name(folder, worker, attempt)
        try:
            return read(store.get(name), name)
        except (DamagedChunk, ObjectNotFound):
            return -1


def survey(store: Store, last_chunks: dict[Stream, int] | None = None) -> Survey:
    """List and classify the files of a run.

    While files are merged, a listing may miss both the new file and the old ones. So if a chunk is missing
    (between two files, before the first, after the last), the run is listed again: the new file existed before the
    old ones were deleted.

    Args:
        store: Store of the run.
        last_chunks: Cache for repeated calls; endings never change.

    Raises:
        StoreError: The store cannot be read.
    """
    found = surveyed(store.list())
    if found.has_gap or found.has_gap_at_an_end(store, {} if last_chunks is None else last_chunks):
        return surveyed(store.list())
    return found


def surveyed(listing: Iterable[ObjectInfo], before: Survey | None = None) -> Survey:
    """Classify a listing.

    Args:
        listing: Listing of a run.
        before: Result of an earlier one, to avoid parsing the same names again.
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
    for name, size_bytes, *_ in listing:
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
            continue  # read by `trace` and `doctor`
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
