"""Trust in code of others: settings files and runs that start it are refused until the user trusts them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from barograph.errors import SettingsError, StoreError
from barograph.model.notify import COMMAND
from barograph.model.one_line import shown
from barograph.model.settings import Settings
from barograph.runs.state.imported import is_imported
from barograph.store.base import Store
from barograph.store.files import FileStore
from barograph.store.whole_file import write_whole
from barograph.watch.secrets import has_reference

TRUST_VARIABLE = "BAROGRAPH_TRUST"
"""Trusted folders, including everything in them, separated as in PATH; or "all"."""

_EVERYTHING = "all"


def check_settings_file(path: Path, settings: Settings, *, named: bool, trusts: bool) -> None:
    """Refuse a settings file that starts programs, unless its folder is trusted.

    Args:
        path: Path of the file.
        settings: Its content.
        named: The user named the file; it is then refused only if it belongs to another user.
        trusts: The user trusts its folder, which is remembered.

    Raises:
        SettingsError: The folder is not trusted; the message lists what the file would start.
    """
    does = _starts(settings, path.parent)
    folder = path.resolve().parent
    if not does or (named and _is_mine(path)):
        return
    if trusts:
        _remember(folder)
    elif not _is_trusted(folder):
        raise SettingsError(
            f"{shown(str(path))} {' and '.join(map(shown, does))}, and its folder is not trusted. Read the file; then "
            f"repeat the command once with --trust, or set {TRUST_VARIABLE} to {shown(str(folder))}.")


def check_command_of_run(store: Store, words: Sequence[str], *, trusts: bool) -> None:
    """Show the command of a run by another user, and ask for confirmation.

    Args:
        store: Store of the run.
        words: Its recorded command.
        trusts: The user has confirmed already.

    Raises:
        SettingsError: The user declined, or there is no terminal.
        StoreError: The run cannot be read.
    """
    here = store.root.resolve() if isinstance(store, FileStore) else None
    if trusts or _is_trusted(here):
        return
    if is_imported(store):
        why = "This run was imported"
    elif here is not None and not _is_mine(here):
        why = "This run belongs to another user"
    else:
        return
    print(f"barograph: {why}. Its command is:\n  {shown(shlex.join(words))}", file=sys.stderr, flush=True)
    if not sys.stdin.isatty():
        raise SettingsError(f"{why}, and there is no terminal to confirm its command. Nothing was started. Check the "
                            f"command, then repeat with --trust, or set {TRUST_VARIABLE} to the folder of the run.")
    print("Start it, with the code saved in the run? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise SettingsError("Nothing was started.")


def _starts(settings: Settings, folder: Path) -> list[str]:
    """Return what the settings run or send, as predicates of the file name."""
    does = [f"runs the command {item.to.removeprefix(COMMAND)!r}" for item in settings.notify
            if item.to.startswith(COMMAND)]
    # What the environment or a file of the user holds would be sent to where the settings say.
    does += [f"sends a secret to {item.to!r}" for item in settings.notify
             if not item.to.startswith(COMMAND) and has_reference(item.to)]
    does += [f"loads the code {name.removeprefix('-')!r}" for name in settings.rules if ":" in name]
    if settings.recorder is not None and settings.recorder.when is not None:
        does.append(f"loads the code {settings.recorder.when!r}")
    if settings.findings_to and not (folder / settings.findings_to).resolve().is_relative_to(folder.resolve()):
        does.append(f"writes to {settings.findings_to!r}")
    return does


def _is_mine(path: Path) -> bool:
    """Return whether a file or folder belongs to this user or to the administrator."""
    return not hasattr(os, "geteuid") or path.stat().st_uid in (0, os.geteuid())


def _is_trusted(folder: Path | None) -> bool:
    """Return whether a folder is trusted, by the environment or an earlier --trust; None: not in a folder."""
    named = os.environ.get(TRUST_VARIABLE, "")
    if named == _EVERYTHING:
        return True
    places = [Path(os.path.expanduser(name)).resolve() for name in named.split(os.pathsep) if name]
    return folder is not None and (any(folder.is_relative_to(place) for place in places)
                                   or str(folder) in _remembered())


def _remembered() -> list[str]:
    try:
        return _book().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _remember(folder: Path) -> None:
    text = str(folder)
    if "\n" in text or text in _remembered():
        return
    book = _book()
    try:
        book.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(book, "".join(f"{line}\n" for line in [*_remembered(), text]).encode())
    except (OSError, StoreError) as error:
        print(f"barograph: the folder is trusted now, but this cannot be remembered: {error}", file=sys.stderr)


def _book() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base) / "barograph" / "trusted-folders"
