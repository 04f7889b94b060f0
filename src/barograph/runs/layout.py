"""Names of the objects of a run. `FORMAT.md` beside this file says what they mean."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

MANIFEST = "run.json"
ATTEMPTS, WORKERS, HEARTBEATS, ENDINGS, RETENTION = "attempts", "workers", "heartbeats", "endings", "retention"
RECORDS, TENSORS = "records", "tensors"
FINDINGS, WATCH, CONTROL, CHECKPOINTS, CAPSULES = "findings", "watch", "control", "checkpoints", "capsules"
TRACE, IMPORTED, JOURNAL = "trace", "imported", "journal"
ORIGIN, OUTPUT, CURVES = "origin", "output", "curves"

FOLDERS = (
    ATTEMPTS, WORKERS, HEARTBEATS, ENDINGS, RETENTION, RECORDS, TENSORS, FINDINGS, WATCH, CONTROL, CHECKPOINTS,
    CAPSULES, TRACE, IMPORTED, JOURNAL, ORIGIN, OUTPUT, CURVES,
)
"""Every folder of a run; an object that is in none of them is foreign."""

DIGEST_CHARS = 32
"""128 bits of SHA-256, in hexadecimal."""

_WORKER = r"(?P<worker>[rp][0-9]+)"
_DIGEST = rf"(?P<digest>[0-9a-f]{{{DIGEST_CHARS}}})"
_WHICH = r"(?P<attempt>\d{4,})"
_CHUNK = re.compile(rf"{RECORDS}/{_WORKER}/{_WHICH}-(?P<first>\d{{8,}})-(?P<last>\d{{8,}})\.{_DIGEST}\.parquet")
_TENSORS = re.compile(rf"{TENSORS}/{_WORKER}/{_WHICH}-(?P<chunk>\d{{8,}})\.{_DIGEST}\.safetensors")
_TRACE = re.compile(rf"{TRACE}/{_WORKER}/{_WHICH}-(?P<first>\d{{8,}})-(?P<last>\d{{8,}})\.{_DIGEST}\.trace")
_CURVES = re.compile(rf"{CURVES}/{_WORKER}/{_WHICH}-(?P<first>\d{{8,}})-(?P<last>\d{{8,}})\.{_DIGEST}\.curves")
_PAPER = re.compile(rf"(?P<folder>{WORKERS}|{HEARTBEATS}|{ENDINGS}|{RETENTION})/{_WORKER}-{_WHICH}\.json")
_ATTEMPT = re.compile(rf"{ATTEMPTS}/{_WHICH}\.json")


@dataclass(frozen=True, slots=True, order=True)
class ChunkName:
    """A file of records: one chunk as it was first published, or several that were made one.

    Attributes:
        worker: Who recorded it.
        attempt: In which attempt.
        first, last: Sequence numbers of the chunks in it; equal as long as it is one.
        digest: Of the whole file, see `digest_of`.
    """

    worker: str
    attempt: int
    first: int
    last: int
    digest: str

    def __str__(self) -> str:
        return f"{RECORDS}/{self.worker}/{self.attempt:04d}-{self.first:08d}-{self.last:08d}.{self.digest}.parquet"


@dataclass(frozen=True, slots=True, order=True)
class TensorsName:
    """A file of whole tensors, which belongs to one chunk.

    Attributes:
        worker: Who recorded it.
        attempt: In which attempt.
        chunk: Sequence number of the chunk whose rows speak of these tensors.
        digest: Of the whole file, see `digest_of`.
    """

    worker: str
    attempt: int
    chunk: int
    digest: str

    def __str__(self) -> str:
        return f"{TENSORS}/{self.worker}/{self.attempt:04d}-{self.chunk:08d}.{self.digest}.safetensors"


@dataclass(frozen=True, slots=True, order=True)
class TraceName:
    """A file of the data trace: one part as it was first published, or several that were made one.

    It is a Parquet file, and not called so: whoever reads `RUN/**/*.parquet` reads records.

    Attributes:
        worker, attempt: As of `ChunkName`.
        first, last: Sequence numbers of the parts in it; they count by themselves, not as chunks do.
        digest: Of the whole file, see `digest_of`.
    """

    worker: str
    attempt: int
    first: int
    last: int
    digest: str

    def __str__(self) -> str:
        return f"{TRACE}/{self.worker}/{self.attempt:04d}-{self.first:08d}-{self.last:08d}.{self.digest}.trace"


@dataclass(frozen=True, slots=True, order=True)
class CurvesName:
    """A file of buckets: the plain numbers of several chunks, or of a large one, reduced; see `curves_file`.

    It is a Parquet file, and not called so: whoever reads `RUN/**/*.parquet` reads records.

    Attributes:
        worker, attempt, first, last: The chunks, as of `ChunkName`.
        digest: Of the whole file, see `digest_of`.
    """

    worker: str
    attempt: int
    first: int
    last: int
    digest: str

    def __str__(self) -> str:
        return f"{CURVES}/{self.worker}/{self.attempt:04d}-{self.first:08d}-{self.last:08d}.{self.digest}.curves"


def digest_of(*parts: bytes | memoryview) -> str:
    """Return the digest that a file's name carries: the first 128 bits of its SHA-256.

    Args:
        parts: Of the file, in order.

    Example:
        >>> digest_of(b""), digest_of(b"ab") == digest_of(b"a", b"b")
        ('e3b0c44298fc1c149afbf4c8996fb924', True)
    """
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    return whole.hexdigest()[:DIGEST_CHARS]


def chunk_from_name(name: str) -> ChunkName | None:
    """Return the file of records that is called so; None if the name is no such thing."""
    match = _CHUNK.fullmatch(name)
    if not match:
        return None
    chunk = ChunkName(match["worker"], int(match["attempt"]), int(match["first"]), int(match["last"]), match["digest"])
    return chunk if chunk.first <= chunk.last and str(chunk) == name else None


def tensors_from_name(name: str) -> TensorsName | None:
    """Return the file of tensors that is called so; None if the name is no such thing."""
    match = _TENSORS.fullmatch(name)
    if not match:
        return None
    tensors = TensorsName(match["worker"], int(match["attempt"]), int(match["chunk"]), match["digest"])
    return tensors if str(tensors) == name else None


def trace_from_name(name: str) -> TraceName | None:
    """Return the file of the data trace that is called so; None if the name is no such thing."""
    match = _TRACE.fullmatch(name)
    if not match:
        return None
    trace = TraceName(match["worker"], int(match["attempt"]), int(match["first"]), int(match["last"]), match["digest"])
    return trace if trace.first <= trace.last and str(trace) == name else None


def curves_from_name(name: str) -> CurvesName | None:
    """Return the file of buckets that is called so; None if the name is no such thing."""
    match = _CURVES.fullmatch(name)
    if not match:
        return None
    found = CurvesName(match["worker"], int(match["attempt"]), int(match["first"]), int(match["last"]), match["digest"])
    return found if found.first <= found.last and str(found) == name else None


def attempt_name(attempt: int) -> str:
    """Return the name of the paper that says who began the attempt."""
    return f"{ATTEMPTS}/{attempt:04d}.json"


def attempt_from_name(name: str) -> int | None:
    """Return the attempt whose paper is called so; None if the name is no such thing."""
    match = _ATTEMPT.fullmatch(name)
    return int(match["attempt"]) if match else None


def paper_name(folder: str, worker: str, attempt: int) -> str:
    """Return the name of a worker's paper in one of the folders workers, heartbeats, endings, retention."""
    return f"{folder}/{worker}-{attempt:04d}.json"


def paper_from_name(name: str) -> tuple[str, str, int] | None:
    """Return folder, worker and attempt of a worker's paper; None if the name is no such thing."""
    match = _PAPER.fullmatch(name)
    return (match["folder"], match["worker"], int(match["attempt"])) if match else None
