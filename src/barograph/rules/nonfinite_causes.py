"""Suspected causes of NaN and infinite values: recorded failures, earlier growth, and usual causes by place."""

from __future__ import annotations

from barograph.measures.formats import FP16
from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import NOT_AN_OPERATION, Fact
from barograph.model.key import Kind
from barograph.rules.base import Memory
from barograph.rules.columns import learning_rate, table_of
from barograph.rules.facts import fact_values
from barograph.rules.frameworks import either
from barograph.rules.odd_batches import odd_batch_behind
from barograph.rules.operations import NO_LABELS, averaged_nothing, operations_of
from barograph.rules.origin import Origin, was_fed_well
from barograph.rules.suspects import FAR_LOSS, ranked
from barograph.rules.words import CLIPPING, lower_rate, number, percent, sentence
from barograph.runs.reading.view import StepView

GREW = 10.0
"""A loss this many times above its minimum was already diverging; a single bad batch did not cause it."""

_SOME_SAMPLES = 0.5
USUAL_BY_PLACE: dict[str, tuple[tuple[Cause, float], ...]] = {
    "batch": ((Cause.NON_FINITE_INPUT, 0.7),),
    "first output": ((Cause.NON_FINITE_INPUT, 0.5),),
    "output": ((Cause.BAD_SAMPLE, 0.1),),
    "between": ((Cause.EXP_OVERFLOW, 0.3), (Cause.DIVISION_BY_ZERO, 0.3), (Cause.LOG_OF_ZERO, 0.2)),
    "gradient": ((Cause.SQRT_OF_ZERO, 0.3), (Cause.DIVISION_BY_ZERO, 0.2)),
}
REPLAY = ("Run again with `barograph run --record`, then run `barograph replay`: it names the operation and the "
          "samples.")
_NOT_IN_HALF = "Compute this in float32 or bfloat16, or scale the inputs to unit variance before."
_UNEXPLAINED_BELOW = 0.4
_NOT_KNOWN_WEIGHT = 0.4


def causes_of(origin: Origin, view: StepView, memory: Memory) -> tuple[Suspicion, ...]:
    """Return the suspected causes; "not known yet" comes first if nothing explains the values."""
    fed_well = was_fed_well(view)
    usual = [Suspicion(cause, 0.1, f"it arose in the {origin.place}, but the model's inputs are finite")
             if fed_well and cause is Cause.NON_FINITE_INPUT else
             Suspicion(cause, weight, f"it arose in the {origin.place}") for cause, weight in _usual_of(origin)]
    grew = _growth_suspicions(view, memory)
    if not (fed_well or grew) and origin.place == "first output" and 0 < (share := origin.share) < _SOME_SAMPLES:
        usual.append(Suspicion(Cause.NON_FINITE_INPUT, 0.8, f"{percent(share)} of the first module's outputs are not "
                               "finite: those of some samples only, so bad weights are unlikely"))
    found = ranked(*operations_of(view, loss_is_finite=origin.place in ("gradient", "weight")).values(),
                   NO_LABELS if averaged_nothing(view) else None, *_batch_suspicions(view),
                   odd_batch_behind(memory, view.step.number), *grew,
                   narrow_suspicion(origin), _loss_in_half(origin, view), *usual)
    explained = bool(found) and found[0].weight >= _UNEXPLAINED_BELOW
    return found if explained else ranked(not_known_yet(origin, memory), *found)


def not_known_yet(origin: Origin, memory: Memory) -> Suspicion:
    """Return the suspicion that the cause is unknown, with what was ruled out."""
    grown = [word for word in ("loss", "norm") if f"last_{word}" in memory]
    ruled_out = " and ".join({"loss": "the loss", "norm": "the gradient norm"}[word] for word in grown)
    why = (f"{ruled_out} had not grown before, and " if grown else "") + "no operation is known to have failed"
    return Suspicion(Cause.NOT_KNOWN_YET, _NOT_KNOWN_WEIGHT, f"it arose in the {origin.place}; {why}", REPLAY)


def _usual_of(origin: Origin) -> tuple[tuple[Cause, float], ...]:
    if origin.place != "loss":
        return USUAL_BY_PLACE.get(origin.place, ())
    # With all outputs recorded and finite, the loss itself is at fault; otherwise it only shows another failure.
    if "outputs" not in origin.text:
        return (Cause.LOG_OF_ZERO, 0.2), (Cause.DIVISION_BY_ZERO, 0.1), (Cause.NON_FINITE_INPUT, 0.2)
    return (Cause.LOG_OF_ZERO, 0.3), (Cause.DIVISION_BY_ZERO, 0.3), (Cause.EXP_OVERFLOW, 0.2)


def _loss_in_half(origin: Origin, view: StepView) -> Suspicion | None:
    """Return the suspicion that a loss overflowed in float16, if squares of the model's finite outputs would."""
    if origin.place != "loss" or "outputs" not in origin.text:
        return None
    outputs = table_of(view, Kind.OUTPUT)
    half = outputs.dtypes == "float16"
    if not half.any():
        return None
    most = float(outputs.max_abs[half].max())
    if most**2 <= FP16.largest:
        return None
    return Suspicion(Cause.FP16_OVERFLOW, 0.6, f"outputs reach {number(most)} in float16, whose largest value is "
                     "65504, and the loss sums over the batch", _IN_FLOAT32)


_IN_FLOAT32 = f"Compute the loss in float32 ({either(torch='outputs.float()', keras='dtype of the last layer')})."


def _batch_suspicions(view: StepView) -> list[Suspicion]:
    batch = table_of(view, Kind.BATCH)
    # −inf in a batch may be a mask.
    count = int((batch.column("nan") + batch.column("posinf")).sum())
    if count:
        are = "value of the batch is" if count == 1 else "values of the batch are"
        return [Suspicion(Cause.NON_FINITE_INPUT, 0.9, f"{count} {are} NaN or infinite")]
    if NOT_AN_OPERATION not in fact_values(view, Fact.BAD_OPERATION):
        return []
    if was_fed_well(view):
        usual = [Suspicion(cause, 0.1 + weight, _MADE_OF_DATA) for cause, weight in USUAL_BY_PLACE["between"]]
        half = batch.dtypes == "float16"
        if not half.any():
            return usual
        most = float(batch.max_abs[half].max())
        why = f", and the square of {number(most)} exceeds it" if most**2 > FP16.largest else ""
        return [Suspicion(Cause.FP16_OVERFLOW, 0.6 if why else 0.45,
                          f"{_MADE_OF_DATA}. It is float16, whose largest value is 65504{why}", _NOT_IN_HALF),
                *usual]
    return [Suspicion(Cause.NON_FINITE_INPUT, FED_BADLY_WEIGHT, FED_BADLY)]


FED_BADLY = ("data in the loss was NaN or infinite before any parameter was involved: the batch, the targets, "
             "or a value computed from these alone")
FED_BADLY_WEIGHT = 0.7
"""The batch was not recorded, and computations before the first parameter leave no trace in the graph."""

_MADE_OF_DATA = ("the batch is finite, but data in the loss was NaN or infinite before any parameter was involved: a "
                 "computation on the batch alone produced it")


def was_fed_badly(view: StepView) -> bool:
    """Return whether the graph of the loss contains non-finite data that may come from the batch."""
    return NOT_AN_OPERATION in fact_values(view, Fact.BAD_OPERATION) and not was_fed_well(view)


def _growth_suspicions(view: StepView, memory: Memory) -> list[Suspicion]:
    found = []
    least, last = memory.get("least_loss"), memory.get("last_loss")
    rate = learning_rate(view)
    if least is not None and last is not None and last > GREW * max(least, 0.0) > 0:
        found.append(Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.6 if least <= FAR_LOSS else 0.3,
                               f"the loss had grown from {number(least)} to {number(last)} by step "
                               f"{memory['last_loss_step']}: training diverged", _slower(rate)))
    least, last = memory.get("least_norm"), memory.get("last_norm")
    if least is not None and last is not None and last > GREW * least > 0:
        why = f"the gradient norm had grown from {number(least)} to {number(last)} before"
        found += [Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.5, why, _slower(rate)),
                  Suspicion(Cause.EXPLODING_GRADIENT, 0.4, why)]
        if memory.get("recurrent"):
            found.append(Suspicion(Cause.NO_GRADIENT_CLIPPING, 0.5, f"{why}, in a model with recurrent layers",
                                   f"Clip gradients to a norm of 1 ({CLIPPING})."))
    return found


def _slower(rate: float | None) -> str:
    return f"{sentence(lower_rate(rate, 10))}, warm it up, or clip gradients to a norm of 1."


def narrow_suspicion(origin: Origin) -> Suspicion | None:
    """Return the suspicion that float16 is at fault: by overflow, or by an epsilon rounded to 0."""
    subject = origin.table.subjects[origin.row]
    if subject.dtype != "float16":
        return None
    if origin.place == "weight":
        return Suspicion(Cause.FP16_UNDERFLOW, 0.8,
                         f'"{subject.key.path}" is float16 and its gradient is finite: in float16 an epsilon of 1e-8, '
                         "as Adam's, is 0, and the update divides 0 by 0",
                         "Keep the weights in float32 and compute under autocast, or raise eps from 1e-8 to 1e-4.")
    # NaN alone has many causes; an overflow is infinite somewhere before it is NaN.
    infinite = bool(origin.table.infinite.any())
    return Suspicion(Cause.FP16_OVERFLOW, 0.8 if infinite else 0.3,
                     f'"{subject.key.path}" is float16, whose largest value is 65504',
                     "Use bfloat16, or keep this layer in float32.")

