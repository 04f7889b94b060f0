"""Records fastai trainings: its optimizers are not torch optimizers, so their steps are reported here.

They show their parameter groups and their state as torch's do, and a loop that wraps one of torch's calls that.
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
from barograph.capture.integrations import say_missing
from barograph.capture.torch.inner_optimizer import inner_optimizer
from barograph.capture.torch.loader_pass import Dealt
from barograph.capture.trainers.loop import TrainerLoop

if TYPE_CHECKING:
    from barograph.capture.recording import Recording

_HALF = "fastai.callback.fp16"


def listen(recording: Recording) -> None:
    """Have every training of fastai in this process told to the recording."""
    session = recording.session
    if say_missing(session, optimizer, {"Optimizer.step": "steps", "Optimizer.param_groups": "parameters"}) or \
            say_missing(session, learner, {"Recorder.after_epoch": "logged metrics"}):
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
        """Have a step recorded as one of torch's."""
        integration = self._torch.torch
        if integration is None or self.silent:
            return original(*args, **kwargs)
        return integration.step_of_another(args[0], lambda: original(*args, **kwargs))

    def follow(self, recording: Recording) -> None:
        """Have the data trace know what loaders of fastai give: each is a stream to torch."""
        if recording.torch is not None and not say_missing(self._session, load, {
                "_FakeLoader": "the samples of each step", "DataLoader.do_item": "the samples of each step"}):
            recording.torch.feeding.dealt_by(self._dealt)
            self.wrap(load.DataLoader, "do_item", self.item_read)

    def item_read(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Let go of what is known of a pass where a sample is passed over: those that follow are others than drawn."""
        item = original(*args, **kwargs)
        if item is None and (indices := self._orders.get(args[0])):
            indices.clear()
        return item

    def _dealt(self, dataset: Any) -> Dealt | None:
        """Return what a loader of fastai has drawn for the pass that begins; None where that is none, or a stream's."""
        loader = dataset.d if isinstance(dataset, load._FakeLoader) else None
        # fastai draws once a pass, before torch's loader begins, and keeps it under this name.
        indices = getattr(loader, "_DataLoader__idxs", None)
        if loader is None or not loader.indexed or not isinstance(indices, Sized):
            return None  # of data without an end, too
        order = self._orders[loader] = list(cast("Sequence[int]", indices))
        return Dealt(loader.dataset, order, loader.bs or 1, _names(loader.dataset))

    def half_comes(self) -> None:
        """Listen to mixed precision as well, once it has been imported."""
        module = sys.modules[_HALF]
        if self.silent or say_missing(self._session, module, {
                "MixedPrecision.before_step": "mixed precision", "MixedPrecision.step": "mixed precision"}):
            return
        self.wrap(module.MixedPrecision, "before_step", self.scaled)
        self.wrap(module.MixedPrecision, "step", self.let_through)

    def scaled(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Have the scaler's word on a step be of the optimizer: it is asked in the name of the callback."""
        integration = self._torch.torch
        if integration is None or self.silent:
            return original(*args, **kwargs)
        with integration.stepping.standing_in(args[0], inner_optimizer(args[0].opt)):
            return original(*args, **kwargs)

    def let_through(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Note that the scaler does not skip the step: it is made after that."""
        integration = self._torch.torch
        if integration is not None and not self.silent:
            integration.stepping.stand_in_steps(args[0])
        return original(*args, **kwargs)

    def remove(self) -> None:
        """Put everything back, and wait for nothing more."""
        forget(self.half_comes)
        super().remove()

    def epoch_ends(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record what fastai shows of an epoch: mean losses, and metrics of its evaluation."""
        result = original(*args, **kwargs)
        self.log(lambda: dict(_shown(args[0])))
        return result


def _shown(recorder: Any) -> Iterator[tuple[str, Any]]:
    # The time of an epoch is a text, and none of the metrics.
    return ((name, value) for name, value in zip(recorder.metric_names, recorder.log, strict=False)
            if not isinstance(value, str))


def _names(data: Any) -> Callable[[int], object] | None:
    """Return what names samples that are read from files: the items that fastai's data are made of."""
    items = getattr(data, "items", None)
    if not isinstance(items, Sized) or not len(items) or not isinstance(cast("Sequence[Any]", items)[0], Path):
        return None
    return lambda index: items[index]  # type: ignore[index]
