"""The recording of one process: counts steps, applies the budget, owns the writer, and writes the ending.

It knows no framework: an integration (`capture/torch/integration.py` and its like) tells it when steps begin and end
and hands it what was gathered.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from barograph.capture.buffer import PendingStep, RowTable, StepBuffer
from barograph.capture.guard import Guard
from barograph.capture.logged import numbers_in
from barograph.capture.loss_level import LossLevel
from barograph.capture.plan import Agenda, Plan
from barograph.capture.presets import preset_named
from barograph.capture.price import Price
from barograph.capture.seen import Seen
from barograph.capture.steering import Steering
from barograph.capture.step_times import StepTimes
from barograph.capture.thread_clock import cpu_secs
from barograph.errors import SessionClosed
from barograph.model.clock import Clock, SystemClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import Cost, EndState, Heartbeat
from barograph.model.selection import Selection
from barograph.model.settings import Settings
from barograph.model.step import ANOTHER_TRAINING, Mode, Step, is_of_later_training

if TYPE_CHECKING:
    from barograph.model.trace import BatchFed
    from barograph.runs.state.capsules import CapsuleWriter
    from barograph.runs.writing.record_writer import Closing, RecordWriter

_RECENT_STEPS = 64

_MOST_LOOKS = 8
_LOOKS_APART_STEPS = 16
_LOOK_STEPS = 4
"""How often, how far apart and for how many steps a training is looked at closely because something has changed."""


@dataclass(frozen=True, slots=True)
class Rank:
    """The rank of this process in a distributed training.

    Attributes:
        index: Its rank; None where there are no ranks.
        world_size: How many workers there are.
    """

    index: int | None = None
    world_size: int = 1


class Session:
    """Records one process. Cheap to create; it claims its place in the run at the first sign of training.

    Args:
        settings: What the user set; `to` names a run that exists.
        needs: What the rules ask for.
        open_writer: Claims this worker's place and returns the writer; called once, at the first sign of
            training, with the rank and the function that tells this session's state.
        clock: Time.
        rank: Tells where this process stands; asked when the place is claimed.
        attempt: Which of the run this is.

    Attributes:
        steering: What is asked of the training.
    """

    def __init__(
        self,
        settings: Settings,
        needs: tuple[Selection, ...],
        open_writer: Callable[[Rank, Callable[[], Heartbeat]], RecordWriter],
        *,
        clock: Clock | None = None,
        rank: Callable[[], Rank] = Rank,
        attempt: int = 0,
    ) -> None:
        preset = preset_named(settings.preset)
        self.settings = settings
        self.guard = Guard(strict=settings.strict)
        self.plan = Plan((*preset.selections, *settings.collections, *(needs if preset.rules else ())))
        self.price = Price(settings.budget)
        self.table = RowTable()
        self.seen = Seen()
        self.clock = clock or SystemClock()
        self.times = StepTimes(self.price, self.clock.monotonic)
        self.lock = threading.RLock()
        """Held by whichever integration of several tells something."""
        self.closed = False
        self.passes_over = False
        """The script is being taken to a checkpoint: what it hands over was recorded before."""
        self._agenda = Agenda(self.plan)
        self._open_writer = open_writer
        self._rank = rank
        self._writer: RecordWriter | None = None
        self._writer_failed = False
        self._channels: dict[tuple[Any, ...], Callable[[int, int, float, Sequence[float]], bool]] = {}
        self._tick = 0
        self._steps: dict[str, int] = {}
        self._offsets: dict[str, int] = {}
        self._stepped_last = ""
        self._training = ""
        self._taken: set[str] = set()
        self.first_step = 0
        self._loaded_steps = 0
        self._recorded_steps: dict[str, int] = {}
        self._handed_over_steps = 0
        self._last_end: float | None = None
        self._step_secs: deque[float] = deque(maxlen=_RECENT_STEPS)
        self._last_loss = float("nan")
        self.level = LossLevel()
        self._looks = 0
        self._look_waits = False
        self._looked_at = 0
        self.startup_secs = 0.0
        """Seconds that training has waited for Barograph to start up."""
        self.startup_cpu_secs = 0.0
        """Of them, processor time of the training thread that an entry point must not charge as well."""
        self.write_capsule: CapsuleWriter | None = None
        """Writes a capsule into the run and returns where; its worker and its run are filled in."""
        self.publish_collected: Callable[[], None] = lambda: None
        """Publishes the steps that an integration has collected and not told of yet."""
        self.collected_steps = 0
        """How many those are."""
        self.fed_by: Callable[[int, int, str], Sequence[BatchFed]] | None = None
        """Returns what fed the step that ends, of this tick, number and optimizer; None: nobody follows that."""
        self.attempt = attempt
        self.steering = Steering(self.guard, self.clock, settings.allow, attempt, lambda: self.steps_made)
        self.mode: Mode | None = None
        """What the script says that it does; None where it leaves that to Barograph."""
        self._final_steps: list[Callable[[], None]] = []

    # What integrations ask before a step

    def made(self, optimizer: str) -> int:
        """Return how many steps this optimizer has made."""
        return self._steps.get(optimizer, 0)

    @property
    def tick(self) -> int:
        """Ticks published so far: that of the step under way."""
        return self._tick

    @property
    def rank(self) -> tuple[int | None, int]:
        """Which of how many processes this is; None where there are no ranks."""
        rank = self._rank()
        return rank.index, rank.world_size

    @property
    def steps_made(self) -> int:
        """How many steps the busiest optimizer has made; before any, those a checkpoint brought."""
        return max(self._steps.values(), default=self.first_step or self._loaded_steps)

    @property
    def steps_of_training(self) -> int:
        """How many steps have been made in the training that goes on, which need not be the first of this process."""
        return self.made(self._training) if self._training else self.steps_made

    def begin_training(self, optimizer: str) -> None:
        """Note that another training has begun in this process, with this one optimizer; "": that has several."""
        self._training = optimizer

    @property
    def steps_by_optimizer(self) -> Mapping[str, int]:
        """How many steps each optimizer has made."""
        return self._steps

    @property
    def steps_of_all(self) -> int:
        """How many steps all optimizers have made together."""
        return sum(self._steps.values()) + self.collected_steps

    def start_at(self, optimizer: str, number: int) -> None:
        """Let an optimizer begin with step `number`, as its checkpoint says; 0: with `first_step`."""
        if optimizer not in self._steps:
            number = number or self.first_step
            # A later training goes on where the steps of this process are, so that all share one budget.
            before = sum(self._steps.values()) if is_of_later_training(optimizer) else 0
            self._steps[optimizer], self._offsets[optimizer] = number, number - before

    def resume_at(self, steps: Mapping[str, int]) -> None:
        """Let each optimizer begin with the step after those that it had made in the run before."""
        self._steps.update(steps)
        self._offsets.update(steps)

    def take_label(self) -> str:
        """Return what the one optimizer of a training is called that begins now: "", and after others "#2", "#3"."""
        label = _free_label({*self._taken, *self._steps})
        self._taken.add(label)
        return label

    def label_of_first_training(self) -> str:
        """Return the label of the only optimizer in the first training of an integration that names later ones."""
        # Not from the steps: those of a run that is resumed are there before its optimizer.
        return _free_label(self._taken)

    def note_loaded(self, number: int) -> None:
        """Note that a checkpoint brought so many steps, for what is told before any optimizer steps."""
        self._loaded_steps = number

    def choose(self, number: int, mode: Mode = Mode.TRAIN, optimizer: str = "") -> int:
        """Return the mask of what is taken in this step: what is due and can be afforded."""
        if mode is not Mode.TRAIN:
            # An evaluation stands for all the steps since the one before: few fall on a step of a schedule.
            due, now = self._agenda.due(number, mode), self.clock.monotonic()
            self.price.hear(now)
            return due if self.price.affords_evaluation(due, now) else 0
        if self.price.budget is None:
            return self.plan.scheduled(number, mode)
        position, now = number - self._offsets.get(optimizer, 0), self.clock.monotonic()
        if not self.price.comes_round(position, now):
            return 0
        due = self._agenda.due(number, mode, optimizer)
        return due if self.price.affords(due, position, now) else 0

    def evaluation_goes_on(self, mask: int) -> bool:
        """Return whether there is room to read on in the evaluation under way."""
        return self.price.evaluation_goes_on(mask, self.clock.monotonic())

    def look_closely(self, optimizer: str) -> None:
        """Take the next steps of an optimizer whole, on credit: something has changed in this training.

        A training that changes all the time is not looked at any closer for it.
        """
        self._look_waits = self._looks < _MOST_LOOKS
        steps = sum(self._steps.values())
        if self._look_waits and steps >= self._looked_at + _LOOKS_APART_STEPS:
            self._look_waits = False
            self._looks += 1
            self._looked_at = steps
            self._agenda.owe(self.plan.everything(), optimizer)
            self.price.grant(_LOOK_STEPS)

    def has_room(self) -> bool:
        """Return whether the budget has room for tensors now, whatever is due."""
        return self.price.has_room(self.clock.monotonic())

    def pass_step(self, optimizer: str) -> None:
        """Count a step of which nothing is known."""
        self.hand_over_fed(optimizer)
        self._steps[optimizer] = self.made(optimizer) + 1
        self._tick += 1
        self.price.end_step(0)
        self._time_step()

    def began(self) -> None:
        """Note that training goes on now; the first time, claim this worker's place in the run."""
        self.price.start(self.clock.monotonic())
        if self._writer is None and not self._writer_failed and not self.closed:
            self._claim()

    def _claim(self) -> None:
        with self.timed_startup():
            try:
                self._writer = self._open_writer(self._rank(), self.status)
            except Exception:
                self._writer_failed = True  # tried once: a training must not be asked again at every step
                raise

    # What integrations tell when something ends

    def end_step(self, buffer: StepBuffer, *, optimizer: str, mask: int, skipped: bool) -> None:
        """Publish one optimizer step.

        Args:
            buffer: What was gathered; not to be used again.
            optimizer: Whose step.
            mask: What was taken.
            skipped: A gradient scaler withheld the update.
        """
        self.hand_over_fed(optimizer)
        number = self.made(optimizer)
        self._steps[optimizer] = number + 1
        self._stepped_last = optimizer
        self._time_step()
        self._agenda.took(mask, optimizer=optimizer)
        self.price.end_step(mask)
        if bool(self.plan.kinds(mask) & {Kind.WEIGHT, Kind.GRADIENT}):
            self._recorded_steps[optimizer] = self._recorded_steps.get(optimizer, 0) + 1
        if self._last_end is not None:
            buffer.scalars.update(self.times.told(self._last_end))
        self._publish(buffer, Step(self._tick, number, optimizer, Mode.TRAIN, self.clock.unix(), skipped))

    def steps_until_round(self, optimizer: str) -> int:
        """Return how many steps it is from the one under way to the next that may take tensors."""
        return self.price.steps_until_round(self.made(optimizer) - self._offsets.get(optimizer, 0))

    def end_light_step(self, optimizer: str, losses: Mapping[Any, tuple[float, int]], rates: Sequence[float], *,
                       at: float | None = None) -> None:
        """Publish a step of which only numbers were taken; the fast way of `end_step`.

        Args:
            optimizer: Whose step.
            losses: Path of a loss, or key of another number, to the sum of the values that it took in this step, and
                how many.
            rates: Learning rate of each parameter group.
            at: When it ended, by the monotonic clock; what fed it was handed over then. None: now.
        """
        if self.fed_by is not None and at is None:
            self.hand_over_fed(optimizer)
        number = self._steps[optimizer]
        self._steps[optimizer] = number + 1
        self._stepped_last = optimizer
        self.price.end_step(0)
        now = self._time_step(at)
        tick, self._tick = self._tick, self._tick + 1
        writer = self._writer
        if writer is None or self.closed:
            return
        values = [total / count for total, count in losses.values()]
        values += rates
        unix = self.clock.unix() if at is None else self.clock.unix() - (self.clock.monotonic() - at)
        told = self.times.told(now)
        if told:
            keys = _keys_of(losses, len(rates))
            numbers = {**dict(zip(keys, values, strict=True)), **told}
            writer.put_numbers(Step(tick, number, optimizer, Mode.TRAIN, unix), numbers)
            return
        series = (optimizer, len(rates), *losses)
        channel = self._channels.get(series)
        if channel is None:
            channel = self._channels[series] = writer.channel(_keys_of(losses, len(rates)), optimizer)
        channel(tick, number, unix, values)

    def hand_over_fed(self, optimizer: str, *, ahead: int = 0) -> None:
        """Hand over the batches that fed a step: the one that ends, or one so many steps further."""
        if self.fed_by is not None:
            batches = self.fed_by(self._tick + ahead, self.made(optimizer) + ahead, optimizer)
            if batches and self._writer is not None:
                self._writer.put_batches(batches)

    def _time_step(self, at: float | None = None) -> float:
        now = self.clock.monotonic() if at is None else at
        if self._last_end is not None:
            self._step_secs.append(now - self._last_end)
        self._last_end = now
        self.price.hear(now)
        self.times.step_ended(now)
        return now

    def end_evaluation(self, buffer: StepBuffer, mode: Mode, mask: int = 0) -> None:
        """Publish what was gathered between two training steps in another mode, where `mask` was taken."""
        self.seen.evaluations += 1
        self._agenda.took(mask, mode)
        if mask:
            self.price.end_evaluation(mask)
        self._publish(buffer, Step(self._tick, self.steps_of_training, self._training, mode, self.clock.unix()))

    def _publish(self, buffer: StepBuffer, step: Step) -> None:
        self._tick += 1
        if self._writer is None or self.closed:
            return
        # Of tensors it is not known yet whether there are any.
        self._handed_over_steps += step.mode is Mode.TRAIN and bool(buffer.scalars or buffer.losses)
        if buffer.light:
            self._writer.put_numbers(step, buffer.numbers())
        else:
            self._writer.put(PendingStep(buffer, step, self.table.subjects()))

    def saw_loss(self, value: float) -> None:
        """Note the loss of this step, for the live view."""
        self.seen.loss = True
        self._last_loss = value
        if self.level.jumps(value) or self._look_waits:
            self.look_closely(self._stepped_last)

    def log(
        self, values: Mapping[str, Any], step: int | None = None, mode: Mode | None = None,
        time_unix: float | None = None,
    ) -> None:
        """Record numbers of the script's own; without a mode, in the one that the script has set."""
        if self.closed:
            raise SessionClosed(f"The run is closed and records nothing more ({self.settings.to}).")
        if self.passes_over:
            return
        self.publish_collected()
        writer = self._writer
        if writer is None:
            self.began()
            writer = self._writer
            if writer is None:
                return
        number = self.steps_made if step is None else step
        mode = mode or self.mode or Mode.TRAIN
        now = time.time() if time_unix is None else time_unix
        for name, value in values.items():
            if isinstance(value, int | float):
                writer.log(name, value if type(value) is float else float(value), number, mode, now)
                continue
            for path, found in numbers_in({name: value}, self._no_number):
                writer.log(path, found, number, mode, now)

    def _no_number(self, name: str, value: Any) -> None:
        self.guard.report(
            f"{name!r} is not a number ({type(value).__name__}) and was not logged. Save arrays with "
            "run.save", cause=f"logged {name}")

    # Ending

    def before_close(self, action: Callable[[], None]) -> None:
        """Have `action` called before the end is written: an integration flushes what is pending."""
        self._final_steps.append(action)

    def close(self, state: EndState, reason: str = "") -> None:
        """Publish what is left and write how it ended; later calls do nothing."""
        if self.closed:
            return
        try:
            for action in self._final_steps:
                action()
        finally:
            self.closed = True
            if self._writer is not None:
                self._say_what_was_lost(self._writer.close(state, reason))

    def _say_what_was_lost(self, closing: Closing) -> None:
        if closing.complete:
            return
        lost = f": {closing.lost_steps} recorded steps were not published in time" if closing.lost_steps else ""
        why = "".join(f" {problem.rstrip('.')}." for problem in closing.problems)
        self.guard.report(f"the end of the run could not be written{lost}.{why}", outcome="The training is unaffected.")

    def lost_some(self, problem: str) -> None:
        """Say that some of what was recorded is lost, and why; safe from any thread."""
        self.guard.report(problem)
        self.seen.reasons[problem] = problem

    def abandon(self) -> None:
        """Forget everything without writing: this is a forked child, and the run is its parent's."""
        self.closed = True
        if self._writer is not None:
            self._writer.after_fork_in_child()
        self._writer = None

    @property
    def declared(self) -> bool:
        """Whether this process has claimed a place in the run."""
        return self._writer is not None

    # State, for the heartbeat

    def status(self) -> Heartbeat:
        """Return how it goes; called from the writer's thread, so it only reads."""
        now = self._last_end if self._last_end is not None else self.clock.monotonic()
        # By hand: a module of the name `statistics` in the script's folder must not be imported for us.
        steps = sorted(self._step_secs)
        return Heartbeat(
            beat=0,
            time_unix=self.clock.unix(),
            step=self.steps_made,
            step_secs=steps[len(steps) // 2] if steps else float("nan"),
            loss=self._last_loss,
            cost=Cost(
                train_secs=self.price.training_secs(now) + self.price.spent_secs,
                capture_secs=self.price.spent_secs,
                startup_secs=self.startup_secs,
                budget=self.price.budget_or_nan,
                interval_steps=self.price.interval_steps,
            ),
            coverage=replace(self.seen.coverage(
                sum(self._steps.values()), sum(self._recorded_steps.values()),
                "the schedule" if self.settings.budget is None else "the budget"),
                steps_recorded=self._handed_over_steps),
            problems=self.guard.problems,
        )

    def add_startup(self, secs: float, used_secs: float = 0.0) -> None:
        """Add to the time spent on starting up, which is no part of the price of any step.

        Args:
            secs: By the clock on the wall.
            used_secs: Processor time of this thread meanwhile, where an entry point would charge it.
        """
        self.startup_secs += secs
        self.startup_cpu_secs += used_secs

    @contextmanager
    def timed_startup(self) -> Iterator[None]:
        """Count what a `with` block takes as start-up."""
        begin, cpu_begin = time.perf_counter(), cpu_secs()
        try:
            yield
        finally:
            self.add_startup(time.perf_counter() - begin, cpu_secs() - cpu_begin)

    @contextmanager
    def starting_up(self, *, ours: bool = True) -> Iterator[None]:
        """Have what is done once within a `with` block counted as start-up, and as no training.

        Args:
            ours: All of the block is done for the recording; without, only what the price was charged with meanwhile:
                the rest is the script's own, as when its step is compiled.
        """
        begin, cpu_begin = time.perf_counter(), cpu_secs()
        before, cpu_before, spent_secs = self.startup_secs, self.startup_cpu_secs, self.price.spent_secs
        try:
            yield
        finally:
            secs, charged_secs = time.perf_counter() - begin, self.price.spent_secs - spent_secs
            self.price.charge(-charged_secs)
            if ours:
                self.startup_secs, self.startup_cpu_secs = before + secs, cpu_before + cpu_secs() - cpu_begin
            else:
                self.add_startup(charged_secs, charged_secs)
            self.price.pass_over(secs, self.clock.monotonic())

    def plan_asks(self, kind: Kind) -> bool:
        """Return whether any Selection, at any step, asks for this kind."""
        return any(kind in selection.kinds for selection in self.plan.selections)


def _keys_of(losses: Iterable[Any], rates: int) -> list[Key]:
    keys = [item if isinstance(item, Key) else Key(Kind.LOSS, item) for item in losses]
    return keys + [Key(Kind.LEARNING_RATE, f"group{number}") for number in range(rates)]


def _free_label(taken: set[str]) -> str:
    number, label = 1, ""
    while label in taken:
        number += 1
        label = f"{ANOTHER_TRAINING}{number}"
    return label
