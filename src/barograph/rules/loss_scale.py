"""The rule about the gradient scaler in mixed precision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact, fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import learning_rate, stated_loss
from barograph.rules.suspects import ranked
from barograph.rules.words import lower_rate, number, percent, sentence
from barograph.runs.reading.view import StepView

_SCALE = fact(Fact.LOSS_SCALE)


@dataclass(frozen=True, kw_only=True)
class AmpScale(Rule):
    """O103: The gradient scaler skips step after step, or its scale collapses.

    What it sees: whether a gradient scaler (torch.amp.GradScaler) skipped the optimizer's step, and its scale. The rule
      fires if `skipped_in_a_row` consecutive recorded steps were skipped, or more than `skipped_share` of the last
      `window`, or if the scale fell below `min_scale`.
    Why it matters: a skipped step costs as much as any other and trains nothing. A scaler that finds infinities at
      every scale halves it until gradients underflow: the run continues and learns nothing.
    What to do: find what overflows: N101 and N103 name layers. Train in bfloat16, which needs no scaler; keep softmax,
      norms and the loss in float32; lower the learning rate; call scaler.update() once per step.
    When it is wrong: a scaler starts far too high on purpose and skips a few steps until it fits, and later one in some
      thousands. The rule ignores these.
    Source: Micikevicius et al., "Mixed precision training", 2018, section 3.2.
    """

    code: ClassVar[str] = "O103"
    name: ClassVar[str] = "amp-scale"
    severity: ClassVar[Severity] = Severity.COSTLY

    min_scale: float = parameter(1.0, "Scale below which it counts as collapsed.", above=0.0)
    skipped_in_a_row: int = parameter(15, "Consecutive skipped steps that are too many.", at_least=2)
    skipped_share: float = parameter(0.3, "Share of skipped steps that is too much.", above=0.0, at_most=1.0)
    window: int = parameter(50, "Recorded steps over which the share is computed.", at_least=10)

    recovery: int = parameter(50, "Consecutive evaluated steps without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # Together with the loss, which is there at every step: most trainings have no scaler, and miss nothing.
        return (Selection(kinds=frozenset({Kind.LOSS, Kind.FACT}), include=("total", Fact.LOSS_SCALE.value),
                          schedule=Schedule(modes=frozenset({Mode.TRAIN}))),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        scale = view.scalar(_SCALE)
        if view.step.mode is not Mode.TRAIN:
            yield Unjudged("only evaluations were recorded")
            return
        if scale is not None:
            memory["scale"], memory["peak"] = scale, max(scale, memory.get("peak", scale))
        if scale is None and not view.step.skipped and "scale" not in memory:
            yield Unjudged("no gradient scaler was recorded")
            return
        memory.setdefault("scale", None)
        skipped: list[int] = memory.setdefault("skipped", [])
        skipped.append(int(view.step.skipped))
        del skipped[: -self.window]
        memory["in_a_row"] = memory.get("in_a_row", 0) + 1 if view.step.skipped else 0
        share = sum(skipped) / len(skipped)
        if memory["in_a_row"] >= self.skipped_in_a_row or (len(skipped) == self.window and share > self.skipped_share):
            yield self._skipping(view, memory, share)
        if scale is not None and scale < self.min_scale:
            yield self._collapsed(view, memory, scale)

    def _skipping(self, view: StepView, memory: Memory, share: float) -> Symptom:
        row = memory["in_a_row"]
        held = f"{row} consecutive steps" if row >= self.skipped_in_a_row else (
            f"{percent(share)} of the last {self.window} recorded steps")
        return Symptom(
            message=f"The gradient scaler skipped {held}: gradients overflow at any scale.",
            remedy=self._remedy(view), subject="skipped", causes=_causes(view, held),
            evidence=(Evidence(None, view.step.number, "skipped_share", share, self.skipped_share,
                               f"{percent(share)} of the last {len(memory['skipped'])} recorded steps skipped"),),
        )

    def _collapsed(self, view: StepView, memory: Memory, scale: float) -> Symptom:
        why = f"the loss scale fell from {number(memory['peak'])} to {number(scale)}"
        return Symptom(
            message=f"{sentence(why)}: it no longer protects gradients from underflow.",
            remedy=self._remedy(view), subject="scale", causes=_causes(view, why),
            evidence=(_of_scale(_SCALE, view.step.number, scale, self.min_scale),),
        )

    @staticmethod
    def _remedy(view: StepView) -> str:
        return ("Train in bfloat16 (torch.autocast with dtype=torch.bfloat16, no scaler), or keep overflowing layers "
                f"in float32; and {lower_rate(learning_rate(view), 10)}.")


def _of_scale(key: Key, step: int, scale: float, limit: float) -> Evidence:
    return Evidence(key, step, "value", scale, limit, f"scale {number(scale)}")


def _causes(view: StepView, why: str) -> tuple[Suspicion, ...]:
    loss = stated_loss(view)
    spoilt = loss is not None and loss[1] != loss[1]
    return ranked(
        Suspicion(Cause.LOSS_SCALE_COLLAPSE, 0.6, why),
        Suspicion(Cause.FP16_OVERFLOW, 0.4, f"{why}: gradients or activations overflow at any scale"),
        Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.2, why),
        Suspicion(Cause.NON_FINITE_INPUT, 0.3, f"{why}, and the loss itself is NaN") if spoilt else None,
    )
