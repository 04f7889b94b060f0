"""The run of an attached script: logging, saving and steps during training."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from barograph.capture.recording import Recording
from barograph.capture.steps import Steps
from barograph.companions import WATCHER_SECS, await_gatherer, await_watcher
from barograph.errors import SettingsError, UnknownName, nearest
from barograph.experiments.recorded_run import RecordedRun
from barograph.model.manifest import EndState
from barograph.model.step import Mode
from barograph.processes.local_process import LocalProcess

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration


class AttachedRun(RecordedRun):
    """A run that `attach` records. It ends with the `with` block, with `close`, or with the process."""

    def __init__(
        self, recorded: Recording, *, owned: bool, watcher: LocalProcess | None = None,
        gatherer: LocalProcess | None = None,
    ) -> None:
        super().__init__(recorded)
        self._owned = owned
        self._watcher = watcher
        self._gatherer = gatherer
        if owned:
            recorded.after_close(self._end_watching)

    def save(self, name: str, tensor: Any) -> None:
        """Record a full tensor under a name, with the current step.

        Raises:
            SessionClosed: The run is closed.
        """
        self._check_open()
        self._recording.integration.save(name, tensor)

    def save_predictions(self, targets: Any, predictions: Any, name: str = "predictions") -> None:
        """Count targets and predictions, for scripts whose loss is not a PyTorch loss function.

        Counts are summed over the current step or evaluation: how often each class occurs as target, and each pair of
        target and prediction. The arrays themselves are not stored. The call waits for tensors on a device. Arguments
        that do not match issue one warning; training goes on.

        Args:
            targets: Class number of each sample, integers from 0: a tensor, an array or a list.
            predictions: Predicted class number of each sample, or one row of scores per sample, of which the highest
                counts.
            name: Name in the record, as in `label:NAME[3]` and `confusion:NAME[3,5]`.

        Raises:
            SessionClosed: The run is closed.
        """
        self._check_open()
        self._recording.integration.save_predictions(targets, predictions, name)

    def mode(self, mode: str | Mode | None) -> _ModeSet:
        """Set the mode from now on: "train", "eval" or "predict". None: detect it automatically.

        As a context manager it applies to the block: `with run.mode("eval"): …`.

        Raises:
            UnknownName: No such mode.
            SessionClosed: The run is closed.
        """
        self._check_open()
        wanted, before = _mode(mode), self._recording.session.script.mode
        self._recording.set_mode(wanted)
        return _ModeSet(self, before)

    def step(self, loss: Any = None) -> None:
        """End a step, for scripts that update weights without an optimizer that Barograph supports.

        Args:
            loss: Loss of the step, if the script does not call `backward`.

        Raises:
            SettingsError: The process uses PyTorch, and `attach` was called without `explicit_steps=True`.
            SessionClosed: The run is closed.
            TrainingStopped: A finding stopped the training.
        """
        integration = self._recording.integration
        if not integration.explicit_steps:
            raise SettingsError("run.step() needs attach(…, explicit_steps=True). By default, a step ends when the "
                                "optimizer steps.")
        self._check_open()
        integration.end_explicit_step(loss)
        self._recording.session.steering.raise_if_stopped()

    def integration(self, name: str = "") -> ArrayIntegration:
        """Return an integration that records arrays and numbers from an unsupported framework.

        Args:
            name: Name of the series of steps, if the training has several. The same name returns the same integration.

        Raises:
            SessionClosed: The run is closed.
        """
        self._check_open()
        return self._recording.array_integration(name)

    def checkpoint(self) -> None:
        """Request a checkpoint before the next batch, or before the next step of `steps`.

        There, the current step is complete and `barograph resume` can continue from it. If `attach` was called without
        `checkpoints`, checkpoints are saved from the next pass over the data on: resuming needs the start of the pass.

        Raises:
            SessionClosed: The run is closed.
        """
        self._check_open()
        self._recording.ask_for_checkpoint()

    def steps(self, count: int) -> Steps:
        """Return the numbers 0 to `count` - 1, for a loop that counts its own steps: `for step in run.steps(1000):`.

        PyTorch checkpoints are saved between two of these steps; a resumed training continues with the next.

        Args:
            count: Total number of steps.

        Raises:
            SessionClosed: The run is closed.
        """
        self._check_open()
        return Steps(count, self._recording.integration)

    def close(self, state: str = "finished", reason: str = "") -> None:
        """Remove all hooks, publish everything and end the run. Later calls do nothing.

        Args:
            state, reason: See `ActiveRun.close`.

        Raises:
            SettingsError: No such state.
        """
        super().close(state, reason)
        if self._owned:
            if state != EndState.FINISHED:
                self._recording.ended(EndState(state), reason)
            self._recording.close()

    def _end_watching(self) -> None:
        gatherer, self._gatherer = self._gatherer, None
        if gatherer is not None:
            await_gatherer(gatherer)
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            # Where nothing was recorded there is nothing to tell.
            settings = self._recording.session.settings
            patience_secs = WATCHER_SECS + (settings.notify_timeout_secs if settings.notify else 0.0)
            await_watcher(watcher, patience_secs if self._recording.session.declared else 0.0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._owned:
            self._recording.failed(kind, error)
        self.close()


class _ModeSet:
    """Restores the previous mode at the end of `with run.mode(…)`."""

    def __init__(self, run: AttachedRun, before: Mode | None) -> None:
        self._run = run
        self._before = before

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if not self._run.closed:
            self._run.mode(self._before)


def _mode(mode: str | Mode | None) -> Mode | None:
    if mode is None:
        return None
    if mode not in tuple(Mode):
        raise UnknownName(f'"{mode}" is not a mode. {nearest(str(mode), list(Mode))}')
    return Mode(mode)
