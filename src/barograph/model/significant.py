"""Numbers with a few significant digits, as a person writes them."""

from __future__ import annotations

import re

_ZEROS = re.compile(r"e([+-])0*")
_THOUSANDS = re.compile(r"e\+0[345]$")


def significant(value: float, digits: int = 3) -> str:
    """Return a number with at most so many significant digits; without an exponent below a million.

    Example:
        >>> significant(0.00012345), significant(1234.5, 4), significant(1e-5), significant(1234.5), significant(0.1)
        ('0.000123', '1234', '1e-5', '1,230', '0.1')
    """
    text = f"{value:.{digits}g}"
    if _THOUSANDS.search(text):
        return f"{float(text):,.0f}"
    return _ZEROS.sub(lambda found: f"e{found[1].strip('+')}", text)
