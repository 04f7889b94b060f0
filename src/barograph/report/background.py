"""What a report says of a run beside its records: what made it, what was said of it, what it read and made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SourceCode:
    """The repository that the command was started in.

    Attributes:
        repository: Where it is fetched from, or its folder.
        branch, commit: As they were; "" where there was none.
        describe: The commit by its nearest tag.
        dirty: Files were changed since the commit, or new.
        changed: Which, as far as the run keeps them.
        left_out: What the run does not keep of them, with the reason.
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
    """A file that the training opened to read.

    Attributes:
        path: The whole.
        size_bytes: As it was then.
        fingerprint: XXH3; "" where none could be taken.
    """

    path: str
    size_bytes: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Made:
    """What made the run, its newest attempt. Secrets are replaced by `***`.

    Attributes:
        directory: In which the command was typed.
        code: None where there was no repository.
        python: Version and path of the interpreter; "" where that is not known.
        packages: Name to version.
        environment: Variables that say something of the training.
        seeds: Seeds and switches of determinism.
        machine: Name, processor, memory, GPUs and system, a text each.
        user: Who.
        data: Files that were opened.
        data_left_out: How many more were.
        derived_from: Id of the run that it is a rerun of; "" where it is none.
        problems: What could not be learnt, a sentence each.
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
    """What somebody said of the run.

    Attributes:
        time_unix: When.
        by: Who; "" where that is not known.
        text: What, in Markdown.
    """

    time_unix: float
    by: str
    text: str


@dataclass(frozen=True, slots=True)
class ArtifactFacts:
    """A file or an address that the run read or made.

    Attributes:
        role: "input" or "output".
        name: By which the run calls it.
        uri: Where it is.
        media_type: What it is made of; "" where that is not known.
        digest: Of its bytes; "" where it was not computed.
        size_bytes: How large it is; -1 where that is not known.
    """

    role: str
    name: str
    uri: str
    media_type: str
    digest: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Background:
    """What is known of a run beside its records.

    Attributes:
        made: What made it; None where that was not kept.
        description: What it is, in Markdown; "" where nobody said so.
        trials: Experiment and trial that it belongs to.
        parameters: By name.
        tags: By name.
        notes: Oldest first.
        artifacts: That it read, then that it made.
        damage: What of this could not be read, a sentence each.
    """

    made: Made | None = None
    description: str = ""
    trials: tuple[tuple[str, str], ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Remark, ...] = ()
    artifacts: tuple[ArtifactFacts, ...] = ()
    damage: tuple[str, ...] = ()
