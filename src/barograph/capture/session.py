"""The recording of one process: the state that integrations share, and the sequence of operations at the end of a step.

It is independent of frameworks: integrations (such as `capture/torch/integration.py`) report the start and end of steps
and pass the collected data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from barograph.capture.buffer import StepBuffer
from barograph.capture.guard import Guard
from barograph.capture.logged import numbers_in
from barograph.capture.output import OpenWriter, Output
from barograph.capture.plan import Plan
from barograph.capture.presets import preset_named
from barograph.capture.price import Price
from barograph.capture.progress import Progress
from barograph.capture.script_state import ScriptState
from barograph.capture.seen import Seen
from barograph.capture.startup import Startup
from barograph.capture.steering import Steering
from barograph.capture.step_choice import StepChoice
from barograph.capture.step_counts import StepCounts
from barograph.capture.this_worker import ThisWorker
from barograph.errors import SessionClosed
from barograph.model.clock import Clock, SystemClock
from barograph.model.key import Kind
from barograph.model.manifest import Cost, EndState, Heartbeat
from barograph.model.selection import Selection
from barograph.model.settings import Settings
from barograph.model.step import Mode, Step

if TYPE_CHECKING:
    from barograph.runs.writing.record_writer import Closing

LightNumbers = Mapping[Any, tuple[float, int]]
"""Path of a loss, or key of another number, to the sum of its values in a step, and their number."""

_OF_PARAMETERS = frozenset({Kind.WEIGHT, Kind.GRADIENT})


class Collector(Protocol):
    """Collects steps with only numbers, to publish them together."""

    @property
    def steps(self) -> int:
        """Number of collected steps."""

    def stop(self) -> None:
        """Publish them, and collect no more."""


class Session:
    """Records one process. Cheap to create; it claims its place in the run at the first sign of training.

    Args:
        settings: Settings of the user; `to` is an existing run.
        needs: Records that the rules need.
        open_writer: Claims this worker's place and returns the writer; called once, at the first sign of training, with
            the rank and a function that returns this session's state.
        clock: Time.
        worker: This process. None: the only one of its run.

    Attributes:
        guard: Catches errors of Barograph.
        plan: The statistics to record for each key.
        price: Cost of the recording.
        seen: Parameters and modules of the training.
        counts: Numbers of steps.
        choice: Chooses the data to record at each step.
        progress: Progress of the training.
        output: Sends records to the writer.
        startup: Time spent on starting up.
        script: Settings that the script changes while it runs.
        steering: Requests to the training, such as a stop.
        closed: Recording has ended.
    """

    def __init__(
        self,
        settings: Settings,
        needs: tuple[Selection, ...],
        open_writer: OpenWriter,
        *,
        clock: Clock | None = None,
        worker: ThisWorker | None = None,
    ) -> None:
        preset = preset_named(settings.preset)
        self.settings = settings
        self.clock = clock or SystemClock()
        self.worker = worker or ThisWorker()
        self.guard = Guard(strict=settings.strict)
        self.plan = Plan((*preset.selections, *settings.collections, *(needs if preset.rules else ())))
        self.price = Price(settings.budget)
        self.seen = Seen()
        self.counts = StepCounts()
        self.choice = StepChoice(self.plan, self.price, self.counts, self.clock)
        self.progress = Progress(self.price, self.clock)
        self.output = Output(open_writer)
        self.startup = Startup(self.price, self.clock)
        self.script = ScriptState()
        self.steering = Steering(self.guard, self.clock, settings.allow, self.worker.attempt,
                                 lambda: self.counts.of_busiest)
        self.closed = False
        self._collector: Collector | None = None
        self._final_steps: list[Callable[[], None]] = []

    # Unpublished records

    def collect_with(self, collector: Collector) -> None:
        """Let an integration collect steps; any other record publishes them first."""
        self._collector = collector

    def publish_collected(self) -> None:
        """Publish the collected steps of an integration."""
        if self._collector is not None:
            self._collector.stop()

    @property
    def steps_of_all(self) -> int:
        """Number of steps of all optimizers together, including collected ones."""
        return self.counts.of_all + (self._collector.steps if self._collector is not None else 0)

    # A step

    def began(self) -> None:
        """Note that training continues; the first time, claim this worker's place in the run."""
        self.price.start(self.clock.monotonic())
        if self.output.writer is None and self.output.may_open and not self.closed:
            with self.startup.timed():
                self.output.open(self.worker.find_rank(), self.status)

    @property
    def declared(self) -> bool:
        """Whether this process has claimed a place in the run."""
        return self.output.writer is not None

    def pass_step(self, optimizer: str) -> None:
        """Count a step without records."""
        self.hand_over_fed(optimizer)
        self.counts.pass_step(optimizer)
        self.price.end_step(0)
        self.progress.step_ended()

    def end_step(self, buffer: StepBuffer, *, optimizer: str, mask: int, skipped: bool) -> None:
        """Publish one optimizer step.

        Args:
            buffer: Collected data; not to be used again.
            optimizer: Optimizer of the step.
            mask: What was recorded.
            skipped: A gradient scaler skipped the update.
        """
        self.hand_over_fed(optimizer)
        tick, number = self.counts.end_step(optimizer)
        ended = self.progress.step_ended()
        self.choice.took(mask, optimizer=optimizer)
        self.price.end_step(mask)
        if self.plan.kinds(mask) & _OF_PARAMETERS:
            self.progress.took_tensors()
        buffer.scalars.update(self.progress.times.take_means(ended))
        self._publish(buffer, Step(tick, number, optimizer, Mode.TRAIN, self.clock.unix(), skipped))

    def end_light_step(self, optimizer: str, losses: LightNumbers, rates: Sequence[float]) -> None:
        """Publish a step with only numbers, which ends now; the fast path of `end_step`.

        Args:
            optimizer: Optimizer of the step.
            losses: Numbers of the step.
            rates: Learning rate of each parameter group.
        """
        self.hand_over_fed(optimizer)
        self.end_light_steps(optimizer, [(losses, self.clock.monotonic(), rates)])

    def end_light_steps(self, optimizer: str, steps: Iterable[tuple[LightNumbers, float, Sequence[float]]]) -> None:
        """Publish steps with only numbers, whose batches were passed on.

        Args:
            optimizer: Optimizer of the steps.
            steps: Numbers of each step, its end by the monotonic clock, and its learning rates.
        """
        counts, progress, output = self.counts, self.progress, self.output
        unix_ahead_secs = self.clock.unix() - self.clock.monotonic()
        is_written = not self.closed and output.writer is not None
        for numbers, at, rates in steps:
            tick, number = counts.end_step(optimizer)
            progress.step_ended(at)
            if is_written:
                output.put_light(tick, number, optimizer, unix_ahead_secs + at, numbers, rates,
                                 progress.times.take_means(at))
        self.price.end_step(0)

    def hand_over_fed(self, optimizer: str, *, ahead: int = 0) -> None:
        """Pass on the batches of the ending step, or of one that many steps later."""
        if self.output.fed_by is not None:
            self.output.put_fed(self.counts.tick + ahead, self.counts.made(optimizer) + ahead, optimizer)

    def end_evaluation(self, buffer: StepBuffer, mode: Mode, mask: int = 0) -> None:
        """Publish the records between two training steps in another mode, recorded with `mask`."""
        counts = self.counts
        self.seen.evaluation_ended()
        self.choice.took(mask, mode)
        if mask:
            self.price.end_evaluation(mask)
        self._publish(buffer, Step(counts.take_tick(), counts.of_training, counts.training, mode, self.clock.unix()))

    def _publish(self, buffer: StepBuffer, step: Step) -> None:
        if not self.closed:
            self.output.put(buffer, step)

    def saw_loss(self, value: float) -> None:
        """Note the loss of this step."""
        self.seen.saw_loss()
        self.progress.saw_loss(value)
        self.choice.saw_loss(value)

    def log(
        self, values: Mapping[str, Any], step: int | None = None, mode: Mode | None = None,
        time_unix: float | None = None,
    ) -> None:
        """Record numbers of the script; without a mode, in the one that the script has set."""
        if self.closed:
            raise SessionClosed(f"The run is closed and records nothing more ({self.settings.to}).")
        if self.script.passes_over:
            return
        self.publish_collected()
        if self.output.writer is None:
            self.began()
        writer = self.output.writer
        if writer is None:
            return
        number = self.counts.of_busiest if step is None else step
        mode = mode or self.script.mode or Mode.TRAIN
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
        """Call `action` before the ending is written, so that an integration can flush pending records."""
        self._final_steps.append(action)

    def close(self, state: EndState, reason: str = "") -> None:
        """Publish pending records and write the ending; later calls do nothing."""
        if self.closed:
            return
        try:
            for action in self._final_steps:
                action()
        finally:
            self.closed = True
            if self.output.writer is not None:
                self._report_lost_records(self.output.writer.close(state, reason))

    def _report_lost_records(self, closing: Closing) -> None:
        if closing.complete:
            return
        lost = f": {closing.lost_steps} recorded steps were not published in time" if closing.lost_steps else ""
        why = "".join(f" {problem[:1].upper()}{problem[1:].rstrip('.')}." for problem in closing.problems)
        self.guard.report(f"the end of the run could not be written{lost}.{why}", outcome="The training is unaffected.")

    def lost_some(self, problem: str) -> None:
        """Report that some records are lost, and why; thread-safe."""
        self.guard.report(problem)
        self.seen.reasons[problem] = problem

    def abandon(self) -> None:
        """Forget everything without writing: this is a forked child, and the run is its parent's."""
        self.closed = True
        self.output.abandon()

    # State, for the heartbeat

    def status(self) -> Heartbeat:
        """Return the current heartbeat; called from the writer's thread, so it only reads."""
        progress, price = self.progress, self.price
        now = progress.last_end if progress.last_end is not None else self.clock.monotonic()
        why = f"limited by the {'schedule' if self.settings.budget is None else 'budget'}"
        coverage = self.seen.coverage(self.counts.of_all, progress.tensor_steps, why)
        return Heartbeat(
            beat=0,
            time_unix=self.clock.unix(),
            step=self.counts.of_busiest,
            step_secs=progress.median_step_secs,
            loss=progress.last_loss,
            cost=Cost(
                train_secs=price.training_secs(now) + price.spent_secs,
                capture_secs=price.spent_secs,
                startup_secs=self.startup.secs,
                budget=price.budget_or_nan,
                interval_steps=price.interval_steps,
            ),
            coverage=replace(coverage, steps_recorded=self.output.handed_over_steps),
            problems=self.guard.problems,
        )
