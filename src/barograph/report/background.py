"""Metadata of a run in its report: origin, notes, inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SourceCode:
    """Repository of the command.

    Attributes:
        repository: URL of its remote, or its directory.
        branch, commit: "" if there was none.
        describe: The commit relative to its nearest tag.
        dirty: Whether there were uncommitted changes or new files.
        changed: Changed files, as far as they are saved.
        left_out: Changes that are not saved, with the reason.
    """

    repository: str
    branch: str
    commit: str
    describe: str
    dirty: bool
    changed: tuple[str, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file that the training read.

    Attributes:
        path: Full path.
        size_bytes: Size at that time.
        fingerprint: XXH3; "" if not computed.
    """

    path: str
    size_bytes: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Made:
    """Origin of the newest attempt of a run. Secrets are replaced by `***`.

    Attributes:
        directory: Working directory of the command.
        code: None without a repository.
        python: Version and path of the interpreter; "" if unknown.
        packages: Name to version.
        environment: Environment variables relevant for training.
        seeds: Seeds and determinism settings.
        machine: Host name, processor, memory, GPUs and system, as text.
        user: User name.
        data: Opened files.
        data_left_out: Number of opened files that are not listed.
        derived_from: ID of the original run of a rerun; "" otherwise.
        problems: What could not be recorded, one sentence each.
    """

    directory: str
    code: SourceCode | None
    python: str
    packages: Mapping[str, str]
    environment: Mapping[str, str]
    seeds: Mapping[str, Any]
    machine: tuple[str, ...]
    user: str
    data: tuple[OpenedFile, ...]
    data_left_out: int
    derived_from: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """A note on the run.

    Attributes:
        time_unix: Time of the note.
        by: Author; "" if unknown.
        text: Markdown.
    """

    time_unix: float
    by: str
    text: str


@dataclass(frozen=True, slots=True)
class ArtifactFacts:
    """An input or output of the run.

    Attributes:
        role: "input" or "output".
        name: Name in the run.
        uri: Location.
        media_type: "" if unknown.
        digest: "" if not computed.
        size_bytes: -1 if unknown.
    """

    role: str
    name: str
    uri: str
    media_type: str
    digest: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Background:
    """Metadata of a run.

    Attributes:
        made: Its origin; None if not recorded.
        description: Markdown; "" if there is none.
        trials: Pairs of experiment and trial.
        parameters: Parameters by name.
        tags: Tags by name.
        notes: Oldest first.
        artifacts: Inputs, then outputs.
        damage: What cannot be read, one sentence each.
    """

    made: Made | None = None
    description: str = ""
    trials: tuple[tuple[str, str], ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Remark, ...] = ()
    artifacts: tuple[ArtifactFacts, ...] = ()
    damage: tuple[str, ...] = ()
