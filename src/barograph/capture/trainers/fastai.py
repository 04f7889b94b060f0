"""Records fastai trainings: its optimizers are not PyTorch's, so their steps are reported here.

Their parameter groups and state have PyTorch's format, and a fastai optimizer that wraps one of PyTorch's calls it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fastai import learner, optimizer
from fastai.data import load

from barograph.capture.imports import after_import, forget
from barograph.capture.integrations import report_missing
from barograph.capture.torch.inner_optimizer import inner_optimizer
from barograph.capture.torch.loader_pass import Dealt
from barograph.capture.trainers.loop import TrainerLoop

if TYPE_CHECKING:
    from barograph.capture.recording import Recording

_HALF = "fastai.callback.fp16"


def listen(recording: Recording) -> None:
    """Record every training of fastai in this process."""
    session = recording.session
    if report_missing(session, optimizer, {"Optimizer.step": "steps", "Optimizer.param_groups": "parameters"}) or \
            report_missing(session, learner, {"Recorder.after_epoch": "logged metrics"}):
        return
    loop = _Listener(recording)
    recording.add_integration(loop)
    loop.wrap(optimizer.Optimizer, "step", loop.steps)
    loop.wrap(learner.Recorder, "after_epoch", loop.epoch_ends)
    after_import(_HALF, loop.half_comes)
    loop.follow(recording)


class _Listener(TrainerLoop):
    """Receives calls of fastai."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording, "fastai")
        self._torch = recording
        self._orders: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()

    def steps(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record a step like one of PyTorch's."""
        integration = self._torch.torch
        if integration is None or self.silent:
            return original(*args, **kwargs)
        return integration.step_of_another(args[0], lambda: original(*args, **kwargs))

    def follow(self, recording: Recording) -> None:
        """Trace the data of fastai's loaders: each is a stream for PyTorch."""
        if recording.torch is not None and not report_missing(self._session, load, {
                "_FakeLoader": "the samples of each step", "DataLoader.do_item": "the samples of each step"}):
            recording.torch.feeding.dealt_by(self._dealt)
            self.wrap(load.DataLoader, "do_item", self.item_read)

    def item_read(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Forget the order of a pass when a sample is skipped: the following ones differ from the drawn ones."""
        item = original(*args, **kwargs)
        if item is None and (indices := self._orders.get(args[0])):
            indices.clear()
        return item

    def _dealt(self, dataset: Any) -> Dealt | None:
        """Return what a loader of fastai drew for the pass that starts; None for other loaders and for streams."""
        loader = dataset.d if isinstance(dataset, load._FakeLoader) else None
        # fastai draws once per pass, before PyTorch's loader starts, and stores it in this attribute.
        indices = getattr(loader, "_DataLoader__idxs", None)
        if loader is None or not loader.indexed or not isinstance(indices, Sized):
            return None  # also for infinite data
        order = self._orders[loader] = list(cast("Sequence[int]", indices))
        return Dealt(loader.dataset, order, loader.bs or 1, _names(loader.dataset))

    def half_comes(self) -> None:
        """Wrap mixed precision as well, once it is imported."""
        module = sys.modules[_HALF]
        if self.silent or report_missing(self._session, module, {
                "MixedPrecision.before_step": "mixed precision", "MixedPrecision.step": "mixed precision"}):
            return
        self.wrap(module.MixedPrecision, "before_step", self.scaled)
        self.wrap(module.MixedPrecision, "step", self.let_through)

    def scaled(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Attribute the scaler's calls to the optimizer: fastai calls it with the callback instead."""
        integration = self._torch.torch
        if integration is None or self.silent:
            return original(*args, **kwargs)
        with integration.stepping.standing_in(args[0], inner_optimizer(args[0].opt)):
            return original(*args, **kwargs)

    def let_through(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Note that the scaler does not skip the step, which is made afterwards."""
        integration = self._torch.torch
        if integration is not None and not self.silent:
            integration.stepping.stand_in_steps(args[0])
        return original(*args, **kwargs)

    def remove(self) -> None:
        """Remove all wrappers and pending import hooks."""
        forget(self.half_comes)
        super().remove()

    def epoch_ends(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record what fastai displays per epoch: mean losses, and metrics of its evaluation."""
        result = original(*args, **kwargs)
        self.log(lambda: dict(_shown(args[0])))
        return result


def _shown(recorder: Any) -> Iterator[tuple[str, Any]]:
    # The time of an epoch is a string, not a metric.
    return ((name, value) for name, value in zip(recorder.metric_names, recorder.log, strict=False)
            if not isinstance(value, str))


def _names(data: Any) -> Callable[[int], object] | None:
    """Return a function that names samples read from files: fastai's items."""
    items = getattr(data, "items", None)
    if not isinstance(items, Sized) or not len(items) or not isinstance(cast("Sequence[Any]", items)[0], Path):
        return None
    return lambda index: items[index]  # type: ignore[index]
