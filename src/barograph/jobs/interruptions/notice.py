"""A notice that an instance will be taken away, and the interface of what reports notices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice that this instance will be interrupted.

    Attributes:
        source: Name of the source, such as "aws".
        reason: One sentence without a period.
        deadline_unix: When the instance ends, in seconds since 1970; None: unknown, so hurry.
        advisory: The risk is higher than usual, but the instance may continue.
    """

    source: str
    reason: str
    deadline_unix: float | None
    advisory: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data that `from_json` reads back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Notice:
        """Return the notice in plain JSON data.

        Raises:
            ValueError: The data is not a notice.

        Example:
            >>> Notice.from_json({"source": "file", "reason": "a test", "deadline_unix": None})
            Notice(source='file', reason='a test', deadline_unix=None, advisory=False)
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"a notice must be a JSON object, not {data!r}")
        source, reason, advisory = data.get("source"), data.get("reason"), data.get("advisory", False)
        if not isinstance(source, str) or not isinstance(reason, str) or not isinstance(advisory, bool):
            raise ValueError(f"a notice needs source and reason as strings: {data!r}")
        deadline = data.get("deadline_unix")
        if deadline is None:
            return cls(source, reason, None, advisory)
        if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not math.isfinite(deadline):
            raise ValueError(f"deadline_unix must be a number of seconds since 1970 or null: {data!r}")
        return cls(source, reason, float(deadline), advisory)


class InterruptionSource(Protocol):
    """Reports notices for this instance.

    Attributes:
        name: As users select it.
        interval_secs: How often to call `poll`.
    """

    @property
    def name(self) -> str: ...

    @property
    def interval_secs(self) -> float: ...

    def poll(self) -> Notice | None:
        """Return the current notice, None if there is none. Never raises."""
        ...
