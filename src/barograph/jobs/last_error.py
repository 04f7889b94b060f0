"""The reason of a failed script, from the end of its output."""

from __future__ import annotations

import re

_RAISED = re.compile(r"(?:[\w.]+\.)?\w*(?:Error|Exception|Exit|Interrupt|Warning|Failed|Denied)\b.*")
_MOST_CHARS = 300


def last_error(output: str) -> str:
    """Return the last error in the output of a script, in one line; "" if there is none.

    That is the line below the last Python traceback, else the last line that is not empty.

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
    return lines[-1].strip()[:_MOST_CHARS] if lines else ""
