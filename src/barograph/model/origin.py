"""What made a run: command, code, packages, environment, machine, data. One `Origin` an attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

_Kind = TypeVar("_Kind")

Parameter = bool | int | float | str | list[Any]
"""The value of an option of the script."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the script, as its own parser of the command line had it.

    Attributes:
        value: Typed, or its default.
        flags: How it is given: "--lr", "-l"; "lr=" where its value stands in the same word, as in those of Hydra; none
            where it is given by its place.
    """

    value: Parameter
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Submodule:
    """A repository within the repository.

    Attributes:
        path: From the root of the one that it is in.
        commit: That was checked out; "" where it was not.
        dirty: Something in it was changed; what, is not kept.
    """

    path: str
    commit: str
    dirty: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that belongs to the code and is not in the run.

    Attributes:
        what: A path, or what else.
        why: For people.
    """

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Code:
    """The repository that the command was started in, as it stood then.

    Attributes:
        root: Its folder.
        remote: Where it is fetched from, without credentials; "" where it has none.
        branch: "" where none is checked out.
        commit: "" before the first one; then `diff` holds all that is tracked.
        dirty: Tracked files differ from the commit, or there are untracked ones that are not ignored.
        describe: The commit by its nearest tag.
        shallow: Its history is cut off.
        submodules: Repositories within.
        deleted: Paths of the commit that were gone.
        diff: Name of the object of the run with what differs from the commit, staged or not; "" where nothing does.
        untracked: Name of the one with the untracked files; "" where there are none.
        left_out: What is in neither, or is not whole.
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
    """A distribution that was installed.

    Attributes:
        version: Of it.
        digest: Of what its RECORD says of its files, the same on every machine; "" where it has none.
        source: How it came there, if not from an index: "editable file:…", "git https:…@COMMIT", "file file:…".
    """

    version: str
    digest: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine.

    Attributes:
        processor: Its name; "" where it is not known.
        cores: That this process may use.
        memory_bytes: Of the machine, or of the container.
        gpus: Names of those that the training may use.
        system: Operating system and its version.
    """

    processor: str = ""
    cores: int = 0
    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()
    system: str = ""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that the training opened to read.

    Attributes:
        path: The whole.
        size_bytes, modified_ns: As it was when it was opened.
        fingerprint: XXH3 of 128 bits; "" where it could not be taken.
        whole: The fingerprint is of all bytes; otherwise of size, head and tail.
        problem: Why it has no fingerprint; "" where it has one.
    """

    path: str
    size_bytes: int
    modified_ns: int
    fingerprint: str = ""
    whole: bool = True
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """What made one attempt of a run. Secrets are replaced by `***` everywhere.

    Attributes:
        command: As typed.
        program: The script, where the command says one, or the program.
        script: Path of the script from the root of the repository; "" where it is in none.
        directory: In which it was typed.
        interpreter: The Python that runs it; "" where that is not known.
        python_version: Of it.
        code: None where there is no repository, or git does not tell; `problems` say why.
        packages: Name of a distribution to what is installed.
        environment: Of the variables those that say something of the training and hold no secret.
        seeds: Seeds and switches of determinism, of the environment and of the parameters.
        hardware: The machine.
        host: Its name.
        user: Who.
        parameters: Options of the script: those that were typed, and the defaults that its parser told of.
        flags: Parameter to how it is given, of those that its parser told of.
        data: Files that were opened to read.
        data_uncounted: How many more were.
        derived_from: Id of the run that this one is a rerun of; "" where it is none.
        settings: Name of the object with `barograph.toml` as it was; "" where there was none.
        started_unix: When.
        problems: What could not be learnt, one sentence each.
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
        """The files of `data` that were there, as they are told, when this began: others it has written itself.

        Example:
            >>> files = DataFile("given", 1, 99 * 10**9), DataFile("made", 1, 101 * 10**9)
            >>> [file.path for file in Origin(started_unix=100.0, data=files).given]
            ['given']
        """
        if not self.started_unix:
            return self.data
        return tuple(file for file in self.data if file.modified_ns < self.started_unix * 1e9)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return asdict(self)


def origin_from_json(data: Mapping[str, Any]) -> Origin:
    """Return what `Origin.to_json` gave; entries that are not known are passed over.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: It is no such thing.
    """
    known = _known(Origin, data)
    if known.get("code") is not None:
        known["code"] = _code(known["code"])
    known["packages"] = {str(name): _made(Package, item) for name, item in known.get("packages", {}).items()}
    known["hardware"] = _made(Hardware, known.get("hardware", {}))
    known["data"] = tuple(_made(DataFile, item) for item in known.get("data", ()))
    return Origin(**known)


def with_options(origin: Origin, options: Mapping[str, Option]) -> Origin:
    """Return an origin with what a parser made of the command line, in place of what the words by themselves say.

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
    """Return a file that was opened, likewise."""
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
