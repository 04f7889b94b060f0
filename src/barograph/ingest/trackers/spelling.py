"""Converts parameters that a tracker stores as strings to values, so that numbers can be searched as numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from barograph.model.items import Value

_WHOLE = re.compile(r"[+-]?\d{1,300}")
_REAL = re.compile(r"[+-]?(?:\d{1,300}\.?\d{0,300}|\.\d{1,300})(?:[eE][+-]?\d{1,4})?|[+-]?inf(?:inity)?|nan", re.I)
_BOOLEANS = {"True": True, "true": True, "False": False, "false": False}


def value_from_text(text: str) -> Value:
    """Return the number or boolean in a text; otherwise the text.

    Example:
        >>> [value_from_text(text) for text in ("64", "1e-3", "True", "adam", "0012", "None", "(0.9, 0.999)")]
        [64, 0.001, True, 'adam', '0012', 'None', '(0.9, 0.999)']
    """
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _WHOLE.fullmatch(text):
        # Digits with leading zeros are more likely a name, such as a commit.
        return int(text) if str(int(text)) == text.lstrip("+") else text
    if _REAL.fullmatch(text):
        return float(text)
    return text


def spelled_otherwise(texts: Mapping[str, str], values: Mapping[str, Value]) -> dict[str, str]:
    """Return the texts that differ from the printed values.

    Example:
        >>> spelled_otherwise({"lr": "1e-3", "width": "64"}, {"lr": 0.001, "width": 64})
        {'lr': '1e-3'}
    """
    return {name: text for name, text in texts.items() if name in values and str(values[name]) != text}
