"""The rule about the optimizer's state."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.records import Subject
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import GRADIENTS, Table, learning_rate, table_of
from barograph.rules.once import once
from barograph.rules.standstill import runs_of
from barograph.rules.suspects import ranked
from barograph.rules.words import CLIPPING, names, number
from barograph.runs.reading.view import StepView

_SQUARES = ("exp_avg_sq", "square_avg", "sum")
_MEANS = ("momentum_buffer", "exp_avg")


@dataclass(frozen=True, kw_only=True)
class OptimizerState(Rule):
    """O101: The optimizer's state is damaged, lost, or does not follow the gradients.

    What it sees: the tensors that an optimizer keeps per parameter (momentum, Adam's moments), with gradients and
      weights. It reports five problems. (1) A state is not finite while its weight is: an infinite second moment makes
      every further update zero, silently. (2) A second moment is exactly zero where the gradient is not: its squares
      underflow. (3) States are bit-identical over `num_steps` recorded steps while gradients reach their parameters.
      (4) States look as after a first step, repeatedly: a momentum equal to the gradient, or a second moment that is
      the same small share of the squared gradient, in `num_steps` recorded steps from the tenth on. (5) One step raised
      a second moment `factor` times, and the gradient has long been back at its level: until it decays, updates are
      that much too small.
    Why it matters: the optimizer determines each update. With a wrong state, weights do not move or move in the wrong
      direction, while the loss merely looks slow.
    What to do: (1, 2) keep optimizer state in float32; (3) call optimizer.step() on the optimizer that holds these
      parameters; (4) create the optimizer once, before the loop; (5) clip gradients, and check that batch.
    When it is wrong: momentum 0 keeps no state. Full-batch training on a constant gradient keeps constant states;
      tensors that are exactly zero are ignored.
    Source: Kingma & Ba, "Adam: a method for stochastic optimization", 2015, algorithm 1.
    """

    code: ClassVar[str] = "O101"
    name: ClassVar[str] = "optimizer-state"
    severity: ClassVar[Severity] = Severity.COSTLY

    num_steps: int = parameter(3, "Recorded steps over which states must be identical, or as new.", at_least=2)
    factor: float = parameter(100.0, "Largest factor by which a step may raise a second moment's root.", above=1.0)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # Rarely: there are two state tensors per weight.
        schedule = Schedule(every=100, steps=frozenset({5, 12, 14, 16, 50}), modes=frozenset({Mode.TRAIN}))
        return tuple(Selection(kinds=kinds, schedule=schedule) for kinds in (
            frozenset({Kind.OPTIMIZER_STATE}), GRADIENTS, frozenset({Kind.WEIGHT})))

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        states, gradients = table_of(view, Kind.OPTIMIZER_STATE), _used(view)
        if view.step.skipped or view.step.mode is not Mode.TRAIN or not len(states) or not len(gradients):
            yield Unjudged("no step recorded optimizer state and gradients (plain SGD has no state)")
            return
        pushed = _pushed(states, gradients)
        if not states.is_whole:
            yield from _spoilt(view, states)
            return
        yield from self._squares_lost(view, states, pushed)
        yield from self._standing(view, states, pushed, memory)
        squares = _Sums.of(states, _rows_named(states.subjects, _SQUARES), "sum", pushed)
        yield from self._as_new(view, states, pushed, squares, memory)
        yield from self._thrown_up(view, states, squares, memory)

    def _squares_lost(self, view: StepView, states: Table, pushed: NDArray[np.float64]) -> Iterable[Symptom]:
        if not states.has_zeros:
            return
        lost = _named(states.subjects, _SQUARES) & (states.column("sum_sq") == 0) & (pushed > 0)
        rows = np.flatnonzero(lost)
        if not len(rows):
            return
        dtype = states.subjects[int(rows[0])].dtype
        why = f"the second moment of {names([states.paths[row] for row in rows.tolist()])} ({dtype}) is exactly zero"
        yield _symptom(view, states, rows.tolist(), "squares lost", f"{why} while the gradient is not: its squares "
                       "underflow", "Keep optimizer state in float32, and raise the optimizer's eps to 1e-6.",
                       ranked(Suspicion(Cause.FP16_UNDERFLOW, 0.7, why)))

    def _standing(
        self, view: StepView, states: Table, pushed: NDArray[np.float64], memory: Memory
    ) -> Iterable[Symptom]:
        runs = runs_of(states, memory.setdefault("runs", {}), step=view.step.number)
        if runs.longest < self.num_steps:
            return
        rate = learning_rate(view)
        known = _named(states.subjects, (*_MEANS, *_SQUARES))
        still = known & (runs.length >= self.num_steps) & (pushed > 0) & (states.column("sum_sq") > 0)
        rows = np.flatnonzero(still)
        if not len(rows):
            return
        why = (f"{names([states.paths[row] for row in rows.tolist()])} did not change from step "
               f"{int(runs.since[rows].min())} to {view.step.number}, although gradients reached them")
        yield _symptom(view, states, rows.tolist(), "stale", why,
                       "Call step() on the optimizer that holds these parameters"
                       + (", and raise its learning rate from 0." if rate == 0 else "."),
                       ranked(Suspicion(Cause.STALE_OPTIMIZER, 0.5, why)))

    def _as_new(
        self, view: StepView, states: Table, pushed: NDArray[np.float64], squares: _Sums, memory: Memory
    ) -> Iterable[Symptom]:
        """Yield a symptom if every state looks as it does after an optimizer's first step."""
        if view.step.number < _SETTLED:
            return
        share: dict[str, float | None] = {
            name: _Sums.of(states, _rows_named(states.subjects, (name,)), "sum_sq", pushed).share for name in _MEANS
        }
        share["squares"] = squares.share
        kept: list[dict[str, float | None]] = memory.setdefault("shares", [])
        kept.append(share)
        del kept[: -self.num_steps]
        if len(kept) < self.num_steps:
            return
        found = [name for name in share if _is_of_a_first_step(name, [item[name] for item in kept])]
        if not found:
            return
        why = (f"in {self.num_steps} recorded steps the optimizer's state came from the last gradient "
               "alone")
        rows = np.flatnonzero(_named(states.subjects, _SQUARES if "squares" in found else _MEANS))[:3].tolist()
        yield _symptom(view, states, rows, "forgotten", why,
                       "Create the optimizer once, before the loop; do not clear optimizer.state.",
                       ranked(Suspicion(Cause.OPTIMIZER_STATE_LOST, 0.8, why)))

    def _thrown_up(
        self, view: StepView, states: Table, squares: _Sums, memory: Memory
    ) -> Iterable[Symptom]:
        if not len(squares.rows):
            return
        # The sum of a second moment is about the square of the gradient's norm.
        level, gradient = squares.held, squares.pushed
        before = memory.get("level")
        thrown = memory.get("thrown")
        late = view.step.number > _LATE
        if late and before is not None and thrown is None and level > self.factor**2 * before[0] > 0:
            thrown = memory["thrown"] = [view.step.number, before[0], before[1]]
        memory["level"] = [level, gradient]
        if thrown is None:
            return
        if level < self.factor**2 * thrown[1]:
            memory["thrown"] = None
        elif gradient < _BACK * thrown[2]:
            why = (f"the root of the second moment rose {number((level / thrown[1]) ** 0.5)} times by step "
                   f"{thrown[0]}, "
                   "and the gradient is back at its level")
            rows = squares.rows
            worst = rows[np.argsort(-states.column("sum")[rows], kind="stable")][:3].tolist()
            yield _symptom(view, states, worst, "thrown up", f"{why}: updates are that much too small",
                           f"Clip gradients ({CLIPPING}), and check the batches before that step.",
                           (Suspicion(Cause.BAD_SAMPLE, 0.4, why), Suspicion(Cause.NO_GRADIENT_CLIPPING, 0.3, why),
                            Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.2, why)))


_SETTLED, _LATE = 10, 50
_BACK = 9.0
"""Three times its level, squared."""
_EXACTLY, _SMALL = 1e-4, 0.3


def _used(view: StepView) -> Table:
    """Return the gradients that the optimizer used: clipped where the script clips."""
    clipped = table_of(view, Kind.GRADIENT_CLIPPED)
    return clipped if len(clipped) else table_of(view, Kind.GRADIENT)


@once
def _parts(subjects: tuple[Subject, ...]) -> tuple[tuple[str, str], ...]:
    """Return parameter and name of each state, as in `fc.weight[exp_avg]`."""
    pairs = (subject.key.path.rpartition("[") for subject in subjects)
    return tuple((head, name.removesuffix("]")) for head, _, name in pairs)


def _named(subjects: tuple[Subject, ...], wanted: tuple[str, ...]) -> NDArray[np.bool_]:
    return _namer(wanted)(subjects)


@functools.cache
def _namer(wanted: tuple[str, ...]) -> Callable[[tuple[Subject, ...]], NDArray[np.bool_]]:
    return once(lambda subjects: np.array([name in wanted for _, name in _parts(subjects)], bool))


def _rows_named(subjects: tuple[Subject, ...], wanted: tuple[str, ...]) -> NDArray[np.intp]:
    return _finder_of_names(wanted)(subjects)


@functools.cache
def _finder_of_names(wanted: tuple[str, ...]) -> Callable[[tuple[Subject, ...]], NDArray[np.intp]]:
    return once(lambda subjects: np.flatnonzero(_named(subjects, wanted)))


def _pushed(states: Table, gradients: Table) -> NDArray[np.float64]:
    """Return the sum of squares of each state's gradient; 0 if it has none."""
    owner, have_one = _finder(gradients.subjects)(states.subjects)
    pushed = gradients.column("sum_sq")[owner]
    return pushed if have_one is None else np.where(have_one, pushed, 0.0)


@once
def _finder(gradients: tuple[Subject, ...]) -> Callable[[tuple[Subject, ...]], _Owners]:
    at = {subject.key.path: row for row, subject in enumerate(gradients)}

    def find(states: tuple[Subject, ...]) -> _Owners:
        owner = np.array([at.get(head, -1) for head, _ in _parts(states)], np.intp)
        return owner, None if (owner >= 0).all() else owner >= 0

    return once(find)


_Owners = tuple[NDArray[np.intp], NDArray[np.bool_] | None]
"""The row of each state's gradient, and which states have one (None: all)."""


class _Sums(NamedTuple):
    """The sum of some states, and of the squares of their gradients.

    Attributes:
        rows: Of the states.
        held: Sum of a column.
        pushed: Sum of the squares.
    """

    rows: NDArray[np.intp]
    held: float
    pushed: float

    @classmethod
    def of(cls, states: Table, rows: NDArray[np.intp], column: str, pushed: NDArray[np.float64]) -> Self:
        """Return the sums over these rows."""
        if not len(rows):
            return cls(rows, 0.0, 0.0)
        return cls(rows, float(states.column(column)[rows].sum()), float(pushed[rows].sum()))

    @property
    def share(self) -> float | None:
        """The states' sum relative to the squares; None if there are none."""
        return self.held / self.pushed if self.pushed > 0 else None


def _is_of_a_first_step(name: str, shares: list[float | None]) -> bool:
    """Return whether all shares are the one number that a first step leaves.

    It is 1 for SGD's momentum, which then equals the gradient. For Adam's moments it is (1 − beta)² and
    (1 − beta); with a constant gradient they approach 1 instead.
    """
    known = [share for share in shares if share]
    if len(known) < len(shares) or max(abs(share - known[0]) for share in known) > _EXACTLY * known[0]:
        return False
    return abs(known[0] - 1) < _EXACTLY if name == "momentum_buffer" else known[0] < _SMALL


def _spoilt(view: StepView, states: Table) -> Iterable[Symptom | Unjudged]:
    weights = table_of(view, Kind.WEIGHT)
    if len(weights) and not weights.is_whole:
        # N101 reports it: the state fails with its weight.
        yield Unjudged("weights are not finite, and neither is the optimizer's state")
        return
    rows = np.flatnonzero(~states.whole).tolist()
    why = f"{names([states.paths[row] for row in rows])} is not finite, although the weights are"
    yield _symptom(view, states, rows, "not finite", f"{why}: updates of these weights are zero or soon NaN",
                   "Keep optimizer state in float32; clip gradients; restore the optimizer "
                   "from a checkpoint before this step.",
                   ranked(Suspicion(Cause.FP16_OVERFLOW, 0.6, why) if states.subjects[rows[0]].dtype == "float16" else
                          Suspicion(Cause.EXPLODING_GRADIENT, 0.5, why)), severity=Severity.BREAKING)


def _symptom(
    view: StepView, states: Table, rows: list[int], subject: str, why: str, remedy: str,
    causes: tuple[Suspicion, ...], *, severity: Severity | None = None,
) -> Symptom:
    def evidence(row: int) -> Evidence:
        key: Key = states.subjects[row].key
        value: Any = float(states.l2[row])
        return Evidence(key, view.step.number, "l2", value, float("nan"), f"norm {number(value)}")

    return Symptom(message=f"{why[:1].upper()}{why[1:]}.", remedy=remedy, subject=subject, causes=causes,
                   evidence=tuple(evidence(row) for row in rows[:3]), severity=severity)
