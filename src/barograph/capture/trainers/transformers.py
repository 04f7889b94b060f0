"""Hooks into the `Trainer` of Transformers, and its subclasses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from transformers import trainer, trainer_callback

from barograph.capture.integrations import report_missing
from barograph.capture.trainers.loop import TrainerLoop
from barograph.model.step import Mode

if TYPE_CHECKING:
    from barograph.capture.integrations import Listening

_NEEDS = {
    "Trainer.train": "the end of a training", "Trainer.evaluate": "evaluations", "Trainer.predict": "predictions",
    "CallbackHandler.call_event": "logged metrics",
}


def listen(recording: Listening) -> None:
    """Record every training of a `Trainer` in this process."""
    if report_missing(recording.session, trainer, _NEEDS):
        return
    loop = _Listener(recording, "Transformers")
    recording.add_integration(loop)
    loop.wrap(trainer_callback.CallbackHandler, "call_event", loop.called)
    loop.wrap(trainer.Trainer, "train", loop.trains)
    loop.wrap(trainer.Trainer, "evaluate", loop.evaluates)
    loop.wrap(trainer.Trainer, "predict", loop.predicts)


class _Listener(TrainerLoop):
    """Receives the callbacks of trainers, after the user's."""

    def called(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Process an event."""
        result = original(*args, **kwargs)
        if len(args) == 5 and not self.silent:
            _, event, _, state, _ = args
            if event == "on_train_begin":
                self.begins_at(state.global_step)
            elif event == "on_epoch_begin":
                self.log(lambda: {"epoch": state.epoch or 0, "global_step": state.global_step})
            elif event == "on_log":
                self.log(lambda: kwargs["logs"])
            elif event in ("on_step_end", "on_epoch_end") and self._session.steering.own_end.under_way:
                # A stopped training is neither evaluated nor saved: its checkpoint could replace a good one.
                result.should_evaluate = result.should_save = False
        return result

    def trains(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Make a stopped training leave its loop and call its callbacks before the script is notified."""
        control = args[0].control

        def leave() -> None:
            control.should_training_stop = True

        with self.own_end(leave):
            return original(*args, **kwargs)

    def evaluates(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record it as an evaluation."""
        with self.mode(Mode.EVAL):
            return original(*args, **kwargs)

    def predicts(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record it as a prediction."""
        with self.mode(Mode.PREDICT):
            return original(*args, **kwargs)
