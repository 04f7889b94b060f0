"""Records calls of Blocks (outputs, inputs, batches), and evaluations, which are passes without gradients.

A Block that calls no other Block is recorded: the leaves of a model, or a hybridized Block as a whole, since its
compiled program does not call the Blocks in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mxnet import autograd
from mxnet.gluon import nn
from mxnet.gluon.loss import Loss

from barograph.capture.entry_point import EntryPoint
from barograph.capture.mxnet.arrays import array_of, arrays_in, is_traced, wait_for
from barograph.capture.mxnet.losses import Losses, has_predictions
from barograph.capture.mxnet.names import GluonNames, Place, unit_axis
from barograph.capture.mxnet.trainers import Entry, TrainerBook
from barograph.model.facts import Fact
from barograph.model.key import Kind

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration


class _Call:
    """A current call of a Block.

    Attributes:
        integration: Records its output; None: not recorded.
        inner: The Block has called another.
    """

    __slots__ = ("inner", "integration")

    def __init__(self, integration: ArrayIntegration | None) -> None:
        self.integration = integration
        self.inner = False


class _Here(threading.local):
    """The state of one thread."""

    call: _Call | None = None
    in_loss = False


class Passes:
    """The forward passes of all models.

    Args:
        entry: Entry point of the integration.
        names: Names of the models.
        trainers: Trainers of the script.
        losses: Losses of the current step.
    """

    def __init__(self, entry: EntryPoint, names: GluonNames, trainers: TrainerBook, losses: Losses) -> None:
        self._entry = entry
        self._session = entry.session
        self._names = names
        self._trainers = trainers
        self._losses = losses
        self._here = _Here()
        self._in_step = False

    def step_ends(self) -> None:
        """Note a Trainer's step: calls without gradients from here on are an evaluation."""
        self._in_step = False

    def called(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a Block, and record its inputs and outputs if due."""
        block, here = args[0], self._here
        if self._session.closed or is_traced(args):
            return original(*args, **kwargs)
        if isinstance(block, Loss):
            return self._loss_called(original, args, kwargs)
        outer = here.call
        if outer is None:
            call = self._begin(block, args)
        else:
            outer.inner = True
            if outer.integration is None:
                return original(*args, **kwargs)
            call = _Call(outer.integration)
        here.call = call
        try:
            result = original(*args, **kwargs)
        finally:
            here.call = outer
        if call.integration is not None and not call.inner:
            self._take(call.integration, block, args, result)
        return result

    def _begin(self, block: Any, args: Any) -> _Call:
        """Start a pass called by the script itself: a model, or a part of one."""
        entry = None
        with self._entry.guarded("starting a forward pass"):
            entry = self._belongs_to(block)
        if entry is None:
            return _Call(None)
        integration = entry.integration
        if integration.due(Kind.BATCH):
            self._take_batch(integration, block, args)
        return _Call(integration if integration.due(Kind.OUTPUT, Kind.INPUT) else None)

    def _belongs_to(self, block: Any) -> Entry | None:
        """Return the Trainer whose step or evaluation a pass belongs to; None: none."""
        entry = self._trainers.of_block(block)
        if entry is None:
            return None
        integration = entry.integration
        if autograd.is_recording():
            self._in_step = True
            for other in self._trainers.entries():
                other.integration.end_evaluation()
            in_eval = float(not autograd.is_training())
            integration.fact(Fact.MODEL_IN_EVAL, in_eval)
            self._record_mode(integration, block, Fact.LAYERS_IN_EVAL, in_eval)
        elif self._in_step or self._trainers.alone() is not entry:
            # Within a step, such as a target computed without gradients; or with adversarial models, one of which calls
            # another.
            return None
        else:
            if not integration.evaluating:
                integration.begin_evaluation()
            self._record_mode(integration, block, Fact.LAYERS_IN_TRAIN, float(autograd.is_training()))
        return entry

    def _record_mode(self, integration: ArrayIntegration, block: Any, name: Fact, share: float) -> None:
        """Record how many mode-dependent Blocks are in a mode: in MXNet all have the mode of the pass."""
        if integration.taking(Kind.FACT, name.value) is not None:
            place = self._names.place(block)
            if place is not None and self._names.minds_mode(place.root):
                integration.fact(name, share)

    def _loss_called(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a loss; nested losses are part of it."""
        here = self._here
        if here.in_loss:
            return original(*args, **kwargs)
        here.in_loss = True
        try:
            result = original(*args, **kwargs)
        finally:
            here.in_loss = False
        if [item for item, _ in arrays_in(result)] == [""]:
            self._take_loss(args, result)
        return result

    def _take_loss(self, args: Any, loss: Any) -> None:
        entry, counts = self._trainers.alone(), has_predictions(args[0], args)
        if autograd.is_recording():
            self._losses.read_old()
            with self._entry.guarded("reading a loss"):
                keeps = counts and entry is not None and entry.integration.due(Kind.LABEL, Kind.CONFUSION)
                self._losses.made(args[0], args, loss, keeps_predictions=keeps)
        elif entry is not None and entry.integration.evaluating:
            self._losses.record_evaluated(entry.integration, args[0], args if counts else (), loss)

    def _take_batch(self, integration: ArrayIntegration, block: Any, args: Any) -> None:
        found: dict[str, Any] = {}
        with integration.guarded("reading a batch"):
            place = self._names.place(block)
            name = (place.root.label if place is not None else "") or "model"
            found = {name + item: array for item, array in arrays_in(args[1] if len(args) == 2 else args[1:])}
        wait_for(found.values())
        integration.take(Kind.BATCH, {path: _lazily(array) for path, array in found.items()})

    def _take(self, integration: ArrayIntegration, block: Any, args: Any, result: Any) -> None:
        """Record the inputs and outputs of a Block if due."""
        place = None
        with integration.guarded("naming a Block"):
            place = self._place(block)
        if place is None:
            return
        path, inputs = place.path or "model", args[1] if len(args) == 2 else args[1:]
        for kind, value in ((Kind.OUTPUT, result), (Kind.INPUT, inputs)):
            wanted: dict[str, Any] = {}
            with integration.guarded("reading a Block"):
                wanted = {path + item: array for item, array in arrays_in(value)
                          if integration.taking(kind, path + item, place.layer) is not None}
            wait_for(wanted.values())
            self._record(integration, kind, wanted, place, block)

    def _record(
        self, integration: ArrayIntegration, kind: Kind, arrays: Mapping[str, Any], place: Place, block: Any
    ) -> None:
        layers = dict.fromkeys(arrays, place.layer)
        for name, array in arrays.items():
            integration.take(kind, {name: _lazily(array)}, layers=layers, unit_axis=unit_axis(block, array.ndim))

    def _place(self, block: Any) -> Place | None:
        place = self._names.place(block)
        if place is None:
            entry = self._trainers.of_block(block)
            if entry is not None:
                self._names.rescan()
                place = self._names.place(block)
        if place is not None and not place.leaf and _hides_blocks(block):
            self._session.seen.reasons["hybridized"] = (
                "Blocks inside a hybridized Block: the compiled program calls none of them, so its output is "
                "recorded instead (without hybridize() each is); weights, gradients and the loss are recorded")
        return place


def _hides_blocks(block: Any) -> bool:
    """Return whether a Block contains more than its final activation."""
    return any(not isinstance(child, nn.Activation) for child in block._children.values())


def _lazily(array: Any) -> Callable[[], Any]:
    return lambda: array_of(array)
