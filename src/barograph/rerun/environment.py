"""Finds a Python with the packages of a run, or builds one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from barograph.errors import RerunFailed
from barograph.model.one_line import quoted
from barograph.model.origin import Origin, Package
from barograph.processes.command import Command, environment_without
from barograph.processes.local_process import Group
from barograph.processes.run_to_end import Completed, NotCompleted, run_to_end
from barograph.provenance.packages import Interpreter, asked, differing, packages_of, this_interpreter
from barograph.provenance.secrets import MARK, Secrets
from barograph.rerun.uv import python_in, uv_program

_BUILD_SECS = 3600.0
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_NOT_BUILT = ("pip", "setuptools", "wheel", "uv")
"""Packages that only build environments, ignored in comparisons."""

Run = Callable[[Sequence[str]], Completed]


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python for a rerun.

    Attributes:
        python: Its path.
        differing: Packages that differ from those of the run.
        built: Whether it was built for the rerun.
    """

    python: str
    differing: tuple[str, ...] = ()
    built: bool = False


def present_environment(origin: Origin) -> Environment:
    """Return the Python of the run if it still exists, else this one, with differing packages."""
    found = [environment for interpreter in _at_hand(origin)
             if (environment := _looked_at(interpreter, origin)) is not None]
    return min(found, key=lambda item: len(item.differing))


def built_environment(
    origin: Origin, folder: Path, *, run: Run | None = None, uv: str | None = None
) -> Environment:
    """Build a Python with the packages of a run, with uv if available, else venv and pip.

    Args:
        origin: What made the run.
        folder: Where to build it.
        run: Runs a command.
        uv: The uv program; None: search for it; "": none.

    Raises:
        RerunFailed: A package cannot be installed, or the run used another Python version.
    """
    run = run or _run
    uv = uv_program() if uv is None else uv
    wanted = requirements(origin.packages)
    series = ".".join(origin.python_version.split(".")[:2])
    python = python_in(folder)
    if uv:
        _do(run, [uv, "venv", "--quiet", *(["--python", series] if series else []), str(folder)], {})
        install = [uv, "pip", "install", "--quiet", "--python", str(python), "--no-deps"]
    else:
        here = ".".join(map(str, sys.version_info[:2]))
        if series and series != here:
            raise RerunFailed(f"The run used Python {series}, but this is {here}. Install uv, which downloads the "
                              "right one, or use the current environment: --no-environment.")
        _do(run, [sys.executable, "-m", "venv", str(folder)], {})
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    if wanted:
        _do(run, [*install, *wanted.values()], wanted)
    return Environment(str(python), built=True)


def requirements(packages: Mapping[str, Package]) -> dict[str, str]:
    """Return pip requirements by package name.

    Raises:
        RerunFailed: A package came from a location that no longer exists.

    Example:
        >>> requirements({"numpy": Package("2.0"), "mine": Package("1", "", "git https://host/mine@abc")})
        {'numpy': 'numpy==2.0', 'mine': 'mine @ git+https://host/mine@abc'}
    """
    return {name: _requirement(name, package) for name, package in packages.items() if name not in _NOT_BUILT}


def is_package(name: str, package: Package) -> bool:
    """Return whether these are a valid name, version and source of a package, and not options for pip."""
    return bool(_NAME.fullmatch(name)) and not re.search(r"\s", package.version) \
        and not re.search(r"\s", package.source.partition(" ")[2]) and package.source.isprintable()


def _requirement(name: str, package: Package) -> str:
    if not is_package(name, package):
        raise RerunFailed(f"The run has an invalid package: {quoted(name)} {quoted(package.version)} "
                          f"{quoted(package.source)}. Use the current environment: --no-environment.")
    how, _, url = package.source.partition(" ")
    if not how:
        return f"{name}=={package.version}"
    if MARK in url:
        raise RerunFailed(f"Package {name} came from a location that needs credentials, which were not saved "
                          f"({url}).")
    if how not in ("editable", "file"):
        return f"{name} @ {how}+{url}"
    if urlsplit(url).scheme != "file":
        return f"{name} @ {url}"
    place = unquote(urlsplit(url).path)
    if not os.path.exists(place):
        raise RerunFailed(f"Package {name} {package.version} was installed from a location that no longer exists. Use "
                          f"the current environment: --no-environment ({place}).")
    return place


def _at_hand(origin: Origin) -> list[Interpreter]:
    here = this_interpreter()
    if not origin.interpreter or origin.interpreter == here.executable or not os.path.exists(origin.interpreter):
        return [here]
    then = asked(origin.interpreter)
    return [here] if then is None else [then, here]


def _looked_at(interpreter: Interpreter, origin: Origin) -> Environment | None:
    now = packages_of(interpreter, Secrets())
    # Without a list of packages, no difference is known.
    names = differing(dict(origin.packages), now) if origin.packages else []
    if origin.python_version and origin.python_version != interpreter.version:
        names = ["python", *names]
    return Environment(interpreter.executable, tuple(names))


def _do(run: Run, command: Sequence[str], wanted: dict[str, str]) -> None:
    try:
        done = run(command)
    except OSError as error:
        raise RerunFailed(f"Cannot build the environment: {error}.") from error
    except NotCompleted as error:
        raise RerunFailed(f"Cannot build the environment: {command[0]} took more than {_BUILD_SECS:g} s.") from error
    if done.exit_code:
        said = f"{done.out.decode('utf-8', 'replace')}\n{done.err.decode('utf-8', 'replace')}"
        guilty = [name for name, what in wanted.items() if _named(name, what, said)]
        last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "no reason given")
        which = f": {', '.join(guilty)} cannot be installed" if guilty else ""
        raise RerunFailed(f"Cannot build the environment{which}. {last.rstrip('.')}. Use the current environment: "
                          "--no-environment.")


def _named(name: str, what: str, said: str) -> bool:
    spelled = re.escape(name).replace(r"\-", "[-_.]")
    return bool(what in said or re.search(rf"(?i)(?<![\w.-]){spelled}(?:==|\s*@|\s+from|\s+was not found)", said))


def _run(command: Sequence[str]) -> Completed:
    # In our group: git may ask at the terminal for the password of a repository.
    return run_to_end(Command(tuple(command), environment=environment_without(["PYTHONPATH"])),
                      timeout_secs=_BUILD_SECS, group=Group.OURS)
