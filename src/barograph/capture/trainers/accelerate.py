"""Hooks into Accelerate's logging and loaders; everything else in it is plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accelerate import accelerator, data_loader

from barograph.capture.integrations import report_missing
from barograph.capture.trainers.drawn_ahead import DrawnAhead
from barograph.capture.trainers.loop import TrainerLoop

if TYPE_CHECKING:
    from barograph.capture.recording import Recording

_LOADERS = {
    "DataLoaderShard.__iter__": "batches by loader",
    "DataLoaderDispatcher.__iter__": "batches by loader",
}


def listen(recording: Recording) -> None:
    """Record what every `Accelerator` of this process logs, and trace the batches of its loaders."""
    loop = _Listener(recording)
    recording.add_integration(loop)
    if not report_missing(recording.session, accelerator, {"Accelerator.log": "logged metrics"}):
        loop.wrap(accelerator.Accelerator, "log", loop.logged)
    if not report_missing(recording.session, data_loader, _LOADERS):
        loop.wrap(data_loader.DataLoaderShard, "__iter__", loop.shard_begins)
        loop.wrap(data_loader.DataLoaderDispatcher, "__iter__", loop.dispatcher_begins)


class _Listener(TrainerLoop):
    """Receives calls of Accelerate.

    Args:
        recording: The recording.
    """

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording, "Accelerate")
        self._ahead = DrawnAhead(recording)

    def logged(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record logged values, even without trackers."""
        self.log(lambda: args[1] if len(args) > 1 else kwargs["values"])
        return original(*args, **kwargs)

    def shard_begins(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Assign each batch to the step that uses it: a loader draws one more before it delivers one."""
        return self._ahead.given(original(*args, **kwargs), skipped=args[0].skip_batches, together=1)

    def dispatcher_begins(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Do the same if one process draws for all workers: one batch each, or a split one."""
        loader = args[0]
        together = 1 if loader.split_batches or loader.submesh_tp else loader.state.num_processes
        return self._ahead.given(original(*args, **kwargs), skipped=loader.skip_batches, together=together)
