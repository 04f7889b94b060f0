"""Records arrays in host memory: the integration for frameworks that have no hooks like PyTorch's.

`due` reports whether data is wanted in the current step, before it is computed; so the budget, the schedule and the
collections apply as everywhere. In a step, pass what is due to `take`, `loss` and the other methods in any order, then
call `end_step`. Between `begin_evaluation` and `end_evaluation`, the same calls belong to an evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.capture.allowance import Allowance
from barograph.capture.array_labels import gather_labels
from barograph.capture.array_read import ArrayReader, dense, merge_reduced
from barograph.capture.array_recipes import About
from barograph.capture.buffer import StepBuffer
from barograph.capture.copies import Copies
from barograph.capture.entry_point import EntryPoint, Passage, entry_point
from barograph.capture.plan import Taking
from barograph.capture.readings import Readings
from barograph.capture.seen import NO_LOSS_OF_TORCH
from barograph.capture.session import Session
from barograph.model.facts import Fact, fact
from barograph.model.key import Key, Kind, canonical_path
from barograph.model.selection import Selection
from barograph.model.step import Mode, is_of_later_training

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barograph.capture.steps import Steps

TOTAL = "total"
"""Path of the loss that is minimised."""

Number = float | Callable[[], float]
Reduced = tuple[Any, Any]
_NOTHING: Mapping[str, Any] = {}


class ArrayIntegration:
    """Records one series of steps from arrays and numbers.

    An error in a recording method becomes one warning; its time counts against the budget. Only `end_step` raises, if a
    finding has stopped the training.

    Attributes:
        session: The session that stores the records.
        explicit_steps: A step ends when `end_step` is called.

    Args:
        session: The session that stores the records.
        label: Name of the optimizer, if a training has several. None: it has one.
    """

    def __init__(self, session: Session, label: str | None = None) -> None:
        self.session = session
        self.entry = EntryPoint(session)
        self.explicit_steps = True
        self._label = label
        self._first_step: int | None = None
        self._allowance = Allowance(session)
        self._reader = ArrayReader(session)
        self._train = StepBuffer()
        self._evaluation = StepBuffer()
        self._evaluates: Mode | None = None
        self._evaluation_mask: int | None = None
        self._evaluation_is_whole = False
        self._before: dict[str, NDArray[Any]] = {}
        self._copies = Copies()
        self._took = self._evaluation_took = False
        self._has_begun = False
        session.before_close(self._flush)

    @property
    def has_begun(self) -> bool:
        """Whether any data was passed."""
        return self._has_begun

    @property
    def evaluating(self) -> bool:
        """Whether an evaluation is in progress."""
        return self._evaluates is not None

    # What is due

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
            self._begin()
            if self._mode() is Mode.TRAIN:
                self._allowance.take_everything()
            else:
                self._evaluation_mask, self._evaluation_is_whole = self.session.plan.everything(), True

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
            self._begin()
            return self._mask()
        return 0

    @property
    def step(self) -> int:
        """Number of the current step."""
        return self.session.counts.made(self._label or "") if self._has_begun else self.session.counts.first_step

    def guarded(self, doing: str) -> Passage:
        """Return a context for an integration's own code: an error becomes one warning, and its time counts.

        Args:
            doing: Description of the block for the warning, such as "reading the layers".
        """
        return self.entry.guarded(doing)

    # What belongs to a step or an evaluation

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
        self._begin()
        mask, buffer = self._mask(), self._buffer()
        kinds = self.session.plan.kinds(mask)
        due = [(kind, arrays) for kind, arrays in groups if kind in kinds]
        if due:
            self._note_took(self._reader.read(due, about, mask, buffer))

    def new_readings(self) -> Readings:
        """Return a reader of arrays for use while a step runs, to be recorded by `take_readings`.

        What is due is fixed now: pass a loss that makes everything due afterwards.
        """
        mask = self.mask()
        return Readings(self._reader, mask, self._buffer())

    @entry_point("recording what was read")
    def take_readings(self, readings: Readings, but: Container[Kind] = ()) -> None:
        """Record what was read while a step ran. Call it once, and not if the step failed.

        Args:
            readings: Result of `new_readings`.
            but: Kinds to leave out.
        """
        self._begin()
        self._note_took(readings.merge_into(self._buffer(), self.session.seen, but))

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
        self._begin()
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
        self._begin()
        buffer = self._buffer()
        self._note_took(len(rows) > 0)
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
        self._begin()
        if not self.session.plan.asks(Kind.LOSS):
            return
        training, buffer = self._mode() is Mode.TRAIN, self._buffer()
        if not callable(value):
            self._note_loss(name, float(value), buffer, training=training)
        else:
            buffer.defer(lambda late: self._note_loss(name, float(value()), late, training=training))

    def _note_loss(self, name: str, number: float, buffer: StepBuffer, *, training: bool) -> None:
        leaps = training and self.session.choice.level.leaps(number)
        total, count = buffer.losses.get(name, (0.0, 0))
        buffer.losses[name] = (total + number, count + 1)
        if name == TOTAL or not self.session.seen.loss:
            self.session.saw_loss(number)
        if leaps:
            self._allowance.alarm()

    @entry_point("recording numbers")
    def numbers(self, values: Mapping[Key, Number]) -> None:
        """Record plain numbers of any kind in the current step, if they are due."""
        self._begin()
        mask, plan = self._mask(), self.session.plan
        taken = {key: float(value() if callable(value) else value) for key, value in values.items()
                 if plan.taking(mask, key) is not None}
        if taken:
            self._buffer().scalars.update(taken)
            self._note_took(True)

    @entry_point("recording metrics")
    def metrics(self, values: Mapping[str, Number]) -> None:
        """Record metrics as scalars, at every published step."""
        self._begin()
        if self.session.plan.asks(Kind.SCALAR):
            for name, value in values.items():
                self._buffer().scalars[Key(Kind.SCALAR, name)] = float(value() if callable(value) else value)

    def fact(self, name: Fact, value: Number, about: str | int = "") -> None:
        """Record a fact about the loop, the loss or the data, if it is due.

        Args:
            name: Name of the fact.
            value: Its value.
            about: Its subject: a parameter's path, or a group.
        """
        self.numbers({fact(name, about): value})

    @entry_point("recording a learning rate")
    def learning_rate(self, rate: float, group: int = 0) -> None:
        """Record the learning rate of a parameter group in the current step."""
        self._begin()
        if self.session.plan.asks(Kind.LEARNING_RATE):
            self._train.scalars[Key(Kind.LEARNING_RATE, f"group{group}")] = float(rate)

    @entry_point("reading weights before their update")
    def before_update(self, weights: Mapping[str, Any], *, layers: Mapping[str, str] = _NOTHING,
                      copy: bool = True) -> None:
        """Copy the weights whose update is due, for `after_update`.

        Args:
            weights: Path to array, or to a function that returns it.
            layers: As in `take`.
            copy: False: the arrays are immutable, as in JAX, and need no copy.
        """
        self._begin()
        mask, self._before = self._mask(), {}
        if Kind.UPDATE not in self.session.plan.kinds(mask):
            return
        arrays = {path: dense(np.asarray(given() if callable(given) else given)) for path, given in weights.items()
                  if self._takes_update(mask, path, layers)}
        self._before = self._copies.of(arrays) if copy else arrays

    def _takes_update(self, mask: int, path: str, layers: Mapping[str, str]) -> bool:
        key = Key(Kind.UPDATE, canonical_path(path))
        return self.session.plan.taking(mask, key, layers.get(path, "")) is not None

    @entry_point("reading weights after their update")
    def after_update(self, weights: Mapping[str, Any], *, layers: Mapping[str, str] = _NOTHING) -> None:
        """Record weights, and their difference from those of `before_update`."""
        self._begin()
        mask, before, self._before = self._mask(), self._before, {}
        self._note_took(self._reader.read_updated(weights, before, About(layers, _NOTHING), mask, self._train))
        if before:
            self._copies.settle()

    @entry_point("counting labels and predictions")
    def predictions(self, targets: Any, predictions: Any, name: str = "predictions") -> None:
        """Count targets and predictions in the current step or evaluation, if they are due.

        Args:
            targets: Class numbers, or one-hot rows.
            predictions: Class numbers, or one row of scores per sample; for two classes, one probability is enough.
            name: Name in the record, as in `label:NAME[3]` and `confusion:NAME[3,5]`.
        """
        self._begin()
        if self.session.plan.kinds(self._mask()) & {Kind.LABEL, Kind.CONFUSION}:
            gather_labels(name, targets, predictions, self._buffer())
            self._note_took(True)

    @entry_point("recording later")
    def defer(self, merge_in: Callable[[StepBuffer], None]) -> None:
        """Run a function in another thread when the step or evaluation is published, to merge in more data.

        Args:
            merge_in: Called once, with the buffer of the step.
        """
        self._begin()
        self._note_took(True)
        self._buffer().defer(merge_in)

    @entry_point("counting parameters and modules")
    def declare(self, *, parameters: Iterable[str] = (), modules: Iterable[str] = (), things: str = "") -> None:
        """Declare the parameters and modules of the model, for the coverage.

        Args:
            parameters: Paths of the trainable parameters.
            modules: Paths of the layers that have outputs.
            things: Name of the recorded data in messages. "": "tensors".
        """
        self.session.seen.declare(map(canonical_path, parameters), map(canonical_path, modules), things)

    # Steps and evaluations

    def end_step(self, loss: Number | None = None, *, skipped: bool = False) -> None:
        """End the current step.

        Args:
            loss: The loss, if `loss` was not called in this step.
            skipped: The update was skipped because gradients were not finite.

        Raises:
            TrainingStopped: A finding stopped the training.
        """
        if loss is not None:
            self._take_loss_of_step(loss)
        self._end_step(skipped)
        self.session.steering.raise_if_stopped()

    @entry_point("reading the loss of a step")
    def _take_loss_of_step(self, loss: Any) -> None:
        self._end_evaluation()
        if not self._train.losses.get(TOTAL):
            self.loss(loss if callable(loss) else float(np.mean(np.asarray(loss))))

    @entry_point("ending a step")
    def _end_step(self, skipped: bool) -> None:
        self._begin()
        self._end_evaluation()
        label = self._label or ""
        mask = self._allowance.close_step()
        buffer, self._train = self._train, StepBuffer()
        buffer.settle(training=True)
        self.session.end_step(buffer, optimizer=label, mask=mask if self._took else 0, skipped=skipped)
        if self._before:
            self._copies.settle()
        self._took, self._before = False, {}
        self._allowance.prepare(label)

    @entry_point("counting steps")
    def pass_steps(self, count: int) -> None:
        """Count unrecorded steps before the current one."""
        for _ in range(count):
            self.session.pass_step(self._label or "")

    @entry_point("starting an evaluation")
    def begin_evaluation(self, mode: Mode = Mode.EVAL) -> None:
        """Start an evaluation; it lasts until `end_evaluation` or the end of a step."""
        self._begin()
        self._end_evaluation()
        self._evaluates = mode

    @entry_point("ending an evaluation")
    def end_evaluation(self) -> None:
        """Publish the current evaluation, if any."""
        self._end_evaluation()

    def begin_training(self, first_step: int | None = None) -> None:
        """Start another training with this integration, as a new series of steps.

        Args:
            first_step: Number of its first step. None: the `first_step` of `attach`, or 0.
        """
        with self.guarded("starting a training"):
            if self._has_begun and self.session.counts.made(self._label or ""):
                self._end_evaluation()
                self._label, self._has_begun = None, False
                self._train, self._allowance = StepBuffer(), Allowance(self.session)
            self._first_step = first_step

    def _begin(self) -> None:
        """Settle, with the first of all that is handed over, whose steps these are."""
        self.session.began()
        if self._has_begun:
            return
        self._has_begun = True
        seen, session = self.session.seen, self.session
        if not session.counts.by_optimizer and seen.no_loss == NO_LOSS_OF_TORCH:
            seen.explain_no_loss("the script passed none")
        if self._label is None:
            self._label = session.counts.take_label()
        session.counts.start_at(self._label, self._first_step or 0)
        if is_of_later_training(self._label):
            session.counts.begin_training(self._label)
            session.choice.look_closely(self._label)
        self._allowance.label = self._label

    def _mode(self) -> Mode:
        return self._evaluates or self.session.script.mode or Mode.TRAIN

    def _mask(self) -> int:
        mode = self._mode()
        if mode is Mode.TRAIN:
            return self._allowance.for_step_of(self._label or "")
        if self._evaluation_mask is None:
            self._evaluation_mask = self.session.choice.choose(self.session.counts.made(self._label or ""), mode)
        elif not self._evaluation_is_whole and not self.session.choice.evaluation_goes_on(self._evaluation_mask):
            # What is a sum over the whole evaluation must not be told of a part of it.
            self._evaluation_mask = 0
            self._evaluation.gathered.clear()
        return self._evaluation_mask

    def _buffer(self) -> StepBuffer:
        return self._train if self._mode() is Mode.TRAIN else self._evaluation

    def _note_took(self, took: bool) -> None:
        if self._mode() is Mode.TRAIN:
            self._took |= took
        else:
            self._evaluation_took |= took

    def _end_evaluation(self) -> None:
        mode = self._mode()
        buffer, self._evaluation = self._evaluation, StepBuffer()
        mask, self._evaluation_mask, self._evaluates = self._evaluation_mask or 0, None, None
        self._evaluation_is_whole = False
        took, self._evaluation_took = self._evaluation_took, False
        if mode is Mode.TRAIN and buffer.empty:
            return
        buffer.settle(training=False)
        if not buffer.empty:
            self.session.end_evaluation(buffer, mode if mode is not Mode.TRAIN else Mode.EVAL, mask if took else 0)
        self.session.progress.evaluation_ended()

    # What the script itself hands over

    def ask_for(self, selections: Iterable[Selection]) -> None:
        """Handle an extended recording plan."""
        self._reader.plan_changed()

    def mode_changes(self, mode: Mode | None) -> None:
        """End the current evaluation."""
        self.end_evaluation()

    @entry_point("saving an array")
    def save(self, name: str, tensor: Any) -> None:
        """Record a full array of the script with the current step."""
        self._begin()
        self._reader.keep(Key(Kind.CUSTOM, name), tensor, self._train)

    @entry_point("saving predictions")
    def save_predictions(self, targets: Any, predictions: Any, name: str) -> None:
        """Count targets and predictions of the script in the current step or evaluation."""
        self._begin()
        if self._mode() is Mode.TRAIN:
            self._allowance.wake()
        else:
            self._mask()
        gather_labels(name, targets, predictions, self._buffer())

    def end_explicit_step(self, loss: Any = None, *, skipped: bool = False) -> None:
        """End a step on the script's request; the caller checks whether to stop the training."""
        if loss is not None:
            self._take_loss_of_step(loss)
        self._end_step(skipped)

    def steps_begin(self, steps: Steps) -> Iterator[int]:
        """Return an iterator over the steps of a loop."""
        return iter(range(steps.count))

    def remove(self) -> None:
        """Do nothing: this integration installs no hooks."""

    @entry_point("publishing pending records")
    def _flush(self) -> None:
        self._end_evaluation()
        if self._train.tensors:
            self.session.end_evaluation(self._train, Mode.TRAIN)

