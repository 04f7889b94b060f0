"""What is in a run's folder: which files are to be read, which are superseded, which are foreign."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from barograph.runs.layout import (
    ATTEMPTS,
    CONTROL,
    FINDINGS,
    MANIFEST,
    WATCH,
    ChunkName,
    TensorsName,
    attempt_from_name,
    chunk_from_name,
    paper_from_name,
    tensors_from_name,
)
from barograph.store.base import ObjectInfo, Store

Stream = tuple[int, str]
"""An attempt and a worker: those files of records belong together and are numbered through."""


@dataclass(frozen=True, slots=True)
class Survey:
    """One look at all names in a run.

    Attributes:
        chunks: For each stream its files of records, those too whose rows are all in another one.
        tensors: For each stream the files of tensors, in order.
        papers: Folder, worker and attempt of each worker's paper.
        attempts: Attempts that were begun.
        foreign: Names that mean nothing here.
        size_bytes: Name to size, of every object.
        has_manifest: There is a `run.json`.
    """

    chunks: Mapping[Stream, Sequence[ChunkName]]
    tensors: Mapping[Stream, Sequence[TensorsName]]
    papers: frozenset[tuple[str, str, int]]
    attempts: Sequence[int]
    foreign: Sequence[str]
    size_bytes: Mapping[str, int]
    has_manifest: bool

    def files(self, stream: Stream, damaged: Collection[str] = ()) -> Sequence[ChunkName]:
        """Return the files of a stream to read, in order, none overlapping.

        Args:
            stream: Which.
            damaged: Names that cannot be read. Where one was made of several and these are still there, they
                stand in for it.
        """
        kept: list[ChunkName] = []
        for file in self.chunks.get(stream, ()):
            # Files are made one whole and side by side, so ranges lie in one another or apart; see `conflicts`.
            if str(file) not in damaged and (not kept or file.first > kept[-1].last):
                kept.append(file)
        return kept

    def conflicts(self, stream: Stream, damaged: Collection[str] = ()) -> list[ChunkName]:
        """Return the files of a stream that are passed over though their rows are not all in another one.

        Nobody who writes as `FORMAT.md` says leaves such files: two with the same range, or ranges of which neither
        lies in the other. Which of them is read does not depend on who asks: see `files`.
        """
        kept: list[ChunkName] = []
        beside: list[ChunkName] = []
        for file in self.chunks.get(stream, ()):
            if str(file) in damaged:
                continue
            if not kept or file.first > kept[-1].last:
                kept.append(file)
            elif file.last > kept[-1].last or (file.first, file.last) == (kept[-1].first, kept[-1].last):
                beside.append(file)
        return beside

    def conflict_damage(self, stream: Stream, damaged: Collection[str] = ()) -> list[str]:
        """Return one sentence for each of `conflicts`."""
        return [
            f"The file is not read: another one of this worker and attempt holds chunks of the same numbers ({file})."
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


def survey(store: Store) -> Survey:
    """Return what is in the run.

    While files are being made one, a listing may catch neither the new file nor the old ones. So where a
    number is missing, it is looked again: the new file was there before the old ones went.

    Raises:
        StoreError: The store cannot be read.
    """
    found = surveyed(store.list())
    return surveyed(store.list()) if found.has_gap else found


def surveyed(listing: Iterable[ObjectInfo]) -> Survey:
    """Return what a listing says."""
    chunks: dict[Stream, list[ChunkName]] = {}
    tensors: dict[Stream, list[TensorsName]] = {}
    papers: set[tuple[str, str, int]] = set()
    attempts: list[int] = []
    foreign: list[str] = []
    sizes: dict[str, int] = {}
    for name, size_bytes, _ in listing:
        sizes[name] = size_bytes
        if chunk := chunk_from_name(name):
            chunks.setdefault((chunk.attempt, chunk.worker), []).append(chunk)
        elif tensor := tensors_from_name(name):
            tensors.setdefault((tensor.attempt, tensor.worker), []).append(tensor)
        elif paper := paper_from_name(name):
            papers.add(paper)
        elif name.startswith(f"{ATTEMPTS}/") and (attempt := attempt_from_name(name)) is not None:
            attempts.append(attempt)
        elif name != MANIFEST and name.partition("/")[0] not in (FINDINGS, WATCH, CONTROL):
            foreign.append(name)
    return Survey(
        chunks={stream: sorted(named, key=_widest_first) for stream, named in sorted(chunks.items())},
        tensors={stream: sorted(named) for stream, named in sorted(tensors.items())},
        papers=frozenset(papers),
        attempts=sorted(attempts),
        foreign=sorted(foreign),
        size_bytes=sizes,
        has_manifest=MANIFEST in sizes,
    )


def _widest_first(file: ChunkName) -> tuple[int, int, str]:
    return file.first, -file.last, file.digest
