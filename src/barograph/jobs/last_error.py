"""The error of a failed script, from the end of its output."""

from __future__ import annotations

import errno
import os
import re

_RAISED = re.compile(r"(?:[\w.]+\.)?\w*(?:Error|Exception|Exit|Interrupt|Warning|Failed|Denied)\b.*")
_MOST_CHARS = 300
DISK_FULL = os.strerror(errno.ENOSPC)
"""The system's message for a full disk. It may not be the last line: `dd` prints its statistics after it."""


def last_error(output: str) -> str:
    """Return the last error in the output of a script, in one line; "" if there is none.

    That is the line below the last Python traceback, else the last one about a full disk, else the last one that is not
    empty.

    Example:
        >>> last_error("Traceback (most recent call last):\\n  File …\\nValueError: no data\\nbye\\n")
        'ValueError: no data'
        >>> last_error("fit.sh: line 3: no such command\\n\\n")
        'fit.sh: line 3: no such command'
    """
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    begins = next((at for at in reversed(range(len(lines))) if lines[at].lstrip().startswith("Traceback (most")), None)
    if begins is not None:
        # The line after the indented ones; ranks may be named in front.
        for line in lines[begins + 1:]:
            if not line.startswith((" ", "\t")) and _RAISED.match(line):
                return line[:_MOST_CHARS]
    about_disk = [line for line in lines if DISK_FULL in line]
    return (about_disk or lines)[-1].strip()[:_MOST_CHARS] if lines else ""
