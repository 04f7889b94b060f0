"""Takes what a training hands over as arrays in host memory: what any framework without hooks of torch's kind needs.

Before something is computed for the record, `due` says whether it is wanted in the step under way, so the budget,
the schedule and the collections hold here as everywhere. One step: what is due is handed over with `take`,
`loss` and their like, in any order, and `end_step` ends it. Between `begin_evaluation` and `end_evaluation`
the same belongs to an evaluation.
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
    """One series of steps, told in arrays and numbers.

    Every method that records is a way into the training: an error of ours in it becomes one warning, and what it takes
    is part of the price. Only `end_step` raises where a finding has asked for the training to be stopped.

    Attributes:
        session: Who is told.
        explicit_steps: Steps end where `end_step` is called.

    Args:
        session: Who is told.
        label: What the optimizer is called, where a training has several; None: it is the only one of its training.
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
        """Whether anything was handed over."""
        return self._has_begun

    @property
    def evaluating(self) -> bool:
        """Whether what comes belongs to an evaluation that was begun."""
        return self._evaluates is not None

    # What is due

    def due(self, *kinds: Kind) -> bool:
        """Return whether anything of these kinds is taken of the step, or the evaluation, under way.

        Once a loss was handed over that is not finite, or leaps out of all before it, everything there is, as long as
        that can be afforded.

        Args:
            kinds: Any of them; none: anything at all.
        """
        mask = self.mask()
        return bool(self.session.plan.kinds(mask) & set(kinds)) if kinds else mask != 0

    def take_everything(self) -> None:
        """Have all that is ever asked for taken of the step, or the evaluation, under way, whatever the budget says.

        For the last of a training alone: what it ended with is what is asked for most.
        """
        if self.session.closed:
            return
        with self.entry.guarded("taking the last step whole"):
            self._begin()
            if self._mode() is Mode.TRAIN:
                self._allowance.take_everything()
            else:
                self._evaluation_mask, self._evaluation_is_whole = self.session.plan.everything(), True

    def taking(self, kind: Kind, path: str, layer: str = "") -> Taking | None:
        """Return what is taken of one tensor of the step, or the evaluation, under way; None: nothing."""
        mask = self.mask()
        return self.session.plan.taking(mask, Key(kind, canonical_path(path)), layer) if mask else None

    def asks_ever(self, *kinds: Kind) -> bool:
        """Return whether anything of these kinds is recorded at any step, for what must be prepared before."""
        return any(self.session.plan_asks(kind) for kind in kinds)

    def mask(self) -> int:
        """Return the mask of the plan that is taken of the step, or the evaluation, under way."""
        if self.session.closed:
            return 0
        with self.entry.guarded("asking what is due"):
            self._begin()
            return self._mask()
        return 0

    @property
    def step(self) -> int:
        """Number of the step under way."""
        return self.session.made(self._label or "") if self._has_begun else self.session.first_step

    def guarded(self, doing: str) -> Passage:
        """Return the context in which code of an integration runs: an error becomes one warning, its time is charged.

        Args:
            doing: What the block does, for people, should it fail: "reading the layers".
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
        """Record those arrays that are due; read now, so they may change afterwards.

        Outputs, inputs and batches that come several times within one step are merged, as those of micro-batches; a
        gradient is handed over once, when it is whole.

        Args:
            kind: What they are.
            arrays: Path to an array, or to a function that returns it, called where it is due; None: there is none.
            layers: Path to the class of the layer it belongs to, by which rules know what they look at.
            wholes: Path to the elements of the whole tensor, where each worker hands over its part of it.
            unit_axis: The axis whose index tells channels, or features, apart.
        """
        self._take([(kind, arrays)], About(layers, wholes, unit_axis))

    @entry_point("reading arrays")
    def take_together(self, groups: Mapping[Kind, Mapping[str, Any]], *, layers: Mapping[str, str] = _NOTHING) -> None:
        """Record what `take` does of several kinds, whose arrays may be the same: those are read once.

        Args:
            groups: Of each kind, arrays as in `take`.
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
        """Return what reads arrays one by one while a call of a step runs, until `take_readings` records them.

        What is due then is what is due now: a loss that makes everything due is told of after them.
        """
        mask = self.mask()
        return Readings(self._reader, mask, self._buffer())

    @entry_point("recording what was read")
    def take_readings(self, readings: Readings, but: Container[Kind] = ()) -> None:
        """Record what was read while a call of a step ran: once, and not where the call has failed.

        Args:
            readings: It.
            but: Kinds that are left out.
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
        """Record statistics that were reduced on a device, of tensors that are due (see `taking`).

        Args:
            kind: What they are of.
            paths: Of the tensors; no path twice.
            reduced: Moments, shape (n, 10), columns as in `MOMENT_FIELDS`, and exponent histograms, shape (n, 512), or
                None; or a function that returns both, called when the step is published, in another thread: so
                training need not wait for the device.
            dtypes: Element type of each.
            layers: Class of the layer of each; none: "".
        """
        self.merge_rows(self.rows(kind, paths, dtypes=dtypes, layers=layers), reduced)

    def rows(
        self, kind: Kind, paths: Sequence[str], *, dtypes: Sequence[str], layers: Sequence[str] = ()
    ) -> NDArray[np.int64]:
        """Return where statistics of tensors are merged, for an integration that merges the same ones at each step.

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
        """Record what `merge` does, of tensors whose rows are known.

        Args:
            rows: As `rows` returned them.
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
        """Record a loss; of several in one step, or one evaluation, the mean.

        Args:
            value: The number, or a function that returns it once its device has it.
            name: Of the loss; "total" is the one that is minimised.
        """
        self._begin()
        if not self.session.plan_asks(Kind.LOSS):
            return
        training, buffer = self._mode() is Mode.TRAIN, self._buffer()
        if not callable(value):
            self._note_loss(name, float(value), buffer, training=training)
        else:
            buffer.defer(lambda late: self._note_loss(name, float(value()), late, training=training))

    def _note_loss(self, name: str, number: float, buffer: StepBuffer, *, training: bool) -> None:
        leaps = training and self.session.level.leaps(number)
        total, count = buffer.losses.get(name, (0.0, 0))
        buffer.losses[name] = (total + number, count + 1)
        if name == TOTAL or not self.session.seen.loss:
            self.session.saw_loss(number)
        if leaps:
            self._allowance.alarm()

    @entry_point("recording numbers")
    def numbers(self, values: Mapping[Key, Number]) -> None:
        """Record plain numbers of the step under way, those that are due; whatever their kind."""
        self._begin()
        mask, plan = self._mask(), self.session.plan
        taken = {key: float(value() if callable(value) else value) for key, value in values.items()
                 if plan.taking(mask, key) is not None}
        if taken:
            self._buffer().scalars.update(taken)
            self._note_took(True)

    @entry_point("recording metrics")
    def metrics(self, values: Mapping[str, Number]) -> None:
        """Record metrics as scalars, at every step that is published."""
        self._begin()
        if self.session.plan_asks(Kind.SCALAR):
            for name, value in values.items():
                self._buffer().scalars[Key(Kind.SCALAR, name)] = float(value() if callable(value) else value)

    def fact(self, name: Fact, value: Number, about: str | int = "") -> None:
        """Record what is known of the loop, the loss or the data beside tensors, where it is due.

        Args:
            name: Which fact.
            value: The number.
            about: What it is about: a parameter's path, a group.
        """
        self.numbers({fact(name, about): value})

    @entry_point("recording a learning rate")
    def learning_rate(self, rate: float, group: int = 0) -> None:
        """Record the learning rate of a group of parameters in the step under way."""
        self._begin()
        if self.session.plan_asks(Kind.LEARNING_RATE):
            self._train.scalars[Key(Kind.LEARNING_RATE, f"group{group}")] = float(rate)

    @entry_point("reading weights before their update")
    def before_update(self, weights: Mapping[str, Any], *, layers: Mapping[str, str] = _NOTHING,
                      copy: bool = True) -> None:
        """Keep weights whose update is due, until `after_update`.

        Args:
            weights: Path to array, or to a function that returns it.
            layers: As in `take`.
            copy: Without: the arrays are never changed, as those of JAX, and need not be copied.
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
        """Record weights, and how they differ from those that `before_update` kept."""
        self._begin()
        mask, before, self._before = self._mask(), self._before, {}
        self._note_took(self._reader.read_updated(weights, before, About(layers, _NOTHING), mask, self._train))
        if before:
            self._copies.settle()

    @entry_point("counting labels and answers")
    def predictions(self, targets: Any, predictions: Any, name: str = "predictions") -> None:
        """Count labels and answers, with the step or the evaluation under way, where they are due.

        Args:
            targets: Class numbers, or one-hot rows.
            predictions: Class numbers, or one row of scores each; of two classes one probability each will do.
            name: Under which they are recorded, as in `label:NAME[3]` and `confusion:NAME[3,5]`.
        """
        self._begin()
        if self.session.plan.kinds(self._mask()) & {Kind.LABEL, Kind.CONFUSION}:
            gather_labels(name, targets, predictions, self._buffer())
            self._note_took(True)

    @entry_point("having something recorded later")
    def defer(self, merge_in: Callable[[StepBuffer], None]) -> None:
        """Have something merged in when the step, or the evaluation, is published, in another thread.

        Args:
            merge_in: Called once, with where it is gathered.
        """
        self._begin()
        self._note_took(True)
        self._buffer().defer(merge_in)

    @entry_point("counting what there is")
    def declare(self, *, parameters: Iterable[str] = (), modules: Iterable[str] = (), things: str = "") -> None:
        """Say what there is to be seen, for the coverage.

        Args:
            parameters: Paths of the trainable parameters.
            modules: Paths of the layers whose output there is.
            things: What is recorded of a step whose turn it is, for people; "": tensors.
        """
        seen = self.session.seen
        # A process may train several models, one after the other.
        seen.named_parameters.update(map(canonical_path, parameters))
        seen.named_modules.update(map(canonical_path, modules))
        seen.parameters, seen.modules = len(seen.named_parameters), len(seen.named_modules)
        seen.things = things or seen.things

    # Steps and evaluations

    def end_step(self, loss: Number | None = None, *, skipped: bool = False) -> None:
        """End a step.

        Args:
            loss: The loss, where `loss` was not called in this step.
            skipped: No update was made, since the gradients were not finite.

        Raises:
            TrainingStopped: A finding asked for it.
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
        """Count steps that were made before the one under way, and of which nothing is known."""
        for _ in range(count):
            self.session.pass_step(self._label or "")

    @entry_point("beginning an evaluation")
    def begin_evaluation(self, mode: Mode = Mode.EVAL) -> None:
        """Let what comes belong to an evaluation, until `end_evaluation` or the end of a step."""
        self._begin()
        self._end_evaluation()
        self._evaluates = mode

    @entry_point("ending an evaluation")
    def end_evaluation(self) -> None:
        """Publish the evaluation under way; without one, do nothing."""
        self._end_evaluation()

    def begin_training(self, first_step: int | None = None) -> None:
        """Begin another training with this integration: what follows is a series of its own.

        Args:
            first_step: Number of its first step; None: as `attach` was told, else 0.
        """
        with self.guarded("beginning a training"):
            if self._has_begun and self.session.made(self._label or ""):
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
        if not session.steps_by_optimizer and seen.no_loss == NO_LOSS_OF_TORCH:
            seen.no_loss = "none was handed over"
        if self._label is None:
            self._label = session.take_label()
        session.start_at(self._label, self._first_step or 0)
        if is_of_later_training(self._label):
            session.begin_training(self._label)
            session.look_closely(self._label)
        self._allowance.label = self._label

    def _mode(self) -> Mode:
        return self._evaluates or self.session.mode or Mode.TRAIN

    def _mask(self) -> int:
        mode = self._mode()
        if mode is Mode.TRAIN:
            return self._allowance.for_step_of(self._label or "")
        if self._evaluation_mask is None:
            self._evaluation_mask = self.session.choose(self.session.made(self._label or ""), mode)
        elif not self._evaluation_is_whole and not self.session.evaluation_goes_on(self._evaluation_mask):
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
        # What it cost is no part of a step's price, nor is its time part of a step's.
        self.session.price.forget_step()
        self.session.times.evaluation_ended(self.session.clock.monotonic())

    # What the script itself hands over

    def ask_for(self, selections: Iterable[Selection]) -> None:
        """Note that more was added to the plan."""
        self._reader.plan_changed()

    def mode_changes(self, mode: Mode | None) -> None:
        """End the evaluation that goes on."""
        self.end_evaluation()

    @entry_point("saving an array")
    def save(self, name: str, tensor: Any) -> None:
        """Record an array of the script's own, whole, with the step that is under way."""
        self._begin()
        self._reader.keep(Key(Kind.CUSTOM, name), tensor, self._train)

    @entry_point("saving predictions")
    def save_predictions(self, targets: Any, predictions: Any, name: str) -> None:
        """Count labels and answers that the script names, with the step or the evaluation that is under way."""
        self._begin()
        if self._mode() is Mode.TRAIN:
            self._allowance.wake()
        else:
            self._mask()
        gather_labels(name, targets, predictions, self._buffer())

    def end_explicit_step(self, loss: Any = None, *, skipped: bool = False) -> None:
        """End a step where the script says so; whether it is to stop there, the script's own call asks."""
        if loss is not None:
            self._take_loss_of_step(loss)
        self._end_step(skipped)

    def steps_begin(self, steps: Steps) -> Iterator[int]:
        """Return what counts the steps of a loop."""
        return iter(range(steps.count))

    def remove(self) -> None:
        """Take out nothing: it has put nothing in."""

    @entry_point("publishing what was pending")
    def _flush(self) -> None:
        self._end_evaluation()
        if self._train.tensors:
            self.session.end_evaluation(self._train, Mode.TRAIN)

