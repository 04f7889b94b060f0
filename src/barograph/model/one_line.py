"""Makes untrusted text safe to print: on one line, and without control characters."""

from __future__ import annotations

import re

_HARMFUL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[0-9;]*m)")


def shown(text: str) -> str:
    r"""Return a text on one line, with line breaks and control characters escaped.

    Example:
        >>> shown("fc\n1\x1b[31m")
        'fc\\n1\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def shown_lines(text: str) -> str:
    r"""Return a text with its line breaks, and with other control characters escaped.

    Example:
        >>> print(shown_lines("a\n\x1b[31mb"))
        a
        \x1b[31mb
    """
    return "\n".join(map(shown, text.split("\n")))


def harmless(text: str) -> str:
    r"""Return a program's output without what could harm a terminal; colors, tabs and line breaks stay.

    Example:
        >>> harmless("\x1b[31mred\x1b[0m\r\x1b]0;title\x07")
        '\x1b[31mred\x1b[0m\r\\x1b]0;title\\x07'
    """
    return _HARMFUL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def quoted(text: str) -> str:
    r"""Return a name in quotation marks for a message, on one line.

    Example:
        >>> print(quoted("a\nb"))
        "a\nb"
    """
    return f'"{shown(text)}"'
