"""Evidence that a killed run ran out of memory."""

from __future__ import annotations

from barograph.errors import UnknownKey
from barograph.runs.reading.reader import RunReader

_NEAR = 0.9
"""Share of the memory that must have been in use at the last sample before the end."""

_GIB = 2**30


def out_of_memory(run: RunReader, *, kills: int = 0) -> str:
    """Return why a run that was killed may have been out of memory, as a clause; "" without evidence.

    Args:
        run: The run.
        kills: Processes of the container that the system killed for lack of memory while it ran.
    """
    near = _memory_near_the_limit(run)
    if near:
        return f"possibly out of memory: {near} at the end"
    if kills:
        return "possibly out of memory: the system killed a process of this container for lack of memory"
    return ""


def _memory_near_the_limit(run: RunReader) -> str:
    try:
        used, total = (run.series(f"machine:{name}", mode=None).values for name in ("memory", "memory_total"))
    except UnknownKey:
        return ""
    if not len(used) or not len(total) or not used[-1] >= _NEAR * total[-1] > 0:
        return ""
    return f"{used[-1] / _GIB:.3g} of {total[-1] / _GIB:.3g} GiB"
