"""Numbers with a few significant digits, as a person writes them."""

from __future__ import annotations

import re

_ZEROS = re.compile(r"e([+-])0*")


def significant(value: float, digits: int = 3) -> str:
    """Return a number with at most so many significant digits.

    Example:
        >>> significant(0.00012345), significant(1234.5, 4), significant(1e-5), significant(1234.5), significant(0.1)
        ('0.000123', '1234', '1e-5', '1.23e3', '0.1')
    """
    return _ZEROS.sub(lambda found: f"e{found[1].strip('+')}", f"{value:.{digits}g}")
