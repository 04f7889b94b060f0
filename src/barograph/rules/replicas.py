"""Rules about data-parallel workers: diverging replicas, and duplicate data."""

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
from barograph.model.summary import Summary
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.clues import fact_value
from barograph.rules.columns import table_of
from barograph.rules.words import names, number
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_MOST_COMPARED = 16
"""Tensors compared per step, evenly spread over the model: replicas diverge everywhere."""


@dataclass(frozen=True, kw_only=True)
class ReplicasDiverge(Rule):
    """P103: The workers' copies of the model differ.

    What it sees: the sum, the sum of squares and the sum of magnitudes of up to sixteen weights and their gradients,
      from each worker in the same step. Replicated weights (not shards of a tensor) must agree within `rtol`. The rule
      fires if at least half of them do not.
    Why it matters: each worker trains its own model on its share of the data, and the checkpoint holds only the first
      worker's. The larger the cluster, the more is wasted.
    What to do: wrap the model in DistributedDataParallel and call the wrapper, not model.module; or average gradients
      after backward (dist.all_reduce). Start all workers from the same state (the wrapper broadcasts it).
    When it is wrong: workers that hold different parts under one name (pipeline stages, experts), and methods that let
      replicas diverge between averages on purpose (local SGD, DiLoCo).
    Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", 2020, section 3.
    """

    code: ClassVar[str] = "P103"
    name: ClassVar[str] = "replicas-diverge"
    severity: ClassVar[Severity] = Severity.COSTLY

    rtol: float = parameter(1e-5, "Allowed relative difference.", at_least=0.0)
    patience: int = parameter(2, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        schedule = Schedule(every=50, steps=frozenset({1, 3, 9}), modes=_IN_TRAINING)
        return (Selection(kinds=frozenset({Kind.WEIGHT, Kind.GRADIENT}), schedule=schedule),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if len(view.workers) < 2 or view.step.mode is not Mode.TRAIN:
            yield Unjudged("only one worker was recorded")
            return
        weights = self._compared(view, Kind.WEIGHT)
        gradients = self._compared(view, Kind.GRADIENT)
        if gradients:
            memory["gradients_differ"] = sum(gradients.values()) >= len(gradients) / 2
        if not weights:
            yield Unjudged("no weights were recorded that several workers hold")
            return
        differ = [key for key, is_other in weights.items() if is_other]
        if len(differ) < len(weights) / 2:
            return
        yield self._symptom(view, differ, len(weights), memory.get("gradients_differ"))

    def _compared(self, view: StepView, kind: Kind) -> dict[Key, bool]:
        """Return, for a few tensors that several workers hold copies of, whether the copies differ."""
        table = table_of(view, kind)
        keys = [subject.key for subject in table.subjects if not subject.shard]
        found = {}
        for key in keys[:: max(1, -(-len(keys) // _MOST_COMPARED))]:
            copies = view.by_worker(key)
            if len(copies) > 1 and not any(item.nonfinite for item in copies.values()):
                found[key] = _differ(list(copies.values()), self.rtol)
        return found

    def _symptom(
        self, view: StepView, differ: list[Key], compared: int, gradients_differ: bool | None
    ) -> Symptom:
        copies = view.by_worker(differ[0])
        workers = sorted(copies, key=lambda name: copies[name].sum)[:: max(1, len(copies) - 1)]
        norms = " and ".join(f"{number(copies[name].sum)} on {name}" for name in workers)
        why = f"{len(differ)} of {compared} weights differ between workers"
        if gradients_differ is False:
            cause = Suspicion(Cause.GRADIENTS_NOT_AVERAGED, 0.6, f"{why}, although their gradients agree now: they "
                              "started from different states, or were not averaged before")
        else:
            cause = Suspicion(Cause.GRADIENTS_NOT_AVERAGED, 0.9,
                              why + (", and so do their gradients" if gradients_differ else ""))
        return Symptom(
            message=f"The workers' models differ: {names([str(key.path) for key in differ])} (sum "
                    f"{norms}).",
            remedy="Wrap the model in DistributedDataParallel and call the wrapper (not model.module), or average each "
                   "gradient after backward; start all workers from the same state.",
            evidence=tuple(_evidence(view, key, self.rtol) for key in differ[:3]),
            causes=(cause,),
        )


def _evidence(view: StepView, key: Key, rtol: float) -> Evidence:
    sums = [item.sum_sq for item in view.by_worker(key).values()]
    apart = (max(sums) - min(sums)) / max(max(sums), 1e-300)
    return Evidence(key, view.step.number, "difference", apart, rtol, f"sums of squares differ by {number(apart)}")


def _differ(copies: list[Summary], rtol: float) -> bool:
    first, *others = copies
    scale = max(first.sum_abs, 1e-300)
    return any(
        abs(other.sum - first.sum) > rtol * scale
        or abs(other.sum_abs - first.sum_abs) > rtol * scale
        or abs(other.sum_sq - first.sum_sq) > rtol * max(first.sum_sq, 1e-300)
        for other in others
    )


@dataclass(frozen=True, kw_only=True)
class SameDataOnAllWorkers(Rule):
    """P104: All workers get the same samples.

    What it sees: a digest of each worker's batch. The rule fires if it is the same on all workers in `patience`
      consecutive recorded steps.
    Why it matters: many machines do the work of one. The model sees each sample once per worker.
    What to do: give the loader a DistributedSampler and call its set_epoch in each epoch; or seed each worker's
      generator with its rank.
    When it is wrong: workers that share the model and not the data (tensor or sequence parallelism), reported as
      doubtful if tensors are sharded; training each worker on the full data set.
    Source: the PyTorch reference of DistributedSampler.
    """

    code: ClassVar[str] = "P104"
    name: ClassVar[str] = "same-data-on-all-workers"
    severity: ClassVar[Severity] = Severity.COSTLY

    patience: int = parameter(3, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.FACT}),
                          include=(f"{Fact.BATCH_DIGEST.value}*", f"{Fact.FULL_BATCH.value}*"),
                          schedule=Schedule(every=50, steps=frozenset(range(10)), modes=_IN_TRAINING)),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        digests = view.worker_scalars(fact(Fact.BATCH_DIGEST))
        if len(digests) < 2 or view.step.mode is not Mode.TRAIN:
            yield Unjudged("needs the batches of several workers")
            return
        if len(set(digests.values())) > 1:
            return
        if fact_value(view, Fact.FULL_BATCH):
            yield Unjudged("each worker trains on the full data set")
            return
        memory["split"] = memory.get("split", False) or _is_split(view)
        all_facts = f"the batches of {len(digests)} workers are the same"
        yield Symptom(
            message=f"All {len(digests)} workers got the same batch in step {view.step.number}.",
            remedy="Give the loader a DistributedSampler (and call its set_epoch), or seed each worker's generator "
                   "with its rank.",
            evidence=(Evidence(fact(Fact.BATCH_DIGEST), view.step.number, "batch_digest",
                               next(iter(digests.values())), float("nan"), all_facts),),
            severity=Severity.DOUBTFUL if memory["split"] else Severity.COSTLY,
            causes=(Suspicion(Cause.SAME_DATA_ON_ALL_WORKERS, 0.6 if memory["split"] else 0.9, all_facts),),
        )


def _is_split(view: StepView) -> bool:
    return any(subject.shard for kind in (Kind.WEIGHT, Kind.GRADIENT)
               for subject in view.columns(kind, histograms=False).subjects)
