"""The rule about the learning rate and its scheduler."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import learning_rate
from barograph.rules.frameworks import either
from barograph.rules.suspects import about, remember_facts
from barograph.rules.words import number
from barograph.runs.reading.view import StepView

_BY_EPOCH = ("StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "PolynomialLR", "LinearLR")
"""Schedulers that PyTorch scripts usually step once per epoch; OneCycleLR and LambdaLR are stepped each batch."""
_WAITS = ("ReduceLROnPlateau", "LambdaLR", "MultiplicativeLR", "ConstantLR")
"""Schedulers that may leave a rate unchanged."""


@dataclass(frozen=True, kw_only=True)
class LearningRate(Rule):
    """O102: The learning rate is zero, decays too early, or does not follow its scheduler.

    What it sees: the largest learning rate of the optimizer's groups at every change, and facts about its scheduler:
      how often it was stepped, its planned number of steps, the batches per epoch. It reports five problems. *zero*:
      the rate is exactly 0 for ten steps and 5% of the run so far. *gone*: it is below `gone_share` of its peak for as
      long. *stepped each batch*: the rate fell below `early_share` of its peak within the first three epochs, because a
      scheduler that normally counts epochs (StepLR, MultiStepLR, ExponentialLR, CosineAnnealingLR …) is stepped as
      often as the optimizer, and training continues. *rises again*: a CosineAnnealingLR was stepped past its T_max and
      rises. *does not move*: a scheduler was never stepped in two epochs, or completed its plan without changing the
      rate.
    Why it matters: training at a rate near zero costs as much as training that learns.
    What to do: step epoch-based schedulers once per epoch, after the loop over batches; or set their length in batches
      (T_max = epochs * batches). Pass the scheduler the optimizer that steps.
    When it is wrong: a run that continues at almost no rate on purpose. One group at a rate of 0 among others is not
      reported. W101 reports rates that are too high or too low for the model, from the size of the updates. Without a
      scheduler (a rate set by hand), only *zero* and *gone* are checked.
    Source: PyTorch's documentation of torch.optim.lr_scheduler, "How to adjust learning rate".
    """

    code: ClassVar[str] = "O102"
    name: ClassVar[str] = "learning-rate"
    severity: ClassVar[Severity] = Severity.COSTLY

    gone_share: float = parameter(1e-5, "Share of its peak below which the rate counts as zero.", at_least=0.0,
                                  below=1.0)
    early_share: float = parameter(0.01, "Share of its peak that an early decay falls below.", above=0.0, below=1.0)

    @property
    def needs(self) -> tuple[Selection, ...]:
        training = frozenset({Mode.TRAIN})
        return (
            Selection(kinds=frozenset({Kind.LEARNING_RATE}), schedule=Schedule(modes=training)),
            # With the loss: many scripts have no scheduler, and miss nothing.
            Selection(kinds=frozenset({Kind.LOSS, Kind.FACT}), schedule=Schedule(every=10, modes=training),
                      include=("total", f"{Fact.SCHEDULER_STEPS}*", f"{Fact.SCHEDULER_HORIZON}*",
                               Fact.EPOCH_STEPS.value)),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.mode is not Mode.TRAIN:
            yield Unjudged("only evaluations were recorded")
            return
        facts = remember_facts(view, memory, Fact.SCHEDULER_STEPS, Fact.SCHEDULER_HORIZON, Fact.EPOCH_STEPS)
        rate, step = learning_rate(view), view.step.number
        if any(key.path.startswith(Fact.SCHEDULER_STEPS) for key in view.scalars(Kind.FACT)):
            memory["facts_step"] = step
        if rate is not None and math.isfinite(rate):
            _take_in(memory, rate, step, self)
        if "rate" not in memory:
            yield Unjudged("no learning rate was recorded")
            return
        # What is behind it first: a rate that was brought down too early is gone before long, and then zero.
        for subject, found in (("stepped each batch", self._early(memory, step, facts)),
                               ("rises again", self._rises(memory, facts)),
                               ("zero", self._zero(memory, step)), ("gone", self._gone(memory, step)),
                               ("does not move", self._stands(memory, step, facts))):
            if found is not None:
                yield self._symptom(view, memory, subject, *found)
                return

    @staticmethod
    def _zero(memory: Memory, step: int) -> _Found | None:
        since = memory.get("zero_since")
        if since is None or not _for_long(since, step):
            return None
        fell = f" after a peak of {number(memory['peak'])}" if memory["peak"] else ""
        remedy = _ONCE_AN_EPOCH if memory["peak"] else "Check for a warm-up that starts at 0 and is never stepped."
        return f"the learning rate has been 0 since step {since}{fell}", since, 0.6, remedy

    @staticmethod
    def _gone(memory: Memory, step: int) -> _Found | None:
        since = memory.get("gone_since")
        if since is None or not _for_long(since, step):
            return None
        return (f"the learning rate fell from {number(memory['peak'])} to {number(memory['rate'])} by step {since}, "
                "and training continues", since, 0.6, _ONCE_AN_EPOCH)

    @staticmethod
    def _early(memory: Memory, step: int, facts: dict[str, float]) -> _Found | None:
        since = memory.get("early_since")
        if not since or step < _GOES_ON * since or step < since + _LEAST_STEPS:
            return None
        for name, steps in about(facts, Fact.SCHEDULER_STEPS).items():
            each_batch = steps >= _NEARLY * memory["facts_step"] and memory["facts_step"] >= _LEAST_STEPS
            epoch = facts.get(Fact.EPOCH_STEPS.value, 0.0)
            soon = since < _EPOCHS * epoch if epoch > 1 else since < _EARLY_STEPS and step > 2 * since
            if name in _BY_EPOCH and each_batch and soon:
                of = f", within {since / epoch:.2g} epochs ({epoch:.0f} batches each)" if epoch > 1 else ""
                return (f"{name} is stepped every batch ({steps:.0f} times by step {memory['facts_step']}): the "
                        f"learning rate fell from {number(memory['peak'])} to {number(memory['rate'])} by step "
                        f"{since}{of}", since, 0.9, _ONCE_AN_EPOCH)
        return None

    @staticmethod
    def _rises(memory: Memory, facts: dict[str, float]) -> _Found | None:
        name = "CosineAnnealingLR"
        steps, horizon = about(facts, Fact.SCHEDULER_STEPS).get(name, 0.0), _horizon(facts, name)
        if not horizon or steps < _BEYOND * horizon:
            return None
        rose = memory["rate"] >= max(2 * memory["least"], _SEEN_AGAIN * memory["peak"])
        # It goes down again, and up; the fault stays.
        memory["rose"] = memory.get("rose", False) or rose
        if not memory["rose"]:
            return None
        return (f"CosineAnnealingLR has T_max {horizon:.0f} and was stepped {steps:.0f} times: the learning rate "
                f"rose again from {number(memory['least'])} to {number(memory['rate'])}", memory["least_step"], 0.9,
                "Set T_max to the total number of scheduler steps, or step it once per epoch; for restarts "
                "use CosineAnnealingWarmRestarts.")

    @staticmethod
    def _stands(memory: Memory, step: int, facts: dict[str, float]) -> _Found | None:
        if memory["least"] < memory["peak"]:
            return None
        epoch = facts.get(Fact.EPOCH_STEPS.value, 0.0)
        steps_by_scheduler = about(facts, Fact.SCHEDULER_STEPS)
        for name, steps in steps_by_scheduler.items():
            horizon = _horizon(facts, name)
            if name in _WAITS or not horizon or (not name and len(steps_by_scheduler) > 1):
                continue
            if steps == 0 and epoch and step >= _UNSTEPPED_EPOCHS * epoch:
                return (f"{name or 'a scheduler'} was never stepped in {step + 1} training steps", 0, 0.7,
                        "Call scheduler.step() once per epoch, after the loop over batches.")
            if steps >= horizon:
                return (f"{name or 'a scheduler'} was stepped {steps:.0f} times of {horizon:.0f} planned, but the "
                        f"learning rate is still {number(memory['rate'])}", 0, 0.6,
                        "Pass the scheduler the optimizer that steps, and do not set the rate by hand.")
        return None

    @staticmethod
    def _symptom(
        view: StepView, memory: Memory, subject: str, why: str, since: int, weight: float, remedy: str
    ) -> Symptom:
        key = max(view.scalars(Kind.LEARNING_RATE), default=Key(Kind.LEARNING_RATE, "group0"))
        return Symptom(
            message=f"{why[:1].upper()}{why[1:]}.", remedy=remedy, subject=subject, since=since,
            # Without a key: rates are recorded where they change, and this one may never change again.
            evidence=(Evidence(None, view.step.number, "learning_rate", memory["rate"], memory["peak"],
                               f"{key}: {number(memory['rate'])}, at most {number(memory['peak'])} before"),),
            causes=(Suspicion(Cause.SCHEDULER_MISPLACED, weight, why, remedy),
                    Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.3, why)),
        )


_Found = tuple[str, int, float, str]
"""Reason, first step, weight and remedy."""
_ONCE_AN_EPOCH = either(
    torch="Call scheduler.step() once per epoch, after the loop over batches; or set the length of the scheduler to "
          "the total number of batches, epochs * len(loader)",
    keras="Set the length of the schedule to the total number of batches, epochs * steps_per_epoch",
    jax="Set the length of the schedule to the total number of updates, epochs * batches",
) + "."
_LEAST_STEPS, _SHARE_OF_RUN = 10, 0.05
_GOES_ON, _NEARLY, _EPOCHS, _EARLY_STEPS = 1.25, 0.9, 3.0, 1000
_BEYOND, _SEEN_AGAIN, _UNSTEPPED_EPOCHS = 1.05, 0.02, 2.0


def _take_in(memory: Memory, rate: float, step: int, rule: LearningRate) -> None:
    memory["rate"], memory["peak"] = rate, max(rate, memory.get("peak", rate))
    if rate <= memory.get("least", rate):
        memory["least"], memory["least_step"] = rate, step
    for name, low in (("zero_since", rate == 0), ("gone_since", rate < rule.gone_share * memory["peak"]),
                      ("early_since", rate < rule.early_share * memory["peak"])):
        memory[name] = (memory.get(name) if memory.get(name) is not None else step) if low else None


def _for_long(since: int, step: int) -> bool:
    return step - since >= max(_LEAST_STEPS, _SHARE_OF_RUN * step)


def _horizon(facts: dict[str, float], name: str) -> float:
    return about(facts, Fact.SCHEDULER_HORIZON).get(name, 0.0)
