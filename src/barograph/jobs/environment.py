"""The Python environment of a training job: built by uv from the project's files, and cached by their content.

An environment can always record: Barograph and what it needs are installed beside the packages of the project, whose
versions stay as the project asks for them.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import barograph
from barograph.errors import JobError, JobRefused
from barograph.jobs.environment_cache import hold, prune, remove
from barograph.jobs.requirements import Kind, content_digest, is_package
from barograph.jobs.requirements import Requirements as Requirements
from barograph.jobs.requirements import requirements_of as requirements_of
from barograph.machine.host_lock import HostLock
from barograph.processes.command import Command, environment_without
from barograph.processes.local_process import Group
from barograph.processes.streamed_process import StreamedProcess
from barograph.provenance.secrets import Secrets
from barograph.rerun.uv import python_in, uv_program
from barograph.version import __version__

_TURN_SECS = 0.1
_LEAST_PYTHON = (3, 11)
_LONGEST_REASON = 400
_MOST_CAUSES = 3
_NO_REASON = ("warning:", "Using ", "Creating ", "Resolved ")
"""Beginnings of the lines of uv that say what it was doing."""
_PART = ".part"
_INSTALLED = "barograph-installed.txt"
_OF_OTHERS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "UV_PROJECT", "UV_PYTHON")
_UNREACHABLE = ("Failed to fetch", "error sending request", "Request failed", "dns error", "timed out",
                "No space left")
_PROGRESS = ("Resolved ", "Downloading ", "Building ", "Prepared ", "Installed ")
"""Beginnings of the lines of uv that say what it is doing, and not each package."""

Progress = Callable[[str], None]
IsCancelled = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class PreparedEnvironment:
    """A Python that a script runs with.

    Attributes:
        python: Its path.
        digest: Identifies its packages; "": those of the Python that submitted the job.
        pins: The versions of all its packages, as lines of a requirements file. `Requirements` with these pins give
            the same environment at any later time.
    """

    python: Path
    digest: str
    pins: str = ""


def prepare(
    requirements: Requirements | None, code_directory: Path, *, cache: Path, progress: Progress = lambda text: None,
    cancelled: IsCancelled = lambda: False, uv: str | None = None,
) -> PreparedEnvironment:
    """Return an environment with the packages of a project, built if the cache does not have it.

    Of several processes that ask at once, one builds. A build that was killed is built anew.

    Args:
        requirements: From `requirements_of`. None: this Python is used.
        code_directory: Directory of the code.
        cache: Directory for environments.
        progress: Takes lines that say what is being done.
        cancelled: Asked several times a second; True ends the preparation.
        uv: The uv program. None: it is searched for.

    Raises:
        JobRefused: The requirements cannot be met.
        JobError: uv is missing or failed, or the preparation was canceled.
    """
    if requirements is None:
        return PreparedEnvironment(Path(sys.executable), "")
    builder = _Uv(_found(uv), code_directory, progress, cancelled)
    if requirements.pins:
        unpinned = _known(cache, _digest(replace(requirements, pins=""), code_directory))
        if unpinned is not None and unpinned.pins == requirements.pins:
            return unpinned
    digest = _digest(requirements, code_directory)
    return _known(cache, digest) or _built_once(builder, requirements, cache, digest)


def _known(cache: Path, digest: str) -> PreparedEnvironment | None:
    """Return an environment of the cache; None if it is not there, or its Python is gone."""
    if not hold(cache / digest):
        return None
    python = python_in(cache / digest)
    try:
        return PreparedEnvironment(python, digest, (cache / digest / _INSTALLED).read_text("utf-8").rstrip("\n")) \
            if python.exists() else None
    except OSError:
        return None


def _built_once(builder: _Uv, requirements: Requirements, cache: Path, digest: str) -> PreparedEnvironment:
    """Build an environment, unless another process is building it."""
    _make_directory(cache)
    lock = HostLock(f"environment {cache / digest}", cache)
    if not lock.take():
        builder.say("Waiting for another instance that builds the same environment.")
        while not lock.take():
            builder.pause()
    try:
        known = _known(cache, digest)
        if known is None:
            _remove_unfinished(cache, but=digest)
            place, part = cache / digest, cache / f"{digest}{_PART}"
            for path in (part, place):
                remove(path)
            try:
                _build(builder, requirements, part)
                os.rename(part, place)
            finally:
                remove(part)
            known = _known(cache, digest)
            prune(cache)
        if known is None:
            raise JobError(f"The environment was built, and is gone ({cache / digest}).")
        return known
    finally:
        lock.release()


def pinned(requirements: Requirements, code_directory: Path, *, uv: str | None = None) -> Requirements:
    """Return the requirements with all versions resolved, so that instances built at other times have the same.

    Nothing is installed.

    Raises:
        JobRefused: The requirements cannot be met.
        JobError: uv is missing or failed.
    """
    builder = _Uv(_found(uv), code_directory, lambda text: None, lambda: False)
    if requirements.kind is Kind.LOCK:
        builder.run("lock", "--check", "--project", _folder_of(requirements))
        return requirements
    with tempfile.TemporaryDirectory(prefix="barograph-requirements-") as folder:
        own = _written(Path(folder, "barograph.txt"), _own_requirements())
        python = [word for word in _python_options(builder, requirements) if word != "--no-project"]
        text = builder.run("pip", "compile", "--quiet", "--no-header", "--no-annotate", *python, requirements.path, own,
                           output=True)
    return replace(requirements, pins="\n".join(_versions(text.splitlines())))


def environment_problem(
    requirements: Requirements | None, code_directory: Path, *, uv: str | None = None
) -> str | None:
    """Return why the environment of a job cannot be built; None if it can. Nothing is installed."""
    if requirements is None:
        return None
    try:
        pinned(requirements, code_directory, uv=uv)
    except JobError as error:
        return str(error)
    return None


class _Uv:
    """Runs uv in the directory of the code."""

    def __init__(self, program: str, directory: Path, progress: Progress, cancelled: IsCancelled) -> None:
        self._program, self.directory = program, directory
        self.say, self._cancelled = progress, cancelled
        self._secrets = Secrets(os.environ)

    def run(self, *words: str, environment: Path | None = None, output: bool = False) -> str:
        """Run a command of uv; return its standard output if asked to, else pass its lines on as progress.

        Raises:
            JobRefused: uv refused the requirements.
            JobError: uv failed otherwise, or the preparation was canceled.
        """
        command = Command((self._program, *words), os.fspath(self.directory), _variables(environment))
        try:
            process = StreamedProcess(command, group=Group.SESSION, ends_with_us=True)
        except OSError as error:
            raise JobError(f"Cannot run uv: {error.strerror or error}.") from error
        out: list[str] = []
        err: list[str] = []
        try:
            while (code := process.poll()) is None:
                self._check()
                self._take(process, out, err, wait_secs=_TURN_SECS)
            self._take(process, out, err, wait_secs=0.0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        if code:
            raise self._failure("".join(err) or "".join(out))
        return "".join(out) if output else ""

    def pause(self) -> None:
        """Wait a little, unless the preparation was canceled."""
        self._check()
        time.sleep(_TURN_SECS)

    def _check(self) -> None:
        if self._cancelled():
            raise JobError("The preparation of the environment was canceled.")

    def _take(self, process: StreamedProcess, out: list[str], err: list[str], *, wait_secs: float) -> None:
        output = process.output(wait_secs)
        out.append(output.out.decode("utf-8", "replace"))
        err.append(output.err.decode("utf-8", "replace"))
        for line in err[-1].splitlines():
            if line.startswith(_PROGRESS):
                self.say(self._secrets.hide(line))

    def _failure(self, text: str) -> JobError:
        reason = self._secrets.hide(_reason(text))
        if any(sign in text for sign in _UNREACHABLE):
            return JobError(f"Cannot build the environment: {reason}")
        return JobRefused(f"The requirements cannot be installed: {reason}")


def _variables(environment: Path | None) -> dict[str, str]:
    found = environment_without(_OF_OTHERS)
    # Its messages are not to be broken into lines, and this Python comes first among those that it may choose.
    found |= {"COLUMNS": "10000", "NO_COLOR": "1", "UV_NO_PROGRESS": "1", "PATH": os.pathsep.join((
        os.path.dirname(sys.executable), found.get("PATH", os.defpath)))}
    if sys.prefix != sys.base_prefix:
        found["VIRTUAL_ENV"] = sys.prefix
    if environment is not None:
        found["UV_PROJECT_ENVIRONMENT"] = os.fspath(environment)
    return found


def _reason(text: str) -> str:
    """Return uv's own reason from what it printed, in one line."""
    # Also the signs of earlier versions: "× No solution found" and "╰─▶ Because".
    lines = [re.sub(r"^[\s│×╰├─▶]+", "", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if set(line) - set("^~| -") and not line.startswith(_NO_REASON)]
    start = next((at for at, line in enumerate(lines) if line.startswith("error:")), 0)
    lines = [re.sub(r"^(?:error|cause|hint|Caused by):\s*", "", line) for line in lines[start:]]
    if len(lines) > 1 and lines[0].startswith("No solution found"):
        del lines[0]
    elif len(lines) > _MOST_CAUSES:
        lines = [*lines[:_MOST_CAUSES - 1], lines[-1]]  # the last one is the cause of all
    reason = ". ".join(line.rstrip(" .;:") for line in lines).replace(",. ", ", ") or "uv gave no reason"
    return f"{reason[:_LONGEST_REASON].rstrip()}…" if len(reason) > _LONGEST_REASON else f"{reason}."


def _found(uv: str | None) -> str:
    program = uv_program() if uv is None else uv
    if not program:
        raise JobError("uv, which builds the environment of a job, is not installed: pip install 'barograph[jobs]'. "
                       "Or use the packages of this Python: --requirements none.")
    return program


def _build(uv: _Uv, requirements: Requirements, place: Path) -> None:
    uv.run("venv", "--quiet", "--relocatable", *_python_options(uv, requirements), os.fspath(place))
    _check_version(place)
    python = os.fspath(python_in(place))
    own = _written(place / "barograph-own.txt", _own_requirements())
    pins = requirements.pins.splitlines()
    if requirements.kind is Kind.LOCK:
        uv.run("sync", "--locked", "--no-dev", "--no-editable", "--project", _folder_of(requirements), "--python",
               python, environment=place)
        # So that nothing of the lock changes.
        pins = uv.run("pip", "freeze", "--quiet", "--python", python, output=True).splitlines()
        wanted = []
    elif is_package(requirements, uv.directory):
        wanted = [_folder_of(requirements)]
    else:
        wanted = ["-r", requirements.path]
    versions = _versions(pins)
    fixed = ["-c", _written(place / "barograph-pins.txt", versions)] if versions else []
    uv.run("pip", "install", "--no-editable", "--python", python, *wanted, "-r", own, *fixed)
    _written(place / _INSTALLED, _versions(
        uv.run("pip", "freeze", "--quiet", "--python", python, output=True).splitlines()))
    _add_barograph(place)


def _folder_of(requirements: Requirements) -> str:
    # With "./", so that uv takes it for a folder and not for a package of that name.
    return f"./{os.path.dirname(requirements.path)}"


def _python_options(uv: _Uv, requirements: Requirements) -> list[str]:
    """Return the options for this Python if the project accepts it, else for another one that is installed.

    Without a fitting one only the project is an option: uv downloads the Python.
    """
    # A list of requirements has no project, although there may be one in a folder further up.
    project = ["--no-project"] if requirements.kind is Kind.LIST else []
    try:
        return [*project, "--python", uv.run("python", "find", *project, output=True).strip()]
    except JobError:
        return project


def _check_version(place: Path) -> None:
    found = re.search(r"^version_info\s*=\s*(\d+)\.(\d+)", (place / "pyvenv.cfg").read_text("utf-8"), re.MULTILINE)
    if found and (int(found[1]), int(found[2])) < _LEAST_PYTHON:
        raise JobRefused(f"The project asks for Python {found[1]}.{found[2]}, but its job is recorded, which needs "
                         f"{'.'.join(map(str, _LEAST_PYTHON))} or later. Raise requires-python or .python-version.")


def _own_requirements() -> list[str]:
    """Return what Barograph needs, as lines of a requirements file."""
    try:
        asked = importlib.metadata.requires("barograph") or []
    except importlib.metadata.PackageNotFoundError:
        raise JobError("Barograph runs without being installed, so its requirements are unknown: pip install it.") \
            from None
    return [line for line in asked if not re.search(r";.*\bextra\s*==", line)]


def _add_barograph(place: Path) -> None:
    """Make this Barograph importable, with its entry points, which find the integrations of frameworks."""
    source = Path(barograph.__file__).parent
    packages = next(python_in(place).parent.parent.glob("lib/python*/site-packages"), place / "Lib" / "site-packages")
    remove(packages / "barograph")
    # A link, so that it is always the same code as here. The digest of the environment names its place and version.
    try:
        (packages / "barograph").symlink_to(source, target_is_directory=True)
    except OSError:  # not allowed to most users on Windows
        shutil.copytree(source, packages / "barograph", ignore=shutil.ignore_patterns("__pycache__"))
    distribution = importlib.metadata.distribution("barograph")
    notes = packages / f"barograph-{distribution.version}.dist-info"
    remove(notes)
    notes.mkdir()
    for name in ("METADATA", "entry_points.txt", "direct_url.json"):
        if text := distribution.read_text(name):
            (notes / name).write_text(text, encoding="utf-8")
    (notes / "RECORD").write_text("", encoding="utf-8")


def _digest(requirements: Requirements, directory: Path) -> str:
    parts = (content_digest(requirements, directory), sys.version, platform.platform(), platform.machine(), __version__,
             os.fspath(Path(barograph.__file__).parent), *_own_requirements())
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _versions(lines: Sequence[str]) -> list[str]:
    """Return the lines that fix a version: a package from a folder is no constraint."""
    return [line for line in lines if re.match(r"[A-Za-z0-9][\w.\-]*==", line) and not line.startswith("barograph==")]


def _written(path: Path, lines: Sequence[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return os.fspath(path)


def _make_directory(cache: Path) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobError(f"Cannot create the cache of environments: {error.strerror} ({cache}).") from error


def _remove_unfinished(cache: Path, *, but: str) -> None:
    """Remove environments whose builder was killed."""
    for part in cache.glob(f"*{_PART}"):
        digest = part.name.removesuffix(_PART)
        lock = HostLock(f"environment {cache / digest}", cache)
        if digest != but and lock.take():
            try:
                remove(part)
            finally:
                lock.release()
