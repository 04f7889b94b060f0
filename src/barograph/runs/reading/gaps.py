"""Missing and surplus chunks, by their numbers."""

from __future__ import annotations

from collections.abc import Iterator

from barograph.runs.format.layout import ENDINGS, RETENTION, ChunkName
from barograph.runs.format.metadata import ending_from_bytes, removed_through_from_bytes
from barograph.runs.state.metadata_reader import MetadataReader
from barograph.runs.state.survey import Stream, Survey, survey
from barograph.store.base import Store


class Gaps:
    """Reports missing chunks without a retention note, and chunks after the last one.

    Args:
        store: Store of the run.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last_chunks: dict[Stream, int] = {}
        self._metadata = MetadataReader(store)

    def named(self, found: Survey) -> list[str]:
        """Return one sentence for each gap, and for each damaged metadata file that could explain one.

        Args:
            found: Contents of the run. If something seems to be missing, they are read again: a listing may contain
                neither the old files nor the one merged from them.

        Raises:
            StoreError: The store cannot be read.
        """
        if any(self._of_run(found)):
            return [*self._of_run(survey(self._store)), *self._metadata.damage]
        return list(self._metadata.damage)

    def _of_run(self, found: Survey) -> Iterator[str]:
        ended = {(attempt, worker) for folder, worker, attempt in found.metadata if folder == ENDINGS}
        for stream in sorted({*found.chunks, *ended}):
            last_chunk = self._last_chunk(stream) if stream in ended else None
            yield from self._of_stream(found, stream, last_chunk)

    def _of_stream(self, found: Survey, stream: Stream, last_chunk: int | None) -> Iterator[str]:
        spans = [(file.first, file.last) for file in found.files(stream)]
        if last_chunk is not None:
            yield from (beyond_last(file, last_chunk) for file in found.files(stream) if file.first > last_chunk)
            spans = [*(span for span in spans if span[0] <= last_chunk), (last_chunk + 1, last_chunk)]
        expected = 0
        for first, last in spans:
            if first > expected and (begin := max(expected, self._removed_through(found, stream) + 1)) < first:
                yield missing_chunks(stream, begin, first)
            expected = max(expected, last + 1)

    def _last_chunk(self, stream: Stream) -> int | None:
        if stream not in self._last_chunks:
            attempt, worker = stream
            stored = self._metadata.read(ENDINGS, worker, attempt, ending_from_bytes)
            if stored is None:
                return None
            self._last_chunks[stream] = stored[1]
        return self._last_chunks[stream]

    def _removed_through(self, found: Survey, stream: Stream) -> int:
        attempt, worker = stream
        if (RETENTION, worker, attempt) not in found.metadata:
            return -1
        stored = self._metadata.read(RETENTION, worker, attempt, removed_through_from_bytes)
        return -1 if stored is None else stored


def beyond_last(file: ChunkName, last_chunk: int) -> str:
    """Return the message for a file after the last chunk of its worker."""
    whose = f"worker {file.worker} in attempt {file.attempt}"
    what = f"The file comes after chunk {last_chunk}, the last that {whose} published"
    return f"{what}. It is not part of the run ({file})."


def missing_chunks(stream: Stream, first: int, before: int) -> str:
    """Return the message for missing chunks.

    Example:
        >>> missing_chunks((0, "p0"), 3, 4)
        'Chunk 3 of worker p0 in attempt 0 cannot be read.'
    """
    attempt, worker = stream
    which = f"Chunk {first}" if first == before - 1 else f"Chunks {first} to {before - 1}"
    return f"{which} of worker {worker} in attempt {attempt} cannot be read."
