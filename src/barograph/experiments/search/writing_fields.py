"""Writes fields and values as a search has them."""

from __future__ import annotations

import re
from typing import Any

from barograph.model.items import STATISTICS

_PLAIN = re.compile(r"[^\W\d][\w-]*(?<!-)(?:\.[^\W\d][\w-]*(?<!-))*")


def field_text(group: str, name: str, statistic: str = "") -> str:
    """Return a parameter, a metric or a tag as a search has it.

    Args:
        group: "params", "metrics", "tags", "inputs" or "outputs".
        name: Its name.
        statistic: Statistic of a metric.

    Example:
        >>> field_text("params", "lr"), field_text("metrics", "val/acc", "max")
        ('params.lr', 'metrics."val/acc".max')
    """
    plain = _PLAIN.fullmatch(name) and name.rpartition(".")[2] not in STATISTICS
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    written = name if plain else f'"{escaped}"'
    return f"{group}.{written}{f'.{statistic}' if statistic else ''}"


def value_text(value: Any) -> str:
    """Return a value as a search has it.

    Example:
        >>> value_text(0.1), value_text("it's"), value_text(True), value_text(None)
        ('0.1', "'it''s'", 'true', 'null')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
