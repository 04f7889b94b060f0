"""The rule about NaN, infinities and values far out of range in batches."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

import numpy as np

from barograph.measures.robust import level
from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import NOT_AN_OPERATION, Fact, fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.records import Subject
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import Table, stated_loss, table_of
from barograph.rules.nonfinite_causes import FED_BADLY, FED_BADLY_WEIGHT, was_fed_badly
from barograph.rules.once import once
from barograph.rules.words import number
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, kw_only=True)
class NonFiniteInput(Rule):
    """N104: The batch or its targets hold NaN or infinite values, or a value far out of range.

    What it sees: the counts of NaN and infinite values in each batch and in targets that are not class numbers (if
      those were not recorded and the loss is not finite, whether such values are at the start of its graph), and the
      maximum magnitude of a batch relative to the median of the last `window` recorded ones. A value is out of range if
      it is `factor` times that median and the loss of the step, if recorded, is three spreads above its level.
    Why it matters: one NaN in one sample makes the loss NaN, and one update later every weight. One value a thousand
      times too large undoes many steps of training.
    What to do: find the sample in the batch of that step, and repair or drop it in the loader; check that no scaling
      divides by a standard deviation of zero; clip features to their range over the whole data set.
    When it is wrong: NaN that marks missing values, for a model that handles it: if such a batch leaves the loss
      finite, the finding is doubtful, and −inf in further inputs counts as a mask. A feature with a tail so heavy that
      a thousand times its usual maximum is normal, in a step with a high loss. Under a budget only some batches are
      recorded: a single bad sample may go unseen, and N101 or G102 report its effect. If the batch was not recorded, a
      computation on it before any parameter may have produced the values; the finding says so.
    Source: none.
    """

    code: ClassVar[str] = "N104"
    name: ClassVar[str] = "non-finite-input"
    severity: ClassVar[Severity] = Severity.BREAKING

    factor: float = parameter(1000.0, "Multiple of the usual maximum magnitude at which a value is out of range.",
                              above=1.0)
    window: int = parameter(50, "Recorded batches for the usual maximum; judging starts after 10.", at_least=10)
    recovery: int = parameter(20, "Consecutive evaluated steps without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        every_step = Schedule(modes=frozenset({Mode.TRAIN}))
        return (
            # A bad sample is rare, and batches are cheap to record.
            Selection(kinds=frozenset({Kind.BATCH, Kind.TARGET}), schedule=every_step),
            # With the loss: if it is finite, there is nothing to report.
            Selection(kinds=frozenset({Kind.LOSS, Kind.FACT}), schedule=every_step,
                      include=("total", f"{Fact.BAD_OPERATION}*")),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        batch, target = table_of(view, Kind.BATCH), table_of(view, Kind.TARGET)
        if not (len(batch) or len(target)):
            if was_fed_badly(view):
                yield _fed_badly(view.step.number)
                return
            yield Unjudged("no batch was recorded")
            return
        loss = stated_loss(view)
        loss_is_finite = loss is not None and math.isfinite(loss[1])
        found = False
        for table in (batch, target):
            if table.is_whole:
                continue
            rows = np.flatnonzero(_bad(table))
            if len(rows):
                found = True
                yield _not_finite(table, int(rows[0]), view.step.number, harmless=loss_is_finite)
        if not found and len(batch) and view.step.mode is Mode.TRAIN:
            yield from self._out_of_range(view, batch, None if loss is None else loss[1], memory)

    def _out_of_range(
        self, view: StepView, batch: Table, loss: float | None, memory: Memory
    ) -> Iterable[Symptom | Unjudged]:
        """Record the largest magnitude of the batch; yield a symptom if it is far beyond all others."""
        reaches: dict[str, list[float]] = memory.setdefault("reaches", {})
        losses: list[float] = memory.setdefault("losses", [])
        past_losses = list(losses)
        for row in _quantities(batch.subjects):
            path = batch.paths[row]
            now, past = float(batch.max_abs[row]), reaches.setdefault(path, [])
            usual = median(past) if past else 0.0
            if len(past) < _LEAST_BATCHES:
                yield Unjudged(f"{len(past) + 1} batches so far; needs {_LEAST_BATCHES}")
            elif usual > 0 and now >= self.factor * usual and _is_high(loss, past_losses):
                yield _far_out(batch, row, view.step.number, now=now, usual=usual, limit=self.factor * usual)
            past.append(now)
            del past[: -self.window]
        if loss is not None and math.isfinite(loss):
            losses.append(loss)
            del losses[: -self.window]


_LEAST_BATCHES, _SPREADS = 10, 3.0


@once
def _quantities(subjects: tuple[Subject, ...]) -> tuple[int, ...]:
    """Return the rows of float inputs; integers are ids."""
    return tuple(row for row, subject in enumerate(subjects) if "int" not in subject.dtype and subject.dtype != "bool")


def _bad(table: Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which rows hold NaN or infinities that are not a mask."""
    first = np.array([index == 0 or path.endswith("[0]") for index, path in enumerate(table.paths)], bool)
    infinite = table.column("posinf") + np.where(first, table.column("neginf"), 0.0)
    return np.asarray(table.column("nan") + infinite > 0, bool)


def _is_high(loss: float | None, past: list[float]) -> bool:
    """Return whether the loss is above its level, or unknown."""
    if loss is None or not math.isfinite(loss) or len(past) < _LEAST_BATCHES:
        return True
    center, spread = level(past)
    return loss >= center + _SPREADS * max(spread, 0.01 * abs(center))


_FIND = ("Find these samples in the batch of step {step} (barograph trace RUN --step {step} lists its samples); "
         "drop or repair them in the loader, and check that no scaling divides by 0 or by a standard deviation of 0.")


def _not_finite(table: Table, row: int, step: int, *, harmless: bool) -> Symptom:
    key = table.subjects[row].key
    nan, infinite = int(table.column("nan")[row]), int(table.infinite[row])
    count = int(table.column("count")[row])
    counts = " and ".join(f"{many} {word}" for many, word in ((nan, "NaN"), (infinite, "infinite")) if many)
    what = "batch" if key.kind is Kind.BATCH else "targets"
    held = f"{counts} of {count} values in the {what} of step {step} (\"{key.path}\")"
    return Symptom(
        message=f"{held}; the loss was finite all the same." if harmless else f"{held}.",
        remedy="If they mark missing values and the model handles them, ignore this; else drop or repair these samples "
               "in the loader (nan_to_num)." if harmless else
               _FIND.format(step=step),
        evidence=(Evidence(key, step, "nonfinite", float(nan + infinite), 0.0, f"{counts} of {count} values"),),
        subject=what, severity=Severity.DOUBTFUL if harmless else None,
        causes=(Suspicion(Cause.NON_FINITE_INPUT, 0.5 if harmless else 0.9, f"{counts} values in the {what}"),),
    )


def _fed_badly(step: int) -> Symptom:
    return Symptom(
        message=f"NaN or infinite values entered the loss of step {step} before any parameter: in its batch, its "
                "targets, or a computation on them.",
        remedy=f"{_FIND.format(step=step)} If they are finite, check the first computations on them: division by a "
               "norm "
               "or standard deviation of 0, log of 0.",
        subject="batch",
        evidence=(Evidence(fact(Fact.BAD_OPERATION, NOT_AN_OPERATION), step, "nonfinite", 1.0, 0.0,
                           "NaN or infinite values at the start of the graph of the loss"),),
        causes=(Suspicion(Cause.NON_FINITE_INPUT, FED_BADLY_WEIGHT, FED_BADLY),),
    )


def _far_out(batch: Table, row: int, step: int, *, now: float, usual: float, limit: float) -> Symptom:
    why = f"a value of {number(now)} in the batch of step {step}; the usual maximum is {number(usual)}"
    return Symptom(
        message=f"A value in the batch is far out of range: {number(now)}, {number(now / usual)} times the usual "
                "maximum.",
        remedy=f"Find this sample in the batch of step {step}: drop or repair it, or clip features to about "
               f"±{number(3 * usual)} in the loader.",
        evidence=(Evidence(batch.subjects[row].key, step, "max_abs", now, limit,
                           f"maximum magnitude {number(now)}, usually {number(usual)}"),),
        subject="out of range", severity=Severity.DOUBTFUL,
        causes=(Suspicion(Cause.BAD_SAMPLE, 0.8, why), Suspicion(Cause.INPUT_NOT_NORMALIZED, 0.2, why)),
    )
