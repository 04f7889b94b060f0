"""Entries that tests of experiments tell."""

from barograph.model.items import Entry, Verb

NOW_UNIX = 1_800_000_000.0


def component(uid: str, *, parameters: dict[str, object] | None = None, metrics: dict[str, float] | None = None,
              tags: dict[str, str] | None = None, time_unix: float = NOW_UNIX, kind: str = "component") -> list[Entry]:
    """Entries that make a component."""
    return [
        Entry(uid, Verb.CREATE, {"kind": kind, "name": uid}, time_unix),
        Entry(uid, Verb.PARAMETERS, parameters or {}, time_unix),
        Entry(uid, Verb.TAG, tags or {}, time_unix),
        Entry(uid, Verb.METRICS, {
            name: {"last": value, "min": value - 1, "max": value + 1, "mean": value, "std": 0.5, "count": 3,
                   "last_step": 2} for name, value in (metrics or {}).items()
        }, time_unix),
    ]
