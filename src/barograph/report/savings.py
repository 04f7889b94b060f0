"""Time and money saved if the run had stopped when the first breaking finding opened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from barograph.errors import SettingsError
from barograph.model.finding import Finding, Severity
from barograph.report.content import Savings
from barograph.runs.reading.roster import WorkerState
from barograph.runs.reading.view import group_of
from barograph.watch.figures import count, duration, share

_LONGEST_CURRENCY = 12


@dataclass(frozen=True, slots=True)
class Price:
    """Price of an hour of the run on all its machines.

    Attributes:
        per_hour: At least 0.
        currency: Currency.
    """

    per_hour: float
    currency: str = "USD"


def price_from(per_hour: float | None, currency: str | None) -> Price | None:
    """Return the price given by the user; None if there is none.

    Raises:
        SettingsError: The price is negative or not finite; the currency is not a short word, or has no price.
    """
    if per_hour is None:
        if currency is not None:
            raise SettingsError("--currency needs --price-per-hour: no price was given.")
        return None
    if not 0 <= per_hour < math.inf:
        raise SettingsError(f"--price-per-hour is {per_hour:g}; it must be finite and at least 0.")
    word = "USD" if currency is None else currency.strip()
    if not word or len(word) > _LONGEST_CURRENCY or not word.isprintable():
        raise SettingsError(f"--currency is {currency!r}; it must be a short word, such as USD.")
    return Price(per_hour, word)


def trained_secs(workers: Sequence[WorkerState], since_unix: float = -math.inf) -> float:
    """Return the training time after a moment over all attempts, without pauses between them.

    An attempt lasts from its first worker's start to its last worker's last heartbeat.
    """
    total = 0.0
    for attempt in {state.worker.attempt for state in workers}:
        spans = [(state.worker.started_unix, state.last.time_unix) for state in workers
                 if state.worker.attempt == attempt and state.last is not None]
        if spans:
            total += max(0.0, max(end for _, end in spans) - max(since_unix, min(start for start, _ in spans)))
    return total


def savings_of(
    findings: Sequence[Finding], workers: Sequence[WorkerState], price: Price | None, *, steps: int, judged: bool,
    so_far: bool,
) -> Savings:
    """Return the savings.

    Args:
        findings: Findings of the run.
        workers: Workers of all attempts.
        price: Price per hour; None: unknown.
        steps: Number of optimizer steps.
        judged: Whether all published records were evaluated.
        so_far: Whether the run is still active.
    """
    trained = trained_secs(workers)
    breaking = [item for item in findings if item.severity is Severity.BREAKING]
    first = min(breaking, key=lambda item: item.opened_unix, default=None)
    secs = trained_secs(workers, first.opened_unix) if first else 0.0
    part = secs / trained if trained > 0 else math.nan
    cost, saved = (None, None) if price is None else (price.per_hour * trained / 3600, price.per_hour * secs / 3600)
    made = max(0, steps - first.opened_step - 1) if first else 0
    if first and (first.optimizer or len({group_of(state.worker.name) for state in workers}) > 1) and trained > 0:
        # The finding's step counts one optimizer, but `steps` counts all, so the share of time is used.
        made = round(part * steps)
    return Savings(
        finding=first.id if first else "", code=first.code if first else "", step=first.opened_step if first else -1,
        opened_unix=first.opened_unix if first else math.nan, secs=secs, share=part if first else 0.0, steps=made,
        price_per_hour=price.per_hour if price else None, currency=price.currency if price else "", cost=cost,
        saved=saved, so_far=so_far,
        text=_text(first, secs, part, made, price, saved, judged=judged, so_far=so_far),
    )


def money(amount: float, currency: str) -> str:
    """Return an amount with cents, and more digits if it is small.

    Example:
        >>> money(12.5, "USD"), money(0.0123, "USD"), money(0.0, "EUR")
        ('12.50 USD', '0.012 USD', '0.00 EUR')
    """
    return f"{amount:.2g} {currency}" if 0 < amount < 0.1 else f"{amount:,.2f} {currency}"


def _text(
    first: Finding | None, secs: float, part: float, steps: int, price: Price | None, saved: float | None, *,
    judged: bool, so_far: bool,
) -> str:
    if first is None:
        if not judged:
            return "Unknown: not all of the run was evaluated, and no breaking finding opened in the part that was."
        return "Nothing: no breaking finding opened."
    since = f"{first.code} {first.rule} opened at step {first.opened_step}"
    worth = f", {money(saved, price.currency)}" if price is not None and saved is not None else ""
    of_all = f", {share(part)} of the training time" if not math.isnan(part) else ""
    goes_on = " so far" if so_far else ""
    return (f"Stopping when {since} would have saved {duration(secs)}{worth}{goes_on}: {count(steps, 'step')} "
            f"came after it{of_all}.")
