"""Text from elsewhere, made safe to print: on one line, and without control characters."""

from __future__ import annotations


def shown(text: str) -> str:
    r"""Return a text on one line, with line breaks and control characters escaped.

    Example:
        >>> shown("fc\n1\x1b[31m")
        'fc\\n1\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def quoted(text: str) -> str:
    r"""Return a name in quotation marks for a message, on one line.

    Example:
        >>> print(quoted("a\nb"))
        "a\nb"
    """
    return f'"{shown(text)}"'
