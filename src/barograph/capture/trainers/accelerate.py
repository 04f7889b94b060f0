"""Listens to what scripts with Accelerate log: all else of them is plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accelerate import accelerator

from barograph.capture.doors import say_missing
from barograph.capture.trainers.loop import TrainerLoop

if TYPE_CHECKING:
    from barograph.capture.doors import Listening


def listen(recording: Listening) -> None:
    """Have what every `Accelerator` of this process logs told to the recording."""
    if say_missing(recording.session, accelerator, {"Accelerator.log": "what is logged"}):
        return
    loop = _Listener(recording, "Accelerate")
    recording.add_tap(loop)
    loop.wrap(accelerator.Accelerator, "log", loop.logged)


class _Listener(TrainerLoop):
    """Hears of it."""

    def logged(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record what goes to the trackers, also where there are none."""
        self.log(lambda: args[1] if len(args) > 1 else kwargs["values"])
        return original(*args, **kwargs)
