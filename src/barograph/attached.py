"""The run that a script attaches itself to: what it logs, saves and asks for while it trains."""

from __future__ import annotations

import subprocess
from types import TracebackType
from typing import TYPE_CHECKING, Any

from barograph.capture.recording import Recording
from barograph.capture.steps import Steps
from barograph.companions import LAST_WORDS_SECS, await_gatherer, await_watcher
from barograph.errors import SettingsError, UnknownName, nearest
from barograph.experiments.recorded_run import RecordedRun
from barograph.model.manifest import EndState
from barograph.model.step import Mode

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration


class AttachedRun(RecordedRun):
    """The run that `attach` records; ends with the `with` block, `close`, or the process."""

    def __init__(
        self, recorded: Recording, *, owned: bool, watcher: subprocess.Popen[bytes] | None = None,
        gatherer: subprocess.Popen[bytes] | None = None,
    ) -> None:
        super().__init__(recorded)
        self._owned = owned
        self._watcher = watcher
        self._gatherer = gatherer
        if owned:
            recorded.after_close(self._end_watching)

    def save(self, name: str, tensor: Any) -> None:
        """Record a whole tensor under a name, with the step that is under way.

        Raises:
            SessionClosed: The run has been closed.
        """
        self._check_open()
        self._recording.integration.save(name, tensor)

    def save_predictions(self, targets: Any, predictions: Any, name: str = "predictions") -> None:
        """Count labels and answers, for scripts whose loss is no loss function of torch.

        They are added up over the step, or the evaluation, that is under way. What is kept is how often each class
        was the truth and each pair of truth and answer occurred, never what was handed over. Tensors on a device
        are waited for. What does not fit together is warned of once, and training goes on.

        Args:
            targets: The true class of each sample, whole numbers from 0: a tensor, an array or a list.
            predictions: The answered class of each, likewise, or one row of scores each, whose greatest counts.
            name: Under which they are recorded, as in `label:NAME[3]` and `confusion:NAME[3,5]`.

        Raises:
            SessionClosed: The run has been closed.
        """
        self._check_open()
        self._recording.integration.save_predictions(targets, predictions, name)

    def mode(self, mode: str | Mode | None) -> _ModeSet:
        """Say what the script does from now on: "train", "eval", "predict"; None: let Barograph see.

        As a context manager it holds for the block: `with run.mode("eval"): …`.

        Raises:
            UnknownName: There is no such mode.
            SessionClosed: The run has been closed.
        """
        self._check_open()
        wanted, before = _mode(mode), self._recording.session.mode
        self._recording.set_mode(wanted)
        return _ModeSet(self, before)

    def step(self, loss: Any = None) -> None:
        """End a step here; for scripts that move weights without an optimizer that Barograph knows.

        Args:
            loss: The step's loss, where no `backward` shows it.

        Raises:
            SettingsError: The process has imported torch, and `attach` was not told `explicit_steps=True`.
            SessionClosed: The run has been closed.
            TrainingStopped: A finding asked for it.
        """
        integration = self._recording.integration
        if not integration.explicit_steps:
            raise SettingsError("run.step() needs attach(…, explicit_steps=True); without, optimizer steps are steps.")
        self._check_open()
        integration.end_explicit_step(loss)
        self._recording.session.steering.raise_if_stopped()

    def integration(self, name: str = "") -> ArrayIntegration:
        """Return what takes arrays and numbers of a training whose framework Barograph does not know.

        Args:
            name: Of the series of steps, where a training has several; the same name gives the same integration.

        Raises:
            SessionClosed: The run has been closed.
        """
        self._check_open()
        return self._recording.array_integration(name)

    def checkpoint(self) -> None:
        """Have a checkpoint saved where the script asks for its next batch, or `steps` for its next step.

        That is where a training can go on from (`barograph resume`): all that belongs to the step is done. Of a loader
        it must be known how its pass began: where `attach` was not told of `checkpoints`, that is so from the next on.

        Raises:
            SessionClosed: The run has been closed.
        """
        self._check_open()
        self._recording.ask_for_checkpoint()

    def steps(self, count: int) -> Steps:
        """Return the numbers 0 to `count` - 1, for a loop that counts its own steps: `for step in run.steps(1000):`.

        Of a PyTorch training, checkpoints are saved between two of them, and a resumed one goes on with the next.

        Args:
            count: Of the steps, in all.

        Raises:
            SessionClosed: The run has been closed.
        """
        self._check_open()
        return Steps(count, self._recording.integration)

    def close(self, state: str = "finished", reason: str = "") -> None:
        """End the recording: every hook is taken out, everything is published. Later calls do nothing.

        Args:
            state, reason: As of `ActiveRun.close`.

        Raises:
            SettingsError: There is no such state.
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
            last_words = LAST_WORDS_SECS + (settings.notify_timeout_secs if settings.notify else 0.0)
            await_watcher(watcher, last_words if self._recording.session.declared else 0.0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._owned:
            self._recording.failed(kind, error)
        self.close()


class _ModeSet:
    """Puts the mode back that held before, where `run.mode` is used in a `with` statement."""

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
        raise UnknownName(f'"{mode}" is no mode. {nearest(str(mode), list(Mode))}')
    return Mode(mode)
