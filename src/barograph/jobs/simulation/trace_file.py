"""Reads traces of prices and interruptions from files.

CSV with a header line. The first column that is named `time` or `timestamp` has seconds or a time as in
`2027-01-15T08:00:00Z`; the other one is

    price   an instance hour costs so much from then on (also `SpotPrice`, `spot_price`)
    event   `interruption`: instances are taken away, and others are available at once
            `unavailable`: instances are taken away, and there is no capacity until `available`
            `end`: the trace ends

A trace lasts from its first to its last line; a trace of events in seconds begins at 0. The output of
`aws ec2 describe-spot-price-history` is read too, as JSON.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from barograph.errors import SettingsError
from barograph.jobs.simulation.trace import DAY_SECS, Trace, trace_of_prices

_TIMES = ("time", "timestamp")
_PRICES = ("price", "spotprice", "spot_price")
_POOL = ("instancetype", "availabilityzone", "productdescription")
_EVENTS = ("interruption", "unavailable", "available", "end")
_MOST_BYTES = 1 << 28


def read_trace(path: Path, *, most: float = math.inf) -> Trace:
    """Return the trace in a file.

    Args:
        path: CSV, or JSON of AWS.
        most: See `trace_of_prices`.

    Raises:
        SettingsError: The file cannot be read or is not a trace; the message names the file, and the line if it can.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise SettingsError(f"The trace is larger than {_MOST_BYTES >> 20} MiB: {path}")
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"Cannot read the trace: {error.strerror}: {path}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"The trace is not UTF-8 text: {path}") from error
    try:
        is_json = text.lstrip().startswith(("{", "["))
        rows: list[Any] = _rows_of_json(text) if is_json else list(csv.DictReader(text.splitlines()))
        return _trace([_lowered(row) for row in rows], most)
    except (ValueError, TypeError, csv.Error, RecursionError) as error:
        raise SettingsError(f"Not a trace of prices or events: {error}: {path}") from error


def _rows_of_json(text: str) -> list[dict[str, Any]]:
    found = json.loads(text)
    rows = found.get("SpotPriceHistory") if isinstance(found, dict) else found
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("JSON must have a list SpotPriceHistory, as from aws ec2 describe-spot-price-history")
    return rows


def _lowered(row: Mapping[str | None, Any]) -> dict[str, str]:
    if None in row:
        raise ValueError("a line has more values than the header")
    return {str(name).strip().lower(): str(value).strip() for name, value in row.items() if value is not None}


def _trace(rows: Sequence[Mapping[str, str]], most: float) -> Trace:
    if not rows:
        raise ValueError("it has no lines below a header")
    time = next((name for name in _TIMES if name in rows[0]), "")
    price = next((name for name in _PRICES if name in rows[0]), "")
    if not time or not (price or "event" in rows[0]):
        raise ValueError(f"the columns must be time,price or time,event, not {','.join(rows[0])}")
    if price:
        _check_one_pool(rows)
        return trace_of_prices(sorted((_seconds(row, time), _price(row, price)) for row in rows), most=most)
    return _trace_of_events(sorted((_seconds(row, time), _event(row)) for row in rows), is_dated=not _is_number(
        rows[0][time]))


def _check_one_pool(rows: Sequence[Mapping[str, str]]) -> None:
    pools = sorted({" ".join(row[name] for name in _POOL if row.get(name)) for row in rows})
    if len(pools) > 1:
        raise ValueError(f"it has prices of {len(pools)} kinds of instances ({', '.join(pools[:3])}); write those of "
                         "one, with --instance-types, --availability-zone and --product-descriptions of aws")


def _trace_of_events(events: Sequence[tuple[float, str]], *, is_dated: bool) -> Trace:
    begin = events[0][0] if is_dated else 0.0
    if events[0][0] < 0:
        raise ValueError("a time is negative")
    period = events[-1][0] - begin or DAY_SECS
    interruptions: list[float] = []
    outages: list[tuple[float, float]] = []
    since: float | None = None
    for at, kind in events:
        if kind == "interruption" and since is None:
            interruptions.append((at - begin) % period)
        elif kind == "unavailable" and since is None:
            since = at - begin
        elif kind == "available" and since is not None:
            outages.append((since, at - begin))
            since = None
    if since is not None and since < period:
        outages.append((since, period))
    return Trace(period, tuple(sorted(set(interruptions))), tuple(span for span in outages if span[1] > span[0]))


def _seconds(row: Mapping[str, str], column: str) -> float:
    text = row.get(column, "")
    if _is_number(text):
        secs = float(text)
    else:
        at = datetime.fromisoformat(text)
        secs = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(secs):
        raise ValueError(f"{text!r} is not a time")
    return secs


def _price(row: Mapping[str, str], column: str) -> float:
    price = float(row.get(column, ""))
    if not 0 <= price < math.inf:
        raise ValueError(f"{row[column]!r} is not a price")
    return price


def _event(row: Mapping[str, str]) -> str:
    event = row.get("event", "").lower()
    if event not in _EVENTS:
        raise ValueError(f"{event!r} is not an event; there are: {', '.join(_EVENTS)}")
    return event


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
