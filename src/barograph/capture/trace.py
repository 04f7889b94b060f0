"""Removes our wrappers' frames from the traceback of an uncaught exception."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

_PACKAGE = str(Path(__file__).resolve().parent.parent)


def leave_out_our_frames(error: BaseException) -> None:
    """Remove our frames from the traceback of an exception, and from those of its chained exceptions.

    An error raised in our own code keeps them, since they show the cause.
    """
    done: set[int] = set()
    chain = [error]
    while chain:
        link = chain.pop()
        if id(link) in done:
            continue
        done.add(id(link))
        if link.__traceback__ is not None:
            _prune(link.__traceback__)
        chain += [other for other in (link.__cause__, link.__context__) if other is not None]


def _prune(outermost: TracebackType) -> None:
    entries = [outermost]
    while (inner := entries[-1].tb_next) is not None:
        entries.append(inner)
    if _is_ours(entries[-1]):
        return
    kept = [outermost, *(entry for entry in entries[1:] if not _is_ours(entry))]
    for entry, inner in zip(kept, [*kept[1:], None], strict=True):
        entry.tb_next = inner


def _is_ours(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(_PACKAGE)
