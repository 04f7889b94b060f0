"""The rule about a loss that jumps for a moment."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from barograph.measures.robust import robust_z
from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind, key_from_text
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.clues import by_weight
from barograph.rules.columns import learning_rate, stated_loss
from barograph.rules.odd_batches import OddBatch, follow_batches
from barograph.rules.words import CLIPPING, lower_rate, number, sentence
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, kw_only=True)
class LossSpike(Rule):
    """L104: The loss is suddenly far above its own level.

    What it sees: the training loss beside its last `window` recorded values. A spike is `factor` times the highest of
      them, `z` robust spreads above their level (of the logarithm, so that the long tail that losses of small batches
      have is no spike), and `above_start` times what training began with. The finding waits for three more losses:
      whether the loss came back by itself tells one bad batch from steps that are too large.
    Why it matters: one such step can undo hours of training; what comes after it starts from spoilt weights.
    What to do: look at the batch of that step; clip gradients; lower the learning rate or lengthen the warm-up.
    When it is wrong: a new phase on purpose (other data, another weight of a part of the loss). Losses that are zero
      or negative have no level in this sense and are not judged, nor are trainings with several optimizers.
    Source: Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways", 2022, section 5.1, on loss spikes and
      the batches they meet; Rousseeuw & Croux, "Alternatives to the median absolute deviation", 1993.
    """

    code: ClassVar[str] = "L104"
    name: ClassVar[str] = "loss-spike"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    factor: float = parameter(3.0, "How many times above the highest loss of the window.", above=1.0)
    z: float = parameter(6.0, "How many robust spreads of the logarithm above its level.", above=0.0)
    above_start: float = parameter(1.5, "How many times above the loss that training began with.", at_least=0.0)
    window: int = parameter(50, "Recorded losses it is compared with; judging begins after 20.", at_least=20)
    recovery: int = parameter(20, "Judged steps in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.LOSS}), schedule=Schedule(modes=frozenset({Mode.TRAIN}))),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        found = stated_loss(view)
        if found is None or view.step.mode is not Mode.TRAIN:
            yield Unjudged("no training loss was recorded")
            return
        if view.step.has_rivals:
            yield Unjudged("with several optimizers a loss may jump, as in adversarial training")
            return
        key, loss = found
        odd = follow_batches(view, memory)
        history: list[float] = memory.setdefault("losses", [])
        if "spike" in memory:
            yield from self._followed_up(view, loss, memory)
            return
        if not loss > 0:
            # NaN among them: N101 speaks of that.
            memory["not_positive"] = True
        if memory.get("not_positive") or not math.isfinite(loss):
            yield Unjudged("losses that are not above zero have no level")
            return
        seen = len(history)
        if seen >= _LEAST_HISTORY and self._is_spike(loss, history, memory["start"]):
            memory["spike"] = {
                "key": str(key), "step": view.step.number, "loss": loss, "level": median(history), "after": [],
                "batch": odd and list(odd),
            }
            yield Unjudged("the loss jumped; whether it comes back is not known yet")
            return
        history.append(loss)
        del history[: -self.window]
        if "start" not in memory and len(history) == _STARTING:
            memory["start"] = median(history)
        if seen < _LEAST_HISTORY:
            yield Unjudged(f"{seen + 1} losses so far; it compares with {_LEAST_HISTORY}")

    def _is_spike(self, loss: float, history: list[float], start: float) -> bool:
        if loss < self.factor * max(history) or loss < self.above_start * start:
            return False
        return robust_z(math.log(loss), [math.log(value) for value in history], floor=_LEAST_SPREAD) >= self.z

    def _followed_up(self, view: StepView, loss: float, memory: Memory) -> Iterable[Symptom | Unjudged]:
        spike: dict[str, Any] = memory["spike"]
        spike["after"].append(loss if math.isfinite(loss) else math.inf)
        if len(spike["after"]) < _FOLLOWED and math.isfinite(loss):
            yield Unjudged("the loss jumped; whether it comes back is not known yet")
            return
        del memory["spike"]
        back = median(spike["after"]) < math.sqrt(spike["loss"] * spike["level"])
        if back:
            memory["losses"] += [value for value in spike["after"] if 0 < value < spike["loss"]]
        else:
            # Training goes on at another level.
            memory["losses"] = [value for value in spike["after"] if math.isfinite(value) and value > 0]
        yield self._symptom(view, spike, back=back)

    def _symptom(self, view: StepView, spike: dict[str, Any], *, back: bool) -> Symptom:
        step, loss, level = spike["step"], spike["loss"], spike["level"]
        then = (f"{view.step.number - step} steps later it was back at {number(median(spike['after']))}" if back
                else "it has not come back since")
        slower = sentence(lower_rate(learning_rate(view), 3))
        return Symptom(
            message=f"The loss jumped to {number(loss)} at step {step}, {number(loss / level)} times its level of "
                    f"{number(level)}; {then}.",
            remedy=f"Look at the batch of step {step}; clip gradients ({CLIPPING}). "
                   f"{slower} if spikes come back.",
            evidence=(Evidence(key_from_text(spike["key"]), step, "loss", loss, self.factor * level,
                               f"level of the last losses {number(level)}"),),
            since=step, causes=_behind_spike(spike, back=back, slower=slower),
        )


_STARTING, _LEAST_HISTORY, _FOLLOWED = 5, 20, 3
_LEAST_SPREAD = 0.05


_ABRUPT = 1e4


def _behind_spike(spike: dict[str, Any], *, back: bool, slower: str) -> tuple[Suspicion, ...]:
    step, odd = spike["step"], spike["batch"] and OddBatch(*spike["batch"])
    abrupt = spike["loss"] > _ABRUPT * spike["level"]
    look = f"Find the sample in the batch of step {step}, and take it out or bring it into range; clip gradients."
    found = []
    if odd is not None and odd.broken:
        found += [Suspicion(Cause.NON_FINITE_INPUT, 0.9, f"the batch of step {step} holds {odd.broken} values that "
                            "are not finite", look),
                  Suspicion(Cause.BAD_SAMPLE, 0.5, f"the batch of step {step} is not finite", look)]
    elif odd is not None:
        found.append(Suspicion(Cause.BAD_SAMPLE, 0.8, f"the batch of step {step} reaches {number(odd.reach)}, "
                               f"{number(odd.reach / odd.before)} times the largest value before", look))
    elif abrupt:
        times = number(spike["loss"] / spike["level"])
        found.append(Suspicion(Cause.BAD_SAMPLE, 0.7, f"the loss went to {times} times its level in one step; steps "
                               "that are too large take several", look))
    elif back:
        found.append(Suspicion(Cause.BAD_SAMPLE, 0.4, "a single step stands out, and the loss came back", look))
    return by_weight([
        *found,
        Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.25 if back or abrupt else 0.45,
                  "the loss jumped out of its level" + ("" if back else " and did not come back"), f"{slower}."),
        Suspicion(Cause.NO_GRADIENT_CLIPPING, 0.15, "a usual suspect"),
        Suspicion(Cause.BAD_SAMPLE, 0.15, "a usual suspect"),
    ])
