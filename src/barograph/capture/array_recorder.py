"""Records arrays and numbers that are passed in a step or an evaluation, if they are due.

The methods may be called in any order; `ArraySteps` assigns their data to a step or an evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.capture.array_labels import gather_labels
from barograph.capture.array_read import ArrayReader, merge_reduced
from barograph.capture.array_recipes import About
from barograph.capture.array_steps import ArraySteps
from barograph.capture.array_updates import UpdateReader
from barograph.capture.buffer import StepBuffer
from barograph.capture.entry_point import EntryPoint, Passage, entry_point
from barograph.capture.plan import Taking
from barograph.capture.readings import Readings
from barograph.capture.session import Session
from barograph.model.facts import Fact, fact
from barograph.model.key import Key, Kind, canonical_path
from barograph.model.step import Mode

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOTAL = "total"
"""Path of the minimized loss."""

Number = float | Callable[[], float]
Reduced = tuple[Any, Any]
_NOTHING: Mapping[str, Any] = {}


class ArrayRecorder:
    """Records what is passed in the current step or evaluation.

    An error in a recording method becomes one warning; its time counts against the budget.

    Attributes:
        session: The session that stores the records.
        entry: The way into training.

    Args:
        session: The session that stores the records.
        label: Name of the optimizer, if a training has several. None: it has one.
    """

    def __init__(self, session: Session, label: str | None = None) -> None:
        self.session = session
        self.entry = EntryPoint(session)
        self._steps = ArraySteps(session, label)
        self._reader = ArrayReader(session)
        self._updates = UpdateReader(session.plan, self._reader)
        self._has_trained_loss = False

    # Queries for due data

    def due(self, *kinds: Kind) -> bool:
        """Return whether any of these kinds is recorded in the current step or evaluation.

        After a loss that is non-finite, or far above all earlier ones, every kind is due while the budget allows.

        Args:
            kinds: Kinds to check. None given: any kind.
        """
        mask = self.mask()
        return bool(self.session.plan.kinds(mask) & set(kinds)) if kinds else mask != 0

    def take_everything(self) -> None:
        """Record every selected tensor of the current step or evaluation, regardless of the budget.

        Call it only for the last step of a training, whose final state is requested most.
        """
        if self.session.closed:
            return
        with self.entry.guarded("recording the last step in full"):
            self._steps.begin()
            self._steps.take_everything()

    def taking(self, kind: Kind, path: str, layer: str = "") -> Taking | None:
        """Return what is recorded of one tensor in the current step or evaluation; None: nothing."""
        mask = self.mask()
        return self.session.plan.taking(mask, Key(kind, canonical_path(path)), layer) if mask else None

    def asks_ever(self, *kinds: Kind) -> bool:
        """Return whether any of these kinds is recorded at any step, for data that must be prepared in advance."""
        return any(self.session.plan.asks(kind) for kind in kinds)

    def mask(self) -> int:
        """Return the mask of the plan for the current step or evaluation."""
        if self.session.closed:
            return 0
        with self.entry.guarded("checking what to record"):
            self._steps.begin()
            return self._steps.mask()
        return 0

    @property
    def step(self) -> int:
        """Number of the current step."""
        return self._steps.number

    def guarded(self, doing: str) -> Passage:
        """Return a context for an integration's own code: an error becomes one warning, and its time counts.

        Args:
            doing: Description of the block for the warning, such as "reading the layers".
        """
        return self.entry.guarded(doing)

    # Records of a step or an evaluation

    @entry_point("reading arrays")
    def take(
        self,
        kind: Kind,
        arrays: Mapping[str, Any],
        *,
        layers: Mapping[str, str] = _NOTHING,
        wholes: Mapping[str, int] = _NOTHING,
        unit_axis: int = -1,
    ) -> None:
        """Record the arrays that are due. They are read at once, so they may change afterwards.

        Outputs, inputs and batches passed several times in one step are merged, as for micro-batches. Pass a gradient
        once, when it is complete.

        Args:
            kind: Kind of the arrays.
            arrays: Path to an array, or to a function that returns it and is called if it is due; None is skipped.
            layers: Path to the class of its layer; rules select layers by it.
            wholes: Path to the element count of the full tensor, if each worker passes a part of it.
            unit_axis: Axis of the units (channels or features).
        """
        self._take([(kind, arrays)], About(layers, wholes, unit_axis))

    @entry_point("reading arrays")
    def take_together(self, groups: Mapping[Kind, Mapping[str, Any]], *, layers: Mapping[str, str] = _NOTHING) -> None:
        """Record several kinds like `take`; arrays that occur several times are read once.

        Args:
            groups: Kind to arrays as in `take`.
            layers: As in `take`.
        """
        self._take(groups.items(), About(layers, _NOTHING))

    def _take(self, groups: Iterable[tuple[Kind, Mapping[str, Any]]], about: About) -> None:
        self._steps.begin()
        mask, buffer = self._steps.mask(), self._steps.buffer()
        kinds = self.session.plan.kinds(mask)
        due = [(kind, arrays) for kind, arrays in groups if kind in kinds]
        if due:
            self._steps.note_took(self._reader.read(due, about, mask, buffer))

    def new_readings(self) -> Readings:
        """Return a reader of arrays for use while a step runs, to be recorded by `take_readings`.

        What is due is fixed now: pass a loss that makes everything due afterwards.
        """
        mask = self.mask()
        return Readings(self._reader, mask, self._steps.buffer())

    @entry_point("recording what was read")
    def take_readings(self, readings: Readings, but: Container[Kind] = ()) -> None:
        """Record what was read while a step ran. Call it once, and not if the step failed.

        Args:
            readings: Result of `new_readings`.
            but: Kinds to leave out.
        """
        self._steps.begin()
        self._steps.note_took(readings.merge_into(self._steps.buffer(), self.session.seen, but))

    @entry_point("merging statistics")
    def merge(
        self,
        kind: Kind,
        paths: Sequence[str],
        reduced: Reduced | Callable[[], Reduced],
        *,
        dtypes: Sequence[str],
        layers: Sequence[str] = (),
    ) -> None:
        """Record statistics that a device computed, of tensors that are due (see `taking`).

        Args:
            kind: Kind of the tensors.
            paths: Paths of the tensors, without duplicates.
            reduced: Moments, shape (n, 10), columns as in `MOMENT_FIELDS`, and exponent histograms, shape (n, 512), or
                None; or a function that returns both, called in another thread when the step is published, so that
                training does not wait for the device.
            dtypes: Element type of each tensor.
            layers: Layer class of each tensor. None given: "".
        """
        self.merge_rows(self.rows(kind, paths, dtypes=dtypes, layers=layers), reduced)

    def rows(
        self, kind: Kind, paths: Sequence[str], *, dtypes: Sequence[str], layers: Sequence[str] = ()
    ) -> NDArray[np.int64]:
        """Return the rows for `merge_rows`, for an integration that merges the same tensors at each step.

        Args:
            kind, paths, dtypes, layers: As in `merge`.
        """
        self._steps.begin()
        rows = []
        for number, path in enumerate(paths):
            key = Key(kind, canonical_path(path))
            rows.append(self._reader.row(key, layers[number] if layers else "", dtypes[number]))
            self.session.seen.note(kind, key.path)
        return np.array(rows, np.int64)

    @entry_point("merging statistics")
    def merge_rows(self, rows: NDArray[np.int64], reduced: Reduced | Callable[[], Reduced]) -> None:
        """Record statistics like `merge`, with precomputed rows.

        Args:
            rows: Result of `rows`.
            reduced: As in `merge`.
        """
        self._steps.begin()
        buffer = self._steps.buffer()
        self._steps.note_took(len(rows) > 0)
        if callable(reduced):
            buffer.defer(lambda late: merge_reduced(rows, *reduced(), late))
        else:
            merge_reduced(rows, *reduced, buffer)

    @entry_point("recording a loss")
    def loss(self, value: Number, name: str = TOTAL) -> None:
        """Record a loss; several in one step or evaluation are averaged.

        Args:
            value: The number, or a function that returns it when the device has computed it.
            name: Name of the loss; "total" is the one that is minimized.
        """
        self._steps.begin()
        if not self.session.plan.asks(Kind.LOSS):
            return
        training, buffer = self._steps.mode() is Mode.TRAIN, self._steps.buffer()
        if not callable(value):
            self._note_loss(name, float(value), buffer, training=training)
        else:
            buffer.defer(lambda late: self._note_loss(name, float(value()), late, training=training))

    def _note_loss(self, name: str, number: float, buffer: StepBuffer, *, training: bool) -> None:
        leaps = training and self.session.choice.level.leaps(number)
        total, count = buffer.losses.get(name, (0.0, 0))
        buffer.losses[name] = (total + number, count + 1)
        # The loss of a training without losses of its own, such as one that knows only those of a validation set.
        if (name == TOTAL and (training or not self._has_trained_loss)) or not self.session.seen.loss:
            self.session.saw_loss(number)
        self._has_trained_loss |= training
        if leaps:
            self._steps.allowance.alarm()

    @entry_point("recording numbers")
    def numbers(self, values: Mapping[Key, Number]) -> None:
        """Record plain numbers of any kind in the current step, if they are due."""
        self._steps.begin()
        mask, plan = self._steps.mask(), self.session.plan
        taken = {key: float(value() if callable(value) else value) for key, value in values.items()
                 if plan.taking(mask, key) is not None}
        if taken:
            self._steps.buffer().scalars.update(taken)
            self._steps.note_took(True)

    @entry_point("recording metrics")
    def metrics(self, values: Mapping[str, Number]) -> None:
        """Record metrics as scalars, at every published step."""
        self._steps.begin()
        if self.session.plan.asks(Kind.SCALAR):
            for name, value in values.items():
                self._steps.buffer().scalars[Key(Kind.SCALAR, name)] = float(value() if callable(value) else value)

    def fact(self, name: Fact, value: Number, about: str | int = "") -> None:
        """Record a fact about the loop, the loss or the data, if it is due.

        Args:
            name: Name of the fact.
            value: Its value.
            about: Its subject: a parameter's path, or a group.
        """
        self.numbers({fact(name, about): value})

    @entry_point("recording a learning rate")
    def learning_rate(self, rate: Number, group: int = 0) -> None:
        """Record the learning rate of a parameter group in the current step.

        Args:
            rate: The number, or a function that returns it when the device has computed it.
            group: Number of the parameter group.
        """
        self._steps.begin()
        if not self.session.plan.asks(Kind.LEARNING_RATE):
            return
        key, buffer = Key(Kind.LEARNING_RATE, f"group{group}"), self._steps.train
        if callable(rate):
            buffer.defer(lambda late: late.scalars.update({key: float(rate())}))
        else:
            buffer.scalars[key] = float(rate)

    @entry_point("reading weights before their update")
    def before_update(self, weights: Mapping[str, Any], *, layers: Mapping[str, str] = _NOTHING,
                      copy: bool = True) -> None:
        """Copy the weights whose update is due, for `after_update`.

        Args:
            weights: Path to array, or to a function that returns it.
            layers: As in `take`.
            copy: False: the arrays are immutable, as in JAX, and need no copy.
        """
        self._steps.begin()
        self._updates.before(weights, layers, self._steps.mask(), copy=copy)

    @entry_point("reading weights after their update")
    def after_update(self, weights: Mapping[str, Any], *, layers: Mapping[str, str] = _NOTHING) -> None:
        """Record weights, and their difference from those of `before_update`."""
        self._steps.begin()
        about = About(layers, _NOTHING)
        self._steps.note_took(self._updates.after(weights, about, self._steps.mask(), self._steps.train))

    @entry_point("counting labels and predictions")
    def predictions(self, targets: Any, predictions: Any, name: str = "predictions") -> None:
        """Count targets and predictions in the current step or evaluation, if they are due.

        Args:
            targets: Class numbers, or one-hot rows.
            predictions: Class numbers, or one row of scores per sample; for two classes, one probability is enough.
            name: Name in the record, as in `label:NAME[3]` and `confusion:NAME[3,5]`.
        """
        self._steps.begin()
        if self.session.plan.kinds(self._steps.mask()) & {Kind.LABEL, Kind.CONFUSION}:
            gather_labels(name, targets, predictions, self._steps.buffer())
            self._steps.note_took(True)

    @entry_point("recording later")
    def defer(self, merge_in: Callable[[StepBuffer], None]) -> None:
        """Run a function in another thread when the step or evaluation is published, to merge in more data.

        Args:
            merge_in: Called once, with the buffer of the step.
        """
        self._steps.begin()
        self._steps.note_took(True)
        self._steps.buffer().defer(merge_in)

    @entry_point("counting parameters and modules")
    def declare(self, *, parameters: Iterable[str] = (), modules: Iterable[str] = ()) -> None:
        """Declare the parameters and modules of the model, for the coverage.

        Args:
            parameters: Paths of the trainable parameters.
            modules: Paths of the layers that have outputs.
        """
        self.session.seen.declare(map(canonical_path, parameters), map(canonical_path, modules))
