"""Times in searches."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(minute|min|hour|h|day|d|week|w|month|year)s?\s+ago")
_DAYS = {"minute": 1 / 1440, "min": 1 / 1440, "hour": 1 / 24, "h": 1 / 24, "day": 1.0, "d": 1.0, "week": 7.0, "w": 7.0,
         "month": 30.0, "year": 365.0}


def unix_from_text(text: str, now_unix: float) -> float | None:
    """Return the seconds since 1970 UTC of a text; None if it is not a time.

    Args:
        text: An ISO 8601 date or time, local if it has no zone; "today", "yesterday"; "3 days ago".
        now_unix: Current time.

    Example:
        >>> unix_from_text("2026-11-22T00:00:00+00:00", 0.0)
        1795305600.0
        >>> unix_from_text("2 hours ago", 10_000.0)
        2800.0
        >>> unix_from_text("soon", 0.0) is None
        True
    """
    lowered = text.strip().lower()
    if lowered == "now":
        return now_unix
    if match := _AGO.fullmatch(lowered):
        return now_unix - float(match[1]) * _DAYS[match[2]] * 86_400
    if lowered in ("today", "yesterday"):
        midnight = datetime.fromtimestamp(now_unix, UTC).astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
        return (midnight - timedelta(days=lowered == "yesterday")).timestamp()
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        return None
