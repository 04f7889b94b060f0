"""Provenance of a run: command, code, packages, environment, machine, data. One `Origin` an attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

_Kind = TypeVar("_Kind")

Parameter = bool | int | float | str | list[Any]
"""Value of an option of the script."""


@dataclass(frozen=True, slots=True)
class Untrained:
    """A script that ended without a training step.

    Attributes:
        frameworks: Frameworks that it had imported, by the names that their projects use.
        loops: Whether its main file has a loop.
        error: The error that ended it, in one line; "" if none did.
    """

    frameworks: tuple[str, ...]
    loops: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the script, from its own parser of the command line.

    Attributes:
        value: Typed value, or the default.
        flags: How it is passed: "--lr", "-l"; "lr=" if the value is in the same word, as with Hydra; empty for
            positional ones.
    """

    value: Parameter
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Submodule:
    """A git submodule.

    Attributes:
        path: Path from the root of its parent repository.
        commit: Commit that was checked out; "" if none was.
        dirty: It had changes. They are not recorded.
    """

    path: str
    commit: str
    dirty: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of the code that was not recorded.

    Attributes:
        what: Path, or description.
        why: Reason for people.
    """

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Code:
    """State of the repository in which the command was started.

    Attributes:
        root: Root folder.
        remote: URL of the remote, without credentials; "" if none.
        branch: Branch; "" if none is checked out.
        commit: Commit; "" before the first one, then `diff` has all tracked files.
        dirty: Tracked files differ from the commit, or there are untracked files that are not ignored.
        describe: Output of `git describe`.
        shallow: Whether the clone is shallow.
        submodules: Submodules.
        deleted: Paths of the commit that were missing.
        diff: Name of the object with the differences from the commit, staged or not; "" if none.
        untracked: Name of the object with the untracked files; "" if none.
        left_out: Parts that are in neither, or not completely.
    """

    root: str
    remote: str = ""
    branch: str = ""
    commit: str = ""
    dirty: bool = False
    describe: str = ""
    shallow: bool = False
    submodules: tuple[Submodule, ...] = ()
    deleted: tuple[str, ...] = ()
    diff: str = ""
    untracked: str = ""
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True)
class Package:
    """An installed distribution.

    Attributes:
        version: Version.
        digest: Digest of the files in its RECORD, the same on every machine; "" if it has none.
        source: Source of the installation, if not an index: "editable file:…", "git https:…@COMMIT", "file file:…".
    """

    version: str
    digest: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Hardware:
    """Hardware of the machine.

    Attributes:
        processor: Name of the CPU; "" if unknown.
        cores: Cores that the process may use.
        memory_bytes: Memory of the machine, or of the container.
        gpus: Names of the GPUs that the training may use.
        system: Operating system and its version.
    """

    processor: str = ""
    cores: int = 0
    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()
    system: str = ""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that the training opened for reading.

    Attributes:
        path: Absolute path.
        size_bytes, modified_ns: Size and modification time when it was opened.
        fingerprint: 128-bit XXH3; "" if it could not be computed.
        whole: The fingerprint covers all bytes; otherwise size, head and tail.
        problem: Why it has no fingerprint; "" if it has one.
        sha256: SHA-256 of all bytes, by which logged artifacts are identified; "" if not all bytes were read.
    """

    path: str
    size_bytes: int
    modified_ns: int
    fingerprint: str = ""
    whole: bool = True
    problem: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Provenance of one attempt of a run. Secrets are replaced by `***` everywhere.

    Attributes:
        command: Command as typed.
        program: The script in the command, or the program.
        script: Path of the script from the root of the repository; "" if it is in none.
        directory: Working directory.
        interpreter: Python executable; "" if unknown.
        python_version: Its version.
        code: State of the repository; None if there is none or git failed, then `problems` has the reason.
        packages: Installed distributions by name.
        environment: Environment variables that affect training and contain no secret.
        seeds: Seeds and determinism switches, from the environment and the parameters.
        hardware: Hardware of the machine.
        host: Name of the machine.
        user: User name.
        parameters: Options of the script: those typed, and the defaults of its parser.
        flags: Parameter to its flags, for parameters of its parser.
        data: Files opened for reading.
        data_uncounted: Number of further files.
        derived_from: ID of the run that this one reruns; "" if none.
        settings: Name of the object with the `barograph.toml` that was used; "" if none.
        started_unix: Start time.
        problems: What could not be determined, one sentence each.
    """

    command: tuple[str, ...] = ()
    program: str = ""
    script: str = ""
    directory: str = ""
    interpreter: str = ""
    python_version: str = ""
    code: Code | None = None
    packages: Mapping[str, Package] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    seeds: Mapping[str, Parameter] = field(default_factory=dict)
    hardware: Hardware = Hardware()
    host: str = ""
    user: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    data: tuple[DataFile, ...] = ()
    data_uncounted: int = 0
    derived_from: str = ""
    settings: str = ""
    started_unix: float = 0.0
    problems: tuple[str, ...] = ()

    @property
    def given(self) -> tuple[DataFile, ...]:
        """The files of `data` that existed before the run started; it wrote the others itself.

        Example:
            >>> files = DataFile("given", 1, 99 * 10**9), DataFile("made", 1, 101 * 10**9)
            >>> [file.path for file in Origin(started_unix=100.0, data=files).given]
            ['given']
        """
        if not self.started_unix:
            return self.data
        return tuple(file for file in self.data if file.modified_ns < self.started_unix * 1e9)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


def origin_from_json(data: Mapping[str, Any]) -> Origin:
    """Return the origin from the output of `Origin.to_json`; unknown entries are ignored.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: The data is not an origin.
    """
    known = _known(Origin, data)
    if known.get("code") is not None:
        known["code"] = _code(known["code"])
    known["packages"] = packages_from_json(known.get("packages", {}))
    known["hardware"] = _made(Hardware, known.get("hardware", {}))
    known["data"] = tuple(_made(DataFile, item) for item in known.get("data", ()))
    return Origin(**known)


def packages_from_json(data: Mapping[str, Any]) -> dict[str, Package]:
    """Return packages by name from their JSON data; raises as `origin_from_json`."""
    return {str(name): _made(Package, item) for name, item in data.items()}


def with_options(origin: Origin, options: Mapping[str, Option]) -> Origin:
    """Return an origin with parameters from the script's parser instead of guesses from the command line.

    Example:
        >>> made = with_options(Origin(parameters={"batch-size": 8, "other": 1}),
        ...                     {"batch_size": Option(8, ("--batch-size", "-b")), "lr": Option(0.1, ("--lr",))})
        >>> dict(made.parameters)
        {'batch_size': 8, 'lr': 0.1, 'other': 1}
    """
    typed = {flag.lstrip("-").rstrip("=") for option in options.values() for flag in option.flags}
    parameters = {name: option.value for name, option in options.items()}
    parameters |= {name: value for name, value in origin.parameters.items() if name not in typed}
    return replace(origin, parameters=parameters, flags={name: option.flags for name, option in options.items()})


def data_from_json(data: Mapping[str, Any]) -> DataFile:
    """Return a data file from its JSON data."""
    return _made(DataFile, data)


def _code(data: Mapping[str, Any]) -> Code:
    known = _known(Code, data)
    known["submodules"] = tuple(_made(Submodule, item) for item in known.get("submodules", ()))
    known["left_out"] = tuple(_made(LeftOut, item) for item in known.get("left_out", ()))
    return Code(**known)


def _made(kind: type[_Kind], data: Mapping[str, Any]) -> _Kind:
    return kind(**_known(kind, data))


def _known(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    found = {item.name: data[item.name] for item in fields(kind) if item.name in data}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
