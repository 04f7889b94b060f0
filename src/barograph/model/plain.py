"""Our values as JSON that every reader takes: strict, without NaN and infinities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from enum import Enum
from typing import Any


def plain(value: object) -> Any:
    """Return JSON data for any of our values: NaN as None, infinities as "inf" and "-inf".

    Example:
        >>> plain({"loss": math.nan, "norms": (1.0, -math.inf)})
        {'loss': None, 'norms': [1.0, '-inf']}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(_name(name)): plain(item) for name, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str) or value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)


def _name(name: object) -> object:
    return name.value if isinstance(name, Enum) else name
