"""Listens to trainings of fastai: its optimizers are none of torch's, so that their steps are told to torch's tap here.

They show their parameter groups and their state as torch's do, and a loop that wraps one of torch's calls that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from fastai import learner, optimizer

from barograph.capture.doors import say_missing
from barograph.capture.trainers.loop import TrainerLoop

if TYPE_CHECKING:
    from barograph.capture.recording import Recording


def listen(recording: Recording) -> None:
    """Have every training of fastai in this process told to the recording."""
    session = recording.session
    if say_missing(session, optimizer, {"Optimizer.step": "steps", "Optimizer.param_groups": "parameters"}) or \
            say_missing(session, learner, {"Recorder.after_epoch": "what is logged"}):
        return
    loop = _Listener(recording)
    recording.add_tap(loop)
    loop.wrap(optimizer.Optimizer, "step", loop.steps)
    loop.wrap(learner.Recorder, "after_epoch", loop.epoch_ends)


class _Listener(TrainerLoop):
    """Hears of it."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording, "fastai")
        self._torch = recording

    def steps(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Have a step recorded as one of torch's."""
        tap = self._torch.torch
        if tap is None or self.silent:
            return original(*args, **kwargs)
        return tap.step_of_another(args[0], lambda: original(*args, **kwargs))

    def epoch_ends(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record what fastai shows of an epoch: mean losses, and metrics of its evaluation."""
        result = original(*args, **kwargs)
        self.log(lambda: dict(_shown(args[0])))
        return result


def _shown(recorder: Any) -> Iterator[tuple[str, Any]]:
    # The time of an epoch is a text, and none of the metrics.
    return ((name, value) for name, value in zip(recorder.metric_names, recorder.log, strict=False)
            if not isinstance(value, str))
