"""The script's stack frames and their loops, which identify a position in the program."""

from __future__ import annotations

import ctypes
import dis
import functools
import gc
import inspect
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType, GeneratorType
from typing import Any

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_STANDARD = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_PASSAGES = frozenset({"tqdm", "rich", "alive_progress", "progressbar"})
"""Libraries that show how far a loop is, and change nothing of it."""
_MOST_CODES = 64
_STORES = frozenset({"STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF"})


def frames_of_script(frame: FrameType | None) -> list[FrameType]:
    """Return the frames of the user's own code, from the innermost on.

    Args:
        frame: Where to begin.
    """
    return [item for item in _outwards(frame) if is_of_script(item.f_code.co_filename)]


def is_of_script(filename: str) -> bool:
    """Return whether a file is the user's own code: no library's, and none of ours."""
    return not (filename.startswith((_PACKAGE, "<", *_STANDARD)) or "site-packages" in filename
                or "dist-packages" in filename)


def library_that_asks(frame: FrameType | None) -> str:
    """Return which library's loop asks for a batch; "" where it is the script's own.

    Args:
        frame: That calls us.
    """
    for item in _outwards(frame):
        filename = item.f_code.co_filename
        if filename.startswith(_PACKAGE):
            continue
        if is_of_script(filename):
            return ""
        package = str(item.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _PASSAGES:
            return package or filename
    return ""


def place_of(frame: FrameType) -> str:
    """Return which function a frame runs, as it is told from others."""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"


def loop_names(frame: FrameType) -> list[tuple[str, ...]]:
    """Return what the `for` loops around the place of a frame count with, from the outermost on: names of variables.

    The loop that asks for its next item at this moment is among them, the last.
    """
    return [_targets(frame.f_code, begin) for begin, end in _loops(frame.f_code) if begin <= frame.f_lasti < end]


def asks_now(frame: FrameType) -> bool:
    """Return whether a `for` loop of this frame asks for its next item at this moment."""
    return any(begin == frame.f_lasti for begin, _ in _loops(frame.f_code))


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Return a copy of the variables of a frame, and leave none in it.

    Before PEP 667 a function's frame keeps the copy that it was asked for, and with it every object in there alive.
    """
    found = dict(frame.f_locals)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        frame.f_locals.clear()
    return found


def set_locals(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Let variables of a frame that runs hold other values."""
    if not values:
        return
    # Asked for once: before PEP 667 what a function's frame shows of its variables is a copy, made anew each time.
    shown = frame.f_locals
    shown.update(values)
    if shown is not frame.f_globals and sys.version_info < (3, 13):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def count_on(iterator: Any, more: int, frame: FrameType) -> None:
    """Let what counts the items of an iterator (`enumerate`) stand where it would after so many more.

    Args:
        iterator: Whose items are counted, by itself or through generators that run now, as those of a progress bar.
        more: How many items.
        frame: That asks it for the next.
    """
    running = {item for item in _outwards(frame) if item.f_code.co_flags & inspect.CO_GENERATOR}
    holders = [iterator, *(item for item in (gc.get_objects() if running else ())
                           if type(item) is GeneratorType and item.gi_frame in running)]
    for counter in gc.get_referrers(*holders):
        if type(counter) is enumerate:
            # Of an enumerate only reading its count is offered; it is the first word of the object.
            count = ctypes.c_ssize_t.from_address(id(counter) + object.__basicsize__)
            if count.value == counter.__reduce__()[1][1]:
                count.value += more


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


@functools.lru_cache(_MOST_CODES)
def _loops(code: CodeType) -> tuple[tuple[int, int], ...]:
    return tuple((item.offset, int(item.argval)) for item in dis.get_instructions(code) if item.opname == "FOR_ITER")


@functools.lru_cache(_MOST_CODES)
def _targets(code: CodeType, begin: int) -> tuple[str, ...]:
    names: list[str] = []
    wanted = 1
    for item in dis.get_instructions(code):
        if item.offset <= begin or item.opname in ("CACHE", "EXTENDED_ARG"):
            continue
        if item.opname in ("UNPACK_SEQUENCE", "UNPACK_EX"):
            wanted += int(item.arg or 0) - 1
        elif item.opname in _STORES:
            names.append(str(item.argval))
            wanted -= 1
        elif item.opname.startswith("STORE_FAST_"):  # two at once, from Python 3.13 on
            names += [str(name) for name in item.argval if isinstance(item.argval, tuple)]
            wanted -= 2
        else:
            break
        if wanted <= 0:
            break
    return tuple(names)
