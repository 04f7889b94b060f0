"""The rule about sudden jumps of the loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from barograph.measures.robust import robust_z
from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind, key_from_text
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.clues import by_weight, fact_value
from barograph.rules.columns import learning_rate, stated_loss
from barograph.rules.odd_batches import OddBatch, follow_batches
from barograph.rules.words import CLIPPING, lower_rate, number, sentence
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, kw_only=True)
class LossSpike(Rule):
    """L104: The loss suddenly jumps far above its level.

    What it sees: the training loss and its last `window` recorded values. A spike is `factor` times their maximum, `z`
      robust standard deviations above their level (of the logarithm, so the long tail of small-batch losses is no
      spike), and `above_start` times the first losses. The finding waits for three more losses: whether the loss
      recovers distinguishes one bad batch from updates that are too large. A loss of one or two samples that recovers
      is no spike, unless the values of the batch are far out of range.
    Why it matters: one such step can undo hours of training; later steps start from damaged weights.
    What to do: check the batch of that step; clip gradients; lower the learning rate or lengthen the warm-up.
    When it is wrong: a new phase on purpose (other data, another weight for a part of the loss). Losses that are zero
      or negative are not checked, nor are trainings with several optimizers.
    Source: Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways", 2022, section 5.1, on loss spikes and
      the batches they meet; Rousseeuw & Croux, "Alternatives to the median absolute deviation", 1993.
    """

    code: ClassVar[str] = "L104"
    name: ClassVar[str] = "loss-spike"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    factor: float = parameter(3.0, "Multiple of the highest loss in the window.", above=1.0)
    z: float = parameter(6.0, "Robust standard deviations of the logarithm above its level.", above=0.0)
    above_start: float = parameter(1.5, "Multiple of the first losses.", at_least=0.0)
    window: int = parameter(50, "Recorded losses to compare with; at least 20 are needed.", at_least=20)
    recovery: int = parameter(20, "Consecutive evaluated steps without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.LOSS}), schedule=Schedule(modes=frozenset({Mode.TRAIN}))),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        found = stated_loss(view)
        if found is None or view.step.mode is not Mode.TRAIN:
            yield Unjudged("no training loss was recorded")
            return
        if view.step.has_rivals:
            yield Unjudged("the run has several optimizers, as in adversarial training, where a loss may jump")
            return
        key, loss = found
        odd = follow_batches(view, memory)
        if size := fact_value(view, Fact.BATCH_SIZE):
            memory["batch_size"] = size
        history: list[float] = memory.setdefault("losses", [])
        if "spike" in memory:
            yield from self._followed_up(view, loss, memory)
            return
        if not loss > 0:
            # This includes NaN, which N101 reports.
            memory["not_positive"] = True
        if memory.get("not_positive") or not math.isfinite(loss):
            yield Unjudged("the losses are not positive")
            return
        seen = len(history)
        if seen >= _LEAST_HISTORY and self._is_spike(loss, history, memory["start"]):
            memory["spike"] = {
                "key": str(key), "step": view.step.number, "loss": loss, "level": median(history), "after": [],
                "batch": odd and list(odd),
            }
            yield Unjudged("the loss jumped; waiting for the next losses to see whether it recovers")
            return
        history.append(loss)
        del history[: -self.window]
        if "start" not in memory and len(history) == _STARTING:
            memory["start"] = median(history)
        if seen < _LEAST_HISTORY:
            yield Unjudged(f"needs {_LEAST_HISTORY} losses; this run has {seen + 1}")

    def _is_spike(self, loss: float, history: list[float], start: float) -> bool:
        if loss < self.factor * max(history) or loss < self.above_start * start:
            return False
        return robust_z(math.log(loss), [math.log(value) for value in history], floor=_LEAST_SPREAD) >= self.z

    def _followed_up(self, view: StepView, loss: float, memory: Memory) -> Iterable[Symptom | Unjudged]:
        spike: dict[str, Any] = memory["spike"]
        spike["after"].append(loss if math.isfinite(loss) else math.inf)
        if len(spike["after"]) < _FOLLOWED and math.isfinite(loss):
            yield Unjudged("the loss jumped; waiting for the next losses to see whether it recovers")
            return
        del memory["spike"]
        back = median(spike["after"]) < math.sqrt(spike["loss"] * spike["level"])
        if back:
            memory["losses"] += [value for value in spike["after"] if 0 < value < spike["loss"]]
        else:
            # Training continues at another level.
            memory["losses"] = [value for value in spike["after"] if math.isfinite(value) and value > 0]
        # One sample that is hard for a moment; a batch out of range is one all the same.
        if not back or spike["batch"] is not None or memory.get("batch_size", math.inf) > _FEW_SAMPLES:
            yield self._symptom(view, spike, back=back)

    def _symptom(self, view: StepView, spike: dict[str, Any], *, back: bool) -> Symptom:
        step, loss, level = spike["step"], spike["loss"], spike["level"]
        then = (f"{view.step.number - step} steps later it was back at {number(median(spike['after']))}" if back
                else "it has not recovered since")
        slower = sentence(lower_rate(learning_rate(view), 3))
        return Symptom(
            message=f"The loss jumped to {number(loss)} at step {step}, {number(loss / level)} times its level of "
                    f"{number(level)}; {then}.",
            remedy=f"Check the batch of step {step}; clip gradients ({CLIPPING}). "
                   f"{slower} if spikes recur.",
            evidence=(Evidence(key_from_text(spike["key"]), step, "loss", loss, self.factor * level,
                               f"median of the last losses {number(level)}"),),
            since=step, causes=_behind_spike(spike, back=back, slower=slower),
        )


_STARTING, _LEAST_HISTORY, _FOLLOWED = 5, 20, 3
_LEAST_SPREAD = 0.05
_FEW_SAMPLES = 2


_ABRUPT = 1e4


def _behind_spike(spike: dict[str, Any], *, back: bool, slower: str) -> tuple[Suspicion, ...]:
    step, odd = spike["step"], spike["batch"] and OddBatch(*spike["batch"])
    abrupt = spike["loss"] > _ABRUPT * spike["level"]
    look = f"Find the sample in the batch of step {step} and remove or rescale it; clip gradients."
    found = []
    if odd is not None and odd.broken:
        found += [Suspicion(Cause.NON_FINITE_INPUT, 0.9, f"the batch of step {step} holds {odd.broken} values that "
                            "are not finite", look),
                  Suspicion(Cause.BAD_SAMPLE, 0.5, f"the batch of step {step} is not finite", look)]
    elif odd is not None:
        found.append(Suspicion(Cause.BAD_SAMPLE, 0.8, f"the batch of step {step} has values up to {number(odd.reach)}, "
                               f"{number(odd.reach / odd.before)} times the largest before", look))
    elif abrupt:
        times = number(spike["loss"] / spike["level"])
        found.append(Suspicion(Cause.BAD_SAMPLE, 0.7, f"the loss rose to {times} times its level in one step; updates "
                               "that are too large take several", look))
    elif back:
        found.append(Suspicion(Cause.BAD_SAMPLE, 0.4, "a single step jumped, and the loss recovered", look))
    return by_weight([
        *found,
        Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.25 if back or abrupt else 0.45,
                  "the loss jumped above its level" + ("" if back else " and did not recover"), f"{slower}."),
        Suspicion(Cause.NO_GRADIENT_CLIPPING, 0.15, "a common cause"),
        Suspicion(Cause.BAD_SAMPLE, 0.15, "a common cause"),
    ])
