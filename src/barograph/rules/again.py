"""The rule about a training that is run again and goes another way."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.clues import fact_value
from barograph.rules.columns import learning_rate, stated_loss
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})


@dataclass(frozen=True, kw_only=True)
class NonDeterminism(Rule):
    """P105: The same step, run again, gives other numbers, although the script asked for deterministic algorithms.

    What it sees: of a run that was started again from its beginning, the loss of each step whose batch is the same as
      that of the same step before. As long as the first steps agree to the last bit, so must those after them; the
      first that differs by more than `rtol`, with the same batch and learning rate, is where the two part. Only where
      torch.use_deterministic_algorithms is on, over the first `num_steps` steps recorded.
    Why it matters: what cannot be repeated cannot be debugged, and a comparison of two settings compares their luck.
    What to do: seed every generator (random, numpy, torch, the loader's workers); set CUBLAS_WORKSPACE_CONFIG=:4096:8;
      look for atomics in kernels of one's own, and for sets and hashes that order samples.
    When it is wrong: something else was changed between the two starts (a dropout share, another library).
    Source: the PyTorch notes on reproducibility.
    """

    code: ClassVar[str] = "P105"
    name: ClassVar[str] = "non-determinism"
    severity: ClassVar[Severity] = Severity.DOUBTFUL
    across_attempts: ClassVar[bool] = True

    rtol: float = parameter(0.0, "Relative difference of two losses that is let pass.", at_least=0.0)
    num_steps: int = parameter(200, "Recorded steps of a start that are remembered.", at_least=2)

    @property
    def needs(self) -> tuple[Selection, ...]:
        schedule = Schedule(every=10, steps=frozenset(range(10)), modes=_IN_TRAINING)
        return (
            Selection(kinds=frozenset({Kind.LOSS}), schedule=schedule),
            Selection(kinds=frozenset({Kind.FACT}), schedule=schedule,
                      include=(f"{Fact.BATCH_DIGEST.value}*", f"{Fact.DETERMINISTIC.value}*")),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        asked = fact_value(view, Fact.DETERMINISTIC)
        if asked is not None:
            memory["asked"] = asked
        if view.step.mode is not Mode.TRAIN or not memory.get("asked"):
            yield Unjudged("the script does not ask for deterministic algorithms")
            return
        if view.attempt != memory.get("attempt", view.attempt):
            memory.update(before=memory.pop("now", {}), parted=None, agreed=0)
        memory["attempt"] = view.attempt
        found, digest = stated_loss(view), fact_value(view, Fact.BATCH_DIGEST)
        if found is None or digest is None or not math.isfinite(found[1]):
            yield Unjudged("no step was recorded with a finite loss and the content of its batch")
            return
        key, loss = found
        now: dict[str, list[Any]] = memory.setdefault("now", {})
        if len(now) < self.num_steps:
            now[str(view.step.number)] = [digest, loss, learning_rate(view)]
        then = memory.get("before", {}).get(str(view.step.number))
        if then is None:
            yield Unjudged("no step was recorded twice")
            return
        if memory["parted"] == "":
            yield Unjudged("this start was not the same as the one before from its first step on")
            return
        if then[0] != digest or then[2] != learning_rate(view) or (
                not self._agree(then[1], loss) and not memory["agreed"]):
            # Another state, other data or other settings: nothing can be said of what follows.
            memory["parted"] = memory["parted"] or ""
            if not memory["parted"]:
                yield Unjudged("this start was not the same as the one before from its first step on")
                return
        if self._agree(then[1], loss) and not memory["parted"]:
            memory["agreed"] += 1
            return
        memory["parted"] = memory["parted"] or str(view.step.number)
        yield Symptom(
            message=f"Step {memory['parted']} gave another loss than when it was run before, with the same batch, "
                    f"after {memory['agreed']} recorded steps that agreed to the last bit.",
            remedy="Seed every generator (random, numpy, torch, the loader's workers), set "
                   "CUBLAS_WORKSPACE_CONFIG=:4096:8, and look for sets and hashes that order samples.",
            evidence=(Evidence(key, view.step.number, "loss", loss, then[1], f"{loss!r} now, {then[1]!r} before"),),
            since=int(memory["parted"]),
            causes=(Suspicion(Cause.NONDETERMINISM, 0.85, f"step {memory['parted']} run again gave another loss"),),
        )

    def _agree(self, one: float, other: float) -> bool:
        return abs(one - other) <= self.rtol * abs(one)
