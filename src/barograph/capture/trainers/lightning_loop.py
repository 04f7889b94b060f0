"""Reads Lightning trainings: logged metrics, epochs, evaluations, sanity checks.

A stopped training ends with an exception: Lightning then calls `on_exception`, closes its loggers and tears down, and
neither evaluates nor saves, as it would with `should_stop`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barograph.capture.integrations import report_missing
from barograph.capture.trainers.drawn_ahead import DrawnAhead
from barograph.capture.trainers.loop import TrainerLoop
from barograph.model.step import Mode

if TYPE_CHECKING:
    from barograph.capture.recording import Recording

_CONNECTOR = "trainer.connectors.logger_connector.logger_connector._LoggerConnector"
_NEEDS = {
    f"{_CONNECTOR}.log_metrics": "logged metrics",
    "loops.fit_loop._FitLoop.run": "the first step of a training",
    "loops.fit_loop._FitLoop.on_advance_start": "epochs",
    "loops.evaluation_loop._EvaluationLoop.run": "evaluations",
    "loops.prediction_loop._PredictionLoop.run": "predictions",
    "loops.fetchers._DataFetcher.__next__": "batches by loader",
    "loops.fetchers._PrefetchDataFetcher.__next__": "batches by loader",
    "loops.fetchers._PrefetchDataFetcher.reset": "batches by loader",
    "Trainer._run_sanity_check": "sanity checks",
}


def listen_to(library: Any, recording: Recording) -> None:
    """Record every training of this Lightning.

    Args:
        library: `lightning.pytorch`, or its older name.
        recording: The recording.
    """
    if report_missing(recording.session, library, _NEEDS):
        return
    loop = _Listener(recording)
    recording.add_integration(loop)
    loops = library.loops
    loop.wrap(library.trainer.connectors.logger_connector.logger_connector._LoggerConnector, "log_metrics", loop.logged)
    loop.wrap(loops.fit_loop._FitLoop, "run", loop.fits)
    loop.wrap(loops.fit_loop._FitLoop, "on_advance_start", loop.epoch_begins)
    loop.wrap(loops.evaluation_loop._EvaluationLoop, "run", loop.evaluates)
    loop.wrap(loops.prediction_loop._PredictionLoop, "run", loop.predicts)
    loop.wrap(library.Trainer, "_run_sanity_check", loop.checks)
    loop.follow(loops.fetchers)


class _Listener(TrainerLoop):
    """Receives calls of Lightning.

    Args:
        recording: The recording.
    """

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording, "Lightning")
        self._ahead = DrawnAhead(recording)

    def follow(self, fetchers: Any) -> None:
        """Follow the batches that Lightning prefetches for data without length.

        Args:
            fetchers: The module that prefetches.
        """
        early = fetchers._PrefetchDataFetcher

        def draws(original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            if self.silent or not isinstance(args[0], early) or args[0].length is not None:
                return original(*args, **kwargs)
            return self._ahead.drawn(args[0], lambda: original(*args, **kwargs))

        def hands_over(original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            if not self.silent:
                with self._entry.guarded("counting prefetched batches"):
                    self._ahead.holds(args[0], len(args[0].batches))
            batch = original(*args, **kwargs)
            if not self.silent:
                with self._entry.guarded("noting the batch in use"):
                    self._ahead.handed_over(args[0])
            return batch

        def restarts(original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            with self._entry.guarded("releasing prefetched batches"):
                self._ahead.forget(args[0])
            return original(*args, **kwargs)

        self.wrap(fetchers._DataFetcher, "__next__", draws)
        self.wrap(early, "__next__", hands_over)
        self.wrap(early, "reset", restarts)

    def logged(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record logged values as often as they are logged, even without loggers."""
        trainer = args[0].trainer
        if not trainer.sanity_checking:
            self.log(lambda: args[1] if len(args) > 1 else kwargs["metrics"])
        return original(*args, **kwargs)

    def fits(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Note where a training starts: after the steps of the checkpoint from which it continues."""
        trainer = args[0].trainer
        # Lightning counts the steps of all optimizers together; with several, the count per optimizer is unknown.
        self.begins_at(trainer.global_step if len(trainer.optimizers) == 1 else 0)
        return original(*args, **kwargs)

    def epoch_begins(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record the number of the epoch, and Lightning's step count."""
        result = original(*args, **kwargs)
        trainer = args[0].trainer
        self.log(lambda: {"epoch": trainer.current_epoch, "global_step": trainer.global_step})
        return result

    def evaluates(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record it as an evaluation, whatever `validation_step` does."""
        if args[0].trainer.sanity_checking:
            return original(*args, **kwargs)
        with self.mode(Mode.EVAL):
            return original(*args, **kwargs)

    def predicts(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record it as a prediction."""
        with self.mode(Mode.PREDICT):
            return original(*args, **kwargs)

    def checks(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Do not record the batches of Lightning's sanity check, which discards its results."""
        if self.silent:
            return original(*args, **kwargs)
        with self.aside():
            return original(*args, **kwargs)
