"""Finds the user's function that held a step, and calls it for the replayed step.

A capsule may come from anybody, and to look for a function is to run its module. So of what a capsule names only
modules of the user's own are loaded: those in the folder of the script, or in the one where the replay was typed.
"""

from __future__ import annotations

import importlib.machinery
import sys
from pathlib import Path
from types import ModuleType

from barograph.capsule.order import OwnAnswer
from barograph.capsule.own_files import is_of_folder
from barograph.capture import recording
from barograph.capture.verdict import function_at
from barograph.errors import ReplayFailed, SettingsError
from barograph.model.recorder import HoldsWhen, UpdateSeen, function_name

_SCRIPT = "__main__"


def answer_of(place: str, seen: UpdateSeen, *, trusts: bool) -> OwnAnswer:
    """Return the function's answer for a step, or why it cannot be called.

    Args:
        place: Where it is, as "module:function".
        seen: What is known of the step.
        trusts: See `own_function`.
    """
    try:
        said = own_function(place, trusts=trusts)(seen)
        holds = bool(said)
    except (ReplayFailed, SettingsError) as error:
        return OwnAnswer(failure=str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the function is the user's, and may raise anything
        return OwnAnswer(failure=f"The function {place} fails: {type(error).__name__}: {error}.")
    return OwnAnswer(holds, said if holds and isinstance(said, str) else "")


def own_function(place: str, *, trusts: bool = False) -> HoldsWhen:
    """Return a function of the user's own.

    Args:
        place: Where it is, as "module:function".
        trusts: The user has named it: it may be in any module.

    Raises:
        ReplayFailed: It cannot be loaded, or is in no module of the user's own.
        SettingsError: It is not where it should be, or its module fails.
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
    # Before anything of it is run.
    _check_file(place, module)
    function = function_at(place)
    if _is_of_a_library(module, name):
        raise _not_trusted(place)
    return function


def _handed_over(place: str) -> HoldsWhen | None:
    """Return the function that the script itself has handed to Barograph, in the replay as well, if it is that one."""
    current = recording.current()
    settings = None if current is None else current.session.settings.recorder
    when = None if settings is None else settings.when
    return when if when is not None and not isinstance(when, str) and function_name(when) == place else None


def _check_file(place: str, module: str) -> None:
    file = _file_of(module)
    script = getattr(sys.modules[_SCRIPT], "__file__", None)
    beside = [Path(script).resolve().parent] if isinstance(script, str) else []
    # What is run may be a tool, and not a script of the user's.
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
    """Return the file of a module, without running anything of it; None: there is none."""
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
    """Return whether the way to a function leads through a module that the user's own has loaded."""
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
        if isinstance(found, ModuleType):
            return True
    return False
