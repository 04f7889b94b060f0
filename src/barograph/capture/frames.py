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
"""Libraries that only show the progress of a loop."""
_MOST_CODES = 64
_STORES = frozenset({"STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF"})


def frames_of_script(frame: FrameType | None) -> list[FrameType]:
    """Return the frames of the user's own code, the innermost first.

    Args:
        frame: Start of the search.
    """
    return [item for item in _outwards(frame) if is_of_script(item.f_code.co_filename)]


def is_of_script(filename: str) -> bool:
    """Return whether a file is the user's own code rather than a library's or ours."""
    return not (filename.startswith((_PACKAGE, "<", *_STANDARD)) or "site-packages" in filename
                or "dist-packages" in filename)


def requesting_library(frame: FrameType | None) -> str:
    """Return the library whose loop requests a batch; "" if the script's own loop does.

    Args:
        frame: Frame of the caller.
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
    """Return the identity of the function of a frame."""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"


def loop_names(frame: FrameType) -> list[tuple[str, ...]]:
    """Return the target variables of the `for` loops around the current line of a frame, the outermost first.

    The loop that currently requests its next item is the last one.
    """
    return [_targets(frame.f_code, begin) for begin, end in _loops(frame.f_code) if begin <= frame.f_lasti < end]


def requests_now(frame: FrameType) -> bool:
    """Return whether a `for` loop of this frame currently requests its next item."""
    return any(begin == frame.f_lasti for begin, _ in _loops(frame.f_code))


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Return a copy of the variables of a frame, without keeping one in the frame.

    Before PEP 667, a function's frame keeps the copy, and with it every object in it alive.
    """
    found = dict(frame.f_locals)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        frame.f_locals.clear()
    return found


def set_locals(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Set variables of a running frame."""
    if not values:
        return
    # Fetched once: before PEP 667, each access to `f_locals` of a function's frame makes a new copy.
    shown = frame.f_locals
    shown.update(values)
    if shown is not frame.f_globals and sys.version_info < (3, 13):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def count_on(iterator: Any, more: int, frame: FrameType) -> None:
    """Advance a counter of an iterator's items (`enumerate`) as if that many more had been counted.

    Args:
        iterator: Counted iterator, used directly or through running generators such as a progress bar's.
        more: Number of items.
        frame: Frame that requests its next item.
    """
    running = {item for item in _outwards(frame) if item.f_code.co_flags & inspect.CO_GENERATOR}
    holders = [iterator, *(item for item in (gc.get_objects() if running else ())
                           if type(item) is GeneratorType and item.gi_frame in running)]
    for counter in gc.get_referrers(*holders):
        if type(counter) is enumerate:
            # Python only offers to read an enumerate's counter; it is the first field of the object.
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
        elif item.opname.startswith("STORE_FAST_"):  # two variables at once, since Python 3.13
            names += [str(name) for name in item.argval if isinstance(item.argval, tuple)]
            wanted -= 2
        else:
            break
        if wanted <= 0:
            break
    return tuple(names)
