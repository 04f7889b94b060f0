"""The packages that a script asks for, in the files of its project."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from barograph.errors import JobRefused
from barograph.jobs.code import code_files

_INCLUDED = re.compile(r"\s*(?:-r|-c|--requirements?|--constraints?)(?:\s+|=)\s*(?P<path>[^\s#]+)")
_LOCAL = re.compile(r"\s*(?:-e\b|--editable\b|\.{0,2}/|\.\s*(?:$|\[|#)|file:|[\w.\-\[\],]+\s*@\s*(?:file:|\.))")
_BESIDE = ("pyproject.toml", ".python-version", "uv.toml")
"""Files that uv reads whatever the requirements are."""


class Kind(StrEnum):
    """How packages are asked for."""

    LOCK = "uv.lock"
    PROJECT = "pyproject.toml"
    LIST = "requirements.txt"


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements file of a script.

    Attributes:
        kind: How they are named.
        path: The file, relative to the directory of the code, with "/".
        pins: The versions that were resolved once for all instances, as lines of a requirements file; "": not yet.
    """

    kind: Kind
    path: str
    pins: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return JSON data that `requirements_from_json` reads back."""
        return asdict(self)


def requirements_from_json(data: dict[str, Any]) -> Requirements:
    """Return the requirements from the output of `Requirements.to_json`."""
    return Requirements(Kind(data["kind"]), str(data["path"]), str(data["pins"]))


def requirements_of(directory: Path, path: str = "") -> Requirements | None:
    """Return what names the packages of the code in a directory; None if nothing does.

    That is uv.lock, else pyproject.toml with a table [project], else requirements.txt.

    Args:
        directory: Directory of the code.
        path: The file to use instead; "none": no file.

    Raises:
        JobRefused: The file does not exist, is outside of the directory, or is not valid.
    """
    if path == "none":
        return None
    if path:
        return _given(directory, path)
    for kind in Kind:
        file = directory / kind.value
        if file.is_file() and (kind is not Kind.PROJECT or "project" in _project(file)):
            return Requirements(kind, kind.value)
    return None


def is_package(requirements: Requirements, directory: Path) -> bool:
    """Return whether the project is a package, which has to be installed for its script to import it."""
    if requirements.kind is Kind.LIST:
        return False
    project = _project((directory / requirements.path).with_name(Kind.PROJECT.value))
    said = project.get("tool", {}).get("uv", {}).get("package")
    return bool("build-system" in project if said is None else said)


def content_digest(requirements: Requirements, directory: Path) -> str:
    """Return the SHA-256 of all files that decide which packages are installed."""
    digest = hashlib.sha256(f"{requirements.kind} {requirements.path}\n{requirements.pins}".encode())
    seen: dict[Path, bool] = {}
    installs_code = is_package(requirements, directory)
    top = directory / requirements.path
    for path in (top, *(top.with_name(name) for name in _BESIDE)):
        installs_code |= _add_file(path, directory, seen)
    paths = dict.fromkeys(seen)
    if installs_code or _has_local_sources(top):
        paths |= {directory / name: None for name in code_files(directory)}
    for path in paths:
        name = os.path.relpath(path, directory).replace(os.sep, "/")
        digest.update(f"{name}\n{hashlib.sha256(_content(path)).hexdigest()}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _given(directory: Path, path: str) -> Requirements:
    whole, top = (directory / path).resolve(), directory.resolve()
    if not whole.is_file():
        raise JobRefused(f"The file with the requirements does not exist ({whole}).")
    if not whole.is_relative_to(top):
        raise JobRefused("The file with the requirements is outside of the code, and would not reach the instances. "
                         f"Move it into the folder of the code ({whole}).")
    kind = next((kind for kind in (Kind.LOCK, Kind.PROJECT) if whole.name == kind), Kind.LIST)
    if kind is Kind.PROJECT and "project" not in _project(whole):
        raise JobRefused(f"The project names no packages: it has no table [project] ({whole}).")
    return Requirements(kind, whole.relative_to(top).as_posix())


def _project(path: Path) -> dict[str, Any]:
    import tomllib  # loaded here, because most scripts are in no project

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise JobRefused(f"Cannot read the project: {error.strerror} ({path}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise JobRefused(f"The project is not valid TOML: {error} ({path}).") from error


def _add_file(path: Path, directory: Path, seen: dict[Path, bool]) -> bool:
    """Add a file and those that it includes; return whether one of them asks for packages in the code's folder."""
    if path in seen or not path.is_file():
        return False
    seen[path] = True
    if path.suffix not in (".txt", ".in"):
        return False
    is_local = False
    for line in _content(path).decode("utf-8", "replace").splitlines():
        included = _INCLUDED.match(line)
        if included:
            is_local |= _add_file(path.parent / included["path"], directory, seen)
        is_local |= bool(_LOCAL.match(line))
    return is_local


def _has_local_sources(path: Path) -> bool:
    """Return whether a lock or project takes other packages from folders of the code."""
    if path.name == Kind.LOCK:
        return bool(re.search(rb'source = \{ (?:editable|directory|path) = "(?!\.")', _content(path)))
    if path.name == Kind.PROJECT:
        sources = _project(path).get("tool", {}).get("uv", {}).get("sources", {})
        return any(isinstance(item, dict) and ("path" in item or "workspace" in item) for item in _flat(sources))
    return False


def _flat(sources: dict[str, Any]) -> Iterator[Any]:
    for item in sources.values():
        if isinstance(item, list):
            yield from item
        else:
            yield item


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
