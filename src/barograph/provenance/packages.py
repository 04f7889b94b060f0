"""Installed distributions of a Python, with version and digest."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from barograph.model.origin import Package
from barograph.processes.command import Command
from barograph.processes.run_to_end import NotCompleted, run_to_end
from barograph.provenance.secrets import Secrets

_ASK_SECS = 20.0
_OF_THE_INSTALLER = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json", "uv_build.json")
_PYTHON = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)*)?(?:\.exe)?")
_ASKED = "import json, sys; print(json.dumps([sys.executable, sys.version.split()[0], sys.path[1:]]))"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter.

    Attributes:
        executable: Its path.
        version: Its version.
        paths: Its module search path.
    """

    executable: str
    version: str
    paths: tuple[str, ...]


def this_interpreter() -> Interpreter:
    """Return the interpreter of this process."""
    return Interpreter(sys.executable, sys.version.split()[0], tuple(path for path in sys.path if path))


def interpreter_of(command: Sequence[str]) -> Interpreter | None:
    """Return the Python that runs a command; None if it is not Python, or does not respond.

    Args:
        command: A Python file is run by this Python, as in `barograph run`.
    """
    if command[0].endswith(".py"):
        return this_interpreter()
    program = _python_behind(shutil.which(command[0]) or "")
    if not program:
        return None
    if os.path.exists(program) and os.path.exists(sys.executable) and _same_place(program, sys.executable):
        return this_interpreter()
    return asked(program)


def asked(program: str) -> Interpreter | None:
    """Return the interpreter of another Python; None if it does not respond."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BAROGRAPH_")}
    try:
        done = run_to_end(Command((program, "-c", _ASKED), environment=environment), timeout_secs=_ASK_SECS)
        executable, version, paths = json.loads(done.out)
    except (OSError, NotCompleted, ValueError):
        return None
    if done.exit_code:
        return None
    return Interpreter(executable, version, tuple(paths))


def packages_of(interpreter: Interpreter, secrets: Secrets) -> dict[str, Package]:
    """Return installed packages by name; of several with one name, the first on the path."""
    found: dict[str, Package] = {}
    for distribution in distributions(path=list(interpreter.paths)):
        name, version = _name_and_version(distribution)
        if name and name not in found:
            found[name] = Package(version, _digest(distribution), _source(distribution, secrets))
    return dict(sorted(found.items()))


def _name_and_version(distribution: Distribution) -> tuple[str, str]:
    """Return name and version; "" without a metadata file, as after an interrupted installation."""
    # Parsed here: importlib.metadata parses the whole file for each of the two, which takes a second per environment.
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    said: dict[str, str] = {}
    for line in text.splitlines():
        if not line:
            break
        field, _, value = line.partition(":")
        said.setdefault(field.lower(), value.strip())
    return re.sub(r"[-_.]+", "-", said.get("name", "")).lower(), said.get("version", "")


def _digest(distribution: Distribution) -> str:
    record = distribution.read_text("RECORD")
    if not record:
        return ""
    lines = sorted(line for line in record.splitlines() if _is_of_the_package(line))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _is_of_the_package(line: str) -> bool:
    """Return whether a line of a RECORD is the same in every installation of the package.

    Compiled files, scripts and notes of the installer are not.
    """
    if not line or ".pyc," in line or line.startswith(("../", "/", '"../', '"/')):
        return False
    return ".dist-info/" not in line or line.partition(",")[0].rpartition("/")[2] not in _OF_THE_INSTALLER


def _source(distribution: Distribution, secrets: Secrets) -> str:
    text = distribution.read_text("direct_url.json")
    if not text:
        return ""
    try:
        said = json.loads(text)
        url = secrets.hide(str(said["url"]))
        if "vcs_info" in said:
            return f"{said['vcs_info']['vcs']} {url}@{said['vcs_info'].get('commit_id', '')}"
        return f"editable {url}" if said.get("dir_info", {}).get("editable") else f"file {url}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def _python_behind(program: str) -> str:
    """Return the Python that a program is or that its shebang names; else ""."""
    if _PYTHON.fullmatch(Path(program).name):
        return program
    try:
        with open(program, "rb") as file:
            first = file.readline(512).decode("utf-8", "replace")
    except OSError:
        return ""
    words = first[2:].split() if first.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = [shutil.which(words[1]) or ""] if len(words) > 1 else []
    return words[0] if words and _PYTHON.fullmatch(Path(words[0]).name) else ""


def _same_place(first: str, second: str) -> bool:
    # By directory: the Python of a virtual environment is often a link to the system's.
    return (os.path.realpath(os.path.dirname(first)) == os.path.realpath(os.path.dirname(second))
            and os.path.realpath(first) == os.path.realpath(second))


def differing(first: Mapping[str, Package], second: Mapping[str, Package], *, but: Iterable[str] = ()) -> list[str]:
    """Return the names of packages that differ between two environments.

    Args:
        first, second: From `packages_of`.
        but: Names to ignore.
    """
    return sorted(name for name in {*first, *second} - set(but) if not _same(first.get(name), second.get(name)))


def _same(first: Package | None, second: Package | None) -> bool:
    if first is None or second is None or first.version != second.version:
        return False
    # The digest of an editable installation means nothing: its RECORD lists none of its files.
    return first.digest == second.digest or not first.digest or not second.digest
