"""Operations that make a loss or a gradient non-finite, with cause and remedy."""

from __future__ import annotations

from typing import NamedTuple

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.rules.facts import fact_values
from barograph.rules.frameworks import either
from barograph.runs.reading.view import StepView

MEAN = "mean"
"""A mean over nothing: it has its own cause, and training may continue."""


class Operation(NamedTuple):
    """Attributes:
    cause: Cause if the operation makes the loss non-finite.
    detail: The input at fault.
    remedy: What to do.
    """

    cause: Cause
    detail: str
    remedy: str


_EXP = Operation(
    Cause.EXP_OVERFLOW, "its input is too large",
    "Replace exp by softmax, logsumexp or the loss that takes logits: they subtract the maximum first.")
_DIV = Operation(Cause.DIVISION_BY_ZERO, "the divisor is 0",
                 "Add an epsilon to the divisor (x / (y + 1e-8)), or clamp it from below.")
_DEVIATION = Operation(
    Cause.DIVISION_BY_ZERO, "the variance of a single value divides by 0",
    "Pass correction=0, or drop batches of one sample (drop_last=True).")
_INVERSE = "Clamp the input to the inside of the domain, for example x.clamp(-1 + 1e-6, 1 - 1e-6)."
_POLES = Operation(Cause.OUT_OF_DOMAIN, "its input is 0 or a negative integer",
                   "Clamp the input to at least 1e-6.")
_SCALE_BEFORE = ("Compute this product in bfloat16 or float32, or scale the queries before the product, not its result "
                 "(scaled_dot_product_attention does). If its inputs keep growing, clip gradients or normalize them.")
_OVERFLOW = Operation(Cause.FP16_OVERFLOW, "its result exceeds 65504, the largest value of float16", _SCALE_BEFORE)
_UNMASK = "Keep at least one position of each row unmasked, and never mask the class of the label."
_EQUAL = Operation(
    Cause.INFINITE_DERIVATIVE, "two of its values are equal, and the derivative divides by their difference",
    "Use the values alone, not the vectors (svdvals, eigvalsh), or add a little noise to the matrix.")


def _inverse(domain: str) -> Operation:
    return Operation(Cause.OUT_OF_DOMAIN, f"its input is not {domain}", _INVERSE)


_ON_LOGITS = either(torch="cross_entropy or binary_cross_entropy_with_logits", keras="from_logits=True",
                    jax="optax.softmax_cross_entropy or sigmoid_binary_cross_entropy")
_OPERATIONS = {
    "exp": _EXP, "cosh": _EXP, "sinh": _EXP,
    "log": Operation(
        Cause.LOG_OF_ZERO, "its input is 0",
        f"Use the loss that takes logits ({_ON_LOGITS}), or clamp the input of the logarithm to at least 1e-8."),
    "log_of_negative": Operation(
        Cause.OUT_OF_DOMAIN, "its input is negative",
        "Make the input of the logarithm positive (softplus, exp, or clamp it to at least 1e-8)."),
    "xlogy": Operation(Cause.OUT_OF_DOMAIN, "the input of its logarithm is negative",
                       "Clamp the input of the logarithm to at least 1e-8."),
    "div": _DIV, "addcdiv": _DIV, "remainder": _DIV, "rem": _DIV,
    "std": _DEVIATION, "var": _DEVIATION,
    "sqrt": Operation(Cause.SQRT_OF_ZERO, "its input is 0, where the derivative is infinite",
                      "Add an epsilon inside the root: sqrt(x + 1e-12)."),
    "sqrt_of_negative": Operation(
        Cause.OUT_OF_DOMAIN, "its input is negative",
        "Make the input of the root positive: clamp it to at least 1e-12. A variance computed as E[x²] − E[x]² can be "
        "slightly negative."),
    "hypot": Operation(Cause.SQRT_OF_ZERO, "both inputs are 0, where the derivative is 0/0",
                       "Use sqrt(x² + y² + 1e-12)."),
    "acos": _inverse("inside (−1, 1)"), "asin": _inverse("inside (−1, 1)"), "atanh": _inverse("inside (−1, 1)"),
    "erfinv": _inverse("inside (−1, 1)"), "erf_inv": _inverse("inside (−1, 1)"),
    "acosh": Operation(Cause.OUT_OF_DOMAIN, "its input is not above 1", "Clamp the input to at least 1 + 1e-6."),
    "logit": Operation(Cause.OUT_OF_DOMAIN, "its input is not inside (0, 1)", "Pass eps=1e-6 to logit."),
    "pow": Operation(Cause.OUT_OF_DOMAIN, "its base is 0 or negative, and its exponent is negative or a fraction",
                     "Clamp the base to at least 1e-8."),
    "lgamma": _POLES, "digamma": _POLES,
    "ctc_loss": Operation(
        Cause.OUT_OF_DOMAIN, "a target is longer than its input allows",
        "Pass zero_infinity=True, and drop samples whose target is longer than their input."),
    "softmax": Operation(
        Cause.FULLY_MASKED, "a row, or the target's class, is masked with −inf", _UNMASK),
    "softmax_of_infinity": Operation(
        Cause.FULLY_MASKED, "its input has a row that is masked with −inf completely, or an infinite value", _UNMASK),
    "softmax_float16": Operation(
        Cause.FP16_OVERFLOW, "its input contains infinities, which float16 products above 65504 cause, or a row that "
        "is masked with −inf completely", f"{_SCALE_BEFORE} {_UNMASK}"),
    "bmm_float16": _OVERFLOW, "mm_float16": _OVERFLOW, "addmm_float16": _OVERFLOW, "baddbmm_float16": _OVERFLOW,
    "svd": _EQUAL, "eigh": _EQUAL,
    "qr": Operation(Cause.INFINITE_DERIVATIVE, "its input does not have full rank",
                    "Add a small multiple of the identity to the matrix."),
}
_NOTHING_TO_AVERAGE = ("Skip a batch without labels, or sum and divide by the number of labels, at least 1: "
                       'cross_entropy(..., reduction="sum") / (labels != -100).sum().clamp(min=1).')
NO_LABELS = Suspicion(
    Cause.NOTHING_TO_AVERAGE, 0.9,
    "the mean was taken over nothing: every label of the batch is ignored or has weight 0, or the selection is empty",
    _NOTHING_TO_AVERAGE)
_STEEP = frozenset({"acos", "asin", "acosh", "atanh", "pow"})
"""Operations whose value is finite and whose derivative infinite at the end of their domain."""


def operations_of(view: StepView, *, loss_is_finite: bool = False) -> dict[str, Suspicion]:
    """Return the operations that capture found at fault in this step, except a mean over nothing.

    Args:
        view: The step.
        loss_is_finite: Only the gradient is non-finite.

    Example:
        >>> from barograph.model.facts import fact
        >>> operations_of(StepView.of(0, {fact(Fact.BAD_OPERATION, "div"): 1.0}))["div"].why
        'the loss is not finite because of the operation div: the divisor is 0'
    """
    found = {}
    for name, sure in fact_values(view, Fact.BAD_OPERATION).items():
        known = _OPERATIONS.get(name)
        if known is None or sure <= 0:
            continue
        # A share below 1: the weights broke earlier, and this operation could have caused it in backward.
        in_backward = loss_is_finite or sure < 1
        what = "a gradient" if in_backward else "the loss"
        cause = Cause.INFINITE_DERIVATIVE if in_backward and name in _STEEP else known.cause
        at_end = in_backward and name in _STEEP
        detail = "its derivative is infinite at the end of its domain" if at_end else known.detail
        found[name] = Suspicion(cause, 0.9 * min(sure, 1.0),
                                f"{what} is not finite because of the operation {name}: {detail}", known.remedy)
    return found


def averaged_nothing(view: StepView) -> bool:
    """Return whether the loss of this step is a mean over nothing."""
    return fact_values(view, Fact.BAD_OPERATION).get(MEAN, 0.0) > 0
