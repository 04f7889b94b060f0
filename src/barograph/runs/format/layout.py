"""Names of the objects of a run. `FORMAT.md` in this folder documents them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import ClassVar, Self

MANIFEST = "run.json"
ATTEMPTS, WORKERS, HEARTBEATS, ENDINGS, RETENTION = "attempts", "workers", "heartbeats", "endings", "retention"
RECORDS, TENSORS = "records", "tensors"
FINDINGS, WATCH, CONTROL, CHECKPOINTS, CAPSULES = "findings", "watch", "control", "checkpoints", "capsules"
TRACE, IMPORTED, JOURNAL = "trace", "imported", "journal"
ORIGIN, OUTPUT, CURVES, JOB = "origin", "output", "curves", "job"

FOLDERS = (
    ATTEMPTS, WORKERS, HEARTBEATS, ENDINGS, RETENTION, RECORDS, TENSORS, FINDINGS, WATCH, CONTROL, CHECKPOINTS,
    CAPSULES, TRACE, IMPORTED, JOURNAL, ORIGIN, OUTPUT, CURVES, JOB,
)
"""All folders of a run; objects outside of them are foreign."""

DIGEST_CHARS = 32
"""128 bits of SHA-256, in hexadecimal."""

_WORKER = r"(?P<worker>[rp][0-9]+)"
_DIGEST = rf"(?P<digest>[0-9a-f]{{{DIGEST_CHARS}}})"
_WHICH = r"(?P<attempt>\d{4,})"
_RANGE = re.compile(rf"{_WORKER}/{_WHICH}-(?P<first>\d{{8,}})-(?P<last>\d{{8,}})\.{_DIGEST}\.[a-z]+")
_TENSORS = re.compile(rf"{TENSORS}/{_WORKER}/{_WHICH}-(?P<chunk>\d{{8,}})\.{_DIGEST}\.safetensors")
_METADATA_NAME = re.compile(rf"(?P<folder>{WORKERS}|{HEARTBEATS}|{ENDINGS}|{RETENTION})/{_WORKER}-{_WHICH}\.json")
_ATTEMPT = re.compile(rf"{ATTEMPTS}/{_WHICH}\.json")


@dataclass(frozen=True, slots=True, order=True)
class RangeName:
    """A file of one worker with one part as first published, or several merged parts.

    Attributes:
        worker: Worker that recorded it.
        attempt: Its attempt.
        first, last: Sequence numbers of its parts; equal for one part.
        digest: Digest of the file, see `digest_of`.
    """

    folder: ClassVar[str]
    suffix: ClassVar[str]

    worker: str
    attempt: int
    first: int
    last: int
    digest: str

    def __str__(self) -> str:
        numbers = f"{self.attempt:04d}-{self.first:08d}-{self.last:08d}"
        return f"{self.folder}/{self.worker}/{numbers}.{self.digest}.{self.suffix}"

    @classmethod
    def from_name(cls, name: str) -> Self | None:
        """Return the file with this name; None if the name is not of this type."""
        folder, _, rest = name.partition("/")
        match = _RANGE.fullmatch(rest) if folder == cls.folder else None
        if not match:
            return None
        found = cls(match["worker"], int(match["attempt"]), int(match["first"]), int(match["last"]), match["digest"])
        return found if found.first <= found.last and str(found) == name else None


class ChunkName(RangeName):
    """A records file; its parts are chunks."""

    __slots__ = ()
    folder, suffix = RECORDS, "parquet"


class TraceName(RangeName):
    """A file of the data trace. Its parts have their own numbers, independent of chunks.

    It is a Parquet file with another suffix, so that `RUN/**/*.parquet` matches only records.
    """

    __slots__ = ()
    folder, suffix = TRACE, "trace"


class CurvesName(RangeName):
    """A bucket file: the reduced plain numbers of several chunks, or of a large one; see `curves_file`.

    It is a Parquet file with another suffix, as those of the data trace.
    """

    __slots__ = ()
    folder, suffix = CURVES, "curves"


@dataclass(frozen=True, slots=True, order=True)
class TensorsName:
    """A file of whole tensors of one chunk.

    Attributes:
        worker: Worker that recorded it.
        attempt: Its attempt.
        chunk: Sequence number of the chunk with the rows of these tensors.
        digest: Digest of the file, see `digest_of`.
    """

    worker: str
    attempt: int
    chunk: int
    digest: str

    def __str__(self) -> str:
        return f"{TENSORS}/{self.worker}/{self.attempt:04d}-{self.chunk:08d}.{self.digest}.safetensors"


def digest_of(*parts: bytes | memoryview) -> str:
    """Return the digest in a file's name: the first 128 bits of its SHA-256.

    Args:
        parts: Parts of the file, in order.

    Example:
        >>> digest_of(b""), digest_of(b"ab") == digest_of(b"a", b"b")
        ('e3b0c44298fc1c149afbf4c8996fb924', True)
    """
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    return whole.hexdigest()[:DIGEST_CHARS]


def tensors_from_name(name: str) -> TensorsName | None:
    """Return the file of tensors with this name; None if the name is not of this type."""
    match = _TENSORS.fullmatch(name)
    if not match:
        return None
    tensors = TensorsName(match["worker"], int(match["attempt"]), int(match["chunk"]), match["digest"])
    return tensors if str(tensors) == name else None


def attempt_name(attempt: int) -> str:
    """Return the name of the metadata file of an attempt."""
    return f"{ATTEMPTS}/{attempt:04d}.json"


def attempt_from_name(name: str) -> int | None:
    """Return the attempt of this metadata file; None if the name is not of this type."""
    match = _ATTEMPT.fullmatch(name)
    return int(match["attempt"]) if match else None


def metadata_name(folder: str, worker: str, attempt: int) -> str:
    """Return the name of a worker's metadata file in one of the folders workers, heartbeats, endings, retention."""
    return f"{folder}/{worker}-{attempt:04d}.json"


def metadata_from_name(name: str) -> tuple[str, str, int] | None:
    """Return folder, worker and attempt of a worker's metadata file; None if the name is not of this type."""
    match = _METADATA_NAME.fullmatch(name)
    return (match["folder"], match["worker"], int(match["attempt"])) if match else None
