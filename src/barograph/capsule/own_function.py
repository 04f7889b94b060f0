"""Finds the user's function that saved a step, and calls it for the replayed step.

A capsule may be untrusted, and looking up a function runs its module. So of the modules that a capsule names, only the
user's own are loaded: those in the folder of the script, or in the current folder.
"""

from __future__ import annotations

import importlib.machinery
import sys
from pathlib import Path
from types import ModuleType

from barograph.capsule.order import OwnResult
from barograph.capsule.own_files import is_of_folder
from barograph.capture import recording
from barograph.capture.verdict import function_at
from barograph.errors import ReplayFailed, SettingsError
from barograph.model.recorder import HoldsWhen, UpdateSeen, function_name

_SCRIPT = "__main__"


def result_of(place: str, seen: UpdateSeen, *, trusts: bool) -> OwnResult:
    """Return the function's answer for a step, or why it cannot be called.

    Args:
        place: The function, as "module:function".
        seen: Measurements of the step.
        trusts: See `own_function`.
    """
    try:
        result = own_function(place, trusts=trusts)(seen)
        holds = bool(result)
    except (ReplayFailed, SettingsError) as error:
        return OwnResult(failure=str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's function may raise anything
        return OwnResult(failure=f"The function {place} fails: {type(error).__name__}: {error}.")
    return OwnResult(holds, result if holds and isinstance(result, str) else "")


def own_function(place: str, *, trusts: bool = False) -> HoldsWhen:
    """Return a function of the user.

    Args:
        place: The function, as "module:function".
        trusts: The user named it, so it may be in any module.

    Raises:
        ReplayFailed: It cannot be loaded, or is not in a module of the user.
        SettingsError: It does not exist, or its module fails.
    """
    module, _, name = place.partition(":")
    handed_over = _handed_over(place)
    if handed_over is not None:
        return handed_over
    if "<" in name:
        raise ReplayFailed(f"The function {place} was defined while the script ran and cannot be imported: put it "
                           "at the top of a module, and name it with --when MODULE:FUNCTION.")
    if trusts:
        return function_at(place, "--when")
    # Before any of its code runs.
    _check_file(place, module)
    function = function_at(place)
    if _is_of_a_library(module, name):
        raise _not_trusted(place)
    return function


def _handed_over(place: str) -> HoldsWhen | None:
    """Return the function that the script passed to Barograph, also in the replay, if it is that one."""
    current = recording.current()
    settings = None if current is None else current.session.settings.recorder
    when = None if settings is None else settings.when
    return when if when is not None and not isinstance(when, str) and function_name(when) == place else None


def _check_file(place: str, module: str) -> None:
    file = _file_of(module)
    script = getattr(sys.modules[_SCRIPT], "__file__", None)
    beside = [Path(script).resolve().parent] if isinstance(script, str) else []
    # The program may be a tool rather than a script of the user.
    folders = [Path.cwd(), *(folder for folder in beside if "site-packages" not in folder.parts)]
    if file is None:
        raise ReplayFailed(f"The function {place} cannot be found: there is no module {module} in the folder "
                           "of the script. Its source may be in the capsule (content, script, sources).")
    if not any(is_of_folder(file, folder) for folder in folders):
        raise _not_trusted(place)


def _not_trusted(place: str) -> ReplayFailed:
    return ReplayFailed(f"The function {place} is not in the script's own files, and a capsule can come from "
                        f"anyone. If you trust it, pass --when {place}")


def _file_of(module: str) -> Path | None:
    """Return the file of a module without running its code; None: there is none."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        file = getattr(loaded, "__file__", None)
        return Path(file) if isinstance(file, str) else Path("built in")
    path: list[str] | None = None
    spec = None
    for part in module.split("."):
        spec = importlib.machinery.PathFinder.find_spec(part, path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or [])
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


def _is_of_a_library(module: str, name: str) -> bool:
    """Return whether a function is reached through a module that the user's module imported."""
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
        if isinstance(found, ModuleType):
            return True
    return False
