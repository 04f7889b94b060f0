"""The rule about a rerun that gives different numbers."""

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
    """P105: A rerun step gives different numbers although the script asked for deterministic algorithms.

    What it sees: in a run that was restarted from its beginning, the loss of each step that had the same batch the
      first time. If the first steps agree bit for bit, the later ones must too; the first loss that differs by more
      than `rtol`, with the same batch and learning rate, is reported. Judged only if torch.use_deterministic_algorithms
      is on, over the first `num_steps` recorded steps.
    Why it matters: a run that cannot be repeated cannot be debugged, and a comparison of two settings compares luck.
    What to do: seed every generator (random, numpy, torch, the loader's workers); set CUBLAS_WORKSPACE_CONFIG=:4096:8;
      look for atomics in your own kernels, and for samples ordered by a set or a hash.
    When it is wrong: something else was changed between the two starts (a dropout rate, a library).
    Source: the PyTorch notes on reproducibility.
    """

    code: ClassVar[str] = "P105"
    name: ClassVar[str] = "non-determinism"
    severity: ClassVar[Severity] = Severity.DOUBTFUL
    across_attempts: ClassVar[bool] = True

    rtol: float = parameter(0.0, "Allowed relative difference of two losses.", at_least=0.0)
    num_steps: int = parameter(200, "Recorded steps to remember from each start.", at_least=2)

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
            yield Unjudged("no step was recorded with a finite loss and a batch digest")
            return
        key, loss = found
        now: dict[str, list[Any]] = memory.setdefault("now", {})
        if len(now) < self.num_steps:
            now[str(view.step.number)] = [digest, loss, learning_rate(view)]
        then = memory.get("before", {}).get(str(view.step.number))
        if then is None:
            yield Unjudged("no step ran twice")
            return
        if memory["parted"] == "":
            yield Unjudged("this start differed from the previous one from its first step")
            return
        if then[0] != digest or then[2] != learning_rate(view) or (
                not self._agree(then[1], loss) and not memory["agreed"]):
            # Different state, data or settings: later steps cannot be compared.
            memory["parted"] = memory["parted"] or ""
            if not memory["parted"]:
                yield Unjudged("this start differed from the previous one from its first step")
                return
        if self._agree(then[1], loss) and not memory["parted"]:
            memory["agreed"] += 1
            return
        memory["parted"] = memory["parted"] or str(view.step.number)
        yield Symptom(
            message=f"Step {memory['parted']} gave a different loss when run again with the same batch, after "
                    f"{memory['agreed']} recorded steps that agreed bit for bit.",
            remedy="Seed every generator (random, numpy, torch, the loader's workers), set "
                   "CUBLAS_WORKSPACE_CONFIG=:4096:8, and look for samples ordered by a set or a hash.",
            evidence=(Evidence(key, view.step.number, "loss", loss, then[1], f"{loss!r} now, {then[1]!r} before"),),
            since=int(memory["parted"]),
            causes=(Suspicion(Cause.NONDETERMINISM, 0.85, f"step {memory['parted']} gave a different loss when run "
                                                          "again"),),
        )

    def _agree(self, one: float, other: float) -> bool:
        return abs(one - other) <= self.rtol * abs(one)
