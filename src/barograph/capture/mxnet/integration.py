"""The Gluon integration: the only places where Barograph replaces MXNet functions.

Gluon has hooks for the forward pass of single Blocks, but not for backward passes or Trainers. These are wrapped:

- `gluon.Block.__call__`: inputs and outputs of a Block, including losses.
- `autograd.backward` and `NDArray.backward`: roots of a backward pass.
- `gluon.utils.clip_global_norm`: gradients before clipping.
- `gluon.Trainer._allreduce_grads` and `gluon.Trainer._update`, which `step`, `allreduce_grads` and `update` go through:
  gradients that have been brought together, and the update itself.
- `optimizer.Optimizer._get_lrs`: the learning rate that an update uses. A scheduler is not asked once more for us: it
  may be one that counts.

Each calls the original with the arguments it got and returns what it returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mxnet import autograd, gluon
from mxnet.ndarray import NDArray
from mxnet.optimizer import Optimizer

from barograph.capture.entry_point import EntryPoint
from barograph.capture.mxnet.arrays import wait_for
from barograph.capture.mxnet.losses import Losses
from barograph.capture.mxnet.names import GluonNames
from barograph.capture.mxnet.passes import Passes
from barograph.capture.mxnet.steps import Steps, StepUnderWay, updates_on_store
from barograph.capture.mxnet.trainers import TrainerBook
from barograph.capture.patches import Patches

if TYPE_CHECKING:
    from barograph.capture.integrations import Listening

Original = Callable[..., Any]


class GluonIntegration(Patches):
    """The Gluon integration of one recording.

    Args:
        recording: The recording.
    """

    def __init__(self, recording: Listening) -> None:
        super().__init__()
        self._session = recording.session
        self._entry = EntryPoint(recording.session)
        names = GluonNames()
        self._trainers = TrainerBook(recording, names)
        self._losses = Losses(self._entry)
        self._passes = Passes(self._entry, names, self._trainers, self._losses)
        self._steps = Steps(self._trainers, names)
        self._under_way: dict[int, StepUnderWay] = {}
        self._rates: dict[int, float] = {}

    def install(self) -> None:
        """Put the wrappers in."""
        self.wrap(gluon.Block, "__call__", self._passes.called)
        self.wrap(autograd, "backward", self._backward)
        self.wrap(NDArray, "backward", self._backward)
        self.wrap(gluon.utils, "clip_global_norm", self._clips)
        self.wrap(gluon.Trainer, "_allreduce_grads", self._reduces)
        self.wrap(gluon.Trainer, "_update", self._updates)
        self.wrap(Optimizer, "_get_lrs", self._rates_asked)

    def _backward(self, original: Original, args: Any, kwargs: Any) -> Any:
        """Run a backward pass, and record its roots."""
        result = original(*args, **kwargs)
        heads = args[0] if args else kwargs.get("heads")
        if heads is not None and not self._session.closed:
            with self._entry.guarded("recording a backward pass"):
                self._losses.began_backward(heads, self._live_trainers())
            self._losses.read_old()
        return result

    def _clips(self, original: Original, args: Any, kwargs: Any) -> Any:
        """Keep gradients before clipping, if their step records them."""
        if not self._session.closed:
            found: list[tuple[int, Any]] = []
            with self._entry.guarded("finding gradients to be clipped"):
                found = self._steps.found_before_clipping(args[0] if args else kwargs["arrays"])
            wait_for(array for _, array in found)
            with self._entry.guarded("copying gradients before clipping"):
                self._steps.keep(found)
        return original(*args, **kwargs)

    def _reduces(self, original: Original, args: Any, kwargs: Any) -> Any:
        """Reduce gradients; if the key-value store makes updates, that is the update."""
        trainer = args[0]
        if not self._session.closed and updates_on_store(trainer):
            self._begin(trainer)
        result = original(*args, **kwargs)
        self._steps.reduced(trainer)
        return result

    def _updates(self, original: Original, args: Any, kwargs: Any) -> Any:
        """Update weights, which ends the step."""
        trainer = args[0]
        if not self._session.closed and not updates_on_store(trainer):
            self._begin(trainer)
        step = self._under_way.pop(id(trainer), None)
        result = original(*args, **kwargs)
        if step is not None and not self._session.closed:
            self._passes.step_ends()
            step.after(self._rate(trainer))
        return result

    def _begin(self, trainer: Any) -> None:
        step = None
        with self._entry.guarded("starting a step"):
            step = self._under_way[id(trainer)] = self._steps.begin(trainer)
        if step is not None:
            self._losses.record(trainer, step.integration)
            step.before(self._steps.take_kept(trainer))

    def _rates_asked(self, original: Original, args: Any, kwargs: Any) -> Any:
        """Note the learning rate of an update, without the multipliers of single Parameters."""
        rates = original(*args, **kwargs)
        if not self._session.closed:
            with self._entry.guarded("reading a learning rate"):
                optimizer, indices = args[0], args[1] if len(args) > 1 else kwargs["indices"]
                for index, rate in zip(indices, rates, strict=False):
                    times = getattr(optimizer.param_dict.get(index), "lr_mult", 1.0)
                    if times:
                        self._rates[id(optimizer)] = float(rate) / times
                        break
        return rates

    def _rate(self, trainer: Any) -> float | None:
        return self._rates.pop(id(trainer._optimizer), None)

    def _live_trainers(self) -> list[Any]:
        return [trainer for entry in self._trainers.entries() if (trainer := entry.trainer()) is not None]
