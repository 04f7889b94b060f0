"""Grades a replay: identical to the last bit, the same event, or neither."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from barograph.capsule.order import Grade, GradientSeen, ReplayResult

_CLOSE = 1e-3
"""Relative difference of losses up to which the event is the same."""


def graded(
    then: Mapping[str, Any], now: Mapping[str, Any], *, held: str, bound: float | None, notes: tuple[str, ...] = ()
) -> ReplayResult:
    """Return how closely a replay matches the original.

    Args:
        then: "losses" as hexadecimal strings, and "gradients": path to "digest" and "norm"; for a step judged by its
            return values also "results", like "gradients". Without digests, only norms are compared.
        now: As `then`, of the replay.
        held: Why the step was saved.
        bound: Bound that the norm exceeded; None if that was not the reason.
        notes: Differences from the original circumstances.

    Example:
        >>> seen = {"losses": ["0x1.0p+0"], "gradients": {"w": {"digest": "a", "norm": 2.0}}}
        >>> graded(seen, seen, held="norm", bound=1.0).grade.value
        'bitwise'
    """
    losses = tuple((float.fromhex(before), float.fromhex(after))
                   for before, after in zip(then["losses"], now["losses"], strict=False))
    gradients, results = (_all_compared(then.get(group, {}), now.get(group, {})) for group in ("gradients", "results"))
    different = [item for item in (*gradients, *results) if not item.equal]
    # The loss of a compiled step cannot be observed.
    same_losses = then["losses"] == now["losses"] or (not then["losses"] and bool(gradients))
    if same_losses and not different and (gradients or results or losses):
        return ReplayResult(Grade.BITWISE, _the_same(then), losses, gradients, notes, results=results)
    again = _happened(held, bound, then, now, losses, results)
    grade = Grade.SAME_EVENT if again else Grade.NOT_REPRODUCED
    off = max((_relative(item) for item in different), default=0.0)
    of = "results" if results else "gradients"
    parts = f"{len(different)} of {len(results or gradients)} {of} differ" if different else "the loss differs"
    by = "" if math.isnan(off) or not different else f", in norm by at most {100 * off:.2g}%"
    text = f"{'Reproduced' if again else 'Not reproduced'}; {parts}{by}."
    return ReplayResult(grade, text, losses, gradients, notes, results=results)


def _the_same(then: Mapping[str, Any]) -> str:
    if then.get("results"):
        return "The loss and all results of the step are bit-identical."
    if not then["gradients"]:
        return "The loss is bit-identical; gradients were not recorded."
    if not then["losses"]:
        return "Every gradient is bit-identical; the loss was not recorded."
    if all("digest" in seen for seen in then["gradients"].values()):
        return "The loss and every gradient are bit-identical."
    return "The loss and the norm of every gradient are bit-identical; only norms were recorded."


def _all_compared(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[GradientSeen, ...]:
    return tuple(_compared(path, then.get(path), now.get(path)) for path in dict.fromkeys((*then, *now)))


def _compared(path: str, then: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> GradientSeen:
    equal = False
    if then is not None and now is not None:
        equal = then["digest"] == now["digest"] if "digest" in then else then["norm"] == now["norm"]
    return GradientSeen(path, equal, _norm(then), _norm(now))


def _norm(seen: Mapping[str, Any] | None) -> float:
    return float("nan") if seen is None or seen["norm"] is None else float(seen["norm"])


def _relative(item: GradientSeen) -> float:
    if not (math.isfinite(item.norm_then) and math.isfinite(item.norm_now)):
        return float("nan")
    return abs(item.norm_now - item.norm_then) / max(abs(item.norm_then), 1e-30)


def _happened(
    held: str, bound: float | None, then: Mapping[str, Any], now: Mapping[str, Any],
    losses: tuple[tuple[float, float], ...], results: Sequence[GradientSeen],
) -> bool:
    norms_then, norms = ([_norm(seen) for seen in side.get("gradients", {}).values()] for side in (then, now))
    if held in ("not finite", "scale"):
        # A result may be infinite in a good step, too: the best loss so far, before there is one.
        of_results = [item.norm_now for item in results if not math.isfinite(item.norm_then)]
        if not all(map(math.isfinite, (*norms, *of_results, *(now for _, now in losses)))):
            return True
        was_seen = not all(map(math.isfinite, (*norms_then, *(item.norm_then for item in results),
                                               *(then for then, _ in losses))))
    else:
        was_seen = bound is not None and held == "norm" and not math.hypot(*norms_then) <= bound
        if was_seen and bound is not None:
            return not math.hypot(*norms) <= bound
    # Clipped gradients and a single worker's gradients did not show it originally either; the loss decides.
    return not was_seen and len(norms) == len(norms_then) and bool(losses) and all(
        abs(now - then) <= _CLOSE * max(abs(then), 1e-30) for then, now in losses)
