"""Collects values of a Keras step while its function runs or is traced.

The function returns the collected values beside its own result, because under a compiler tensors have no values yet.
Tensors inside a nested loop or branch cannot be returned; their paths are reported instead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import keras
import numpy as np

from barograph.capture.keras.loss_graph import broadcast_of, least_logarithm_of
from barograph.capture.keras.loss_terms import called
from barograph.capture.keras.modes import Modes, StepModes
from barograph.capture.live_objects import free_label
from barograph.model.key import Kind

if TYPE_CHECKING:
    from barograph.capture.keras.asked import Requests
    from barograph.capture.keras.names import Names
    from barograph.capture.keras.replicas import SharedStep
    from barograph.capture.readings import Readings
    from barograph.capture.verdict import Verdict

_COMPUTED = ("x", "y", "y_pred", "sample_weight")
"""The arguments of a model's `compute_loss`, in order."""

OPTIMIZER = "the optimizer"
"""Represents the optimizer among paths of layers, if its gradients cannot leave the function."""

_OF_LAYERS = {"outputs": Kind.OUTPUT, "inputs": Kind.INPUT}

Seen = dict[str, Any]


class Reach(Protocol):
    """Decides which tensors can leave a function, for one backend."""

    def is_tensor(self, value: Any) -> bool:
        """Return whether a value is a tensor of the backend."""

    def can_leave(self, tensor: Any) -> bool:
        """Return whether a tensor can be returned by the step function that is being traced."""

    def is_known(self, tensor: Any) -> bool:
        """Return whether a tensor has its value now."""

    def is_tracing(self) -> bool:
        """Return whether a compiler is tracing the step, which happens once."""

    def dense(self, gradient: Any) -> Any:
        """Return a gradient as a dense tensor: that of an embedding may consist of rows."""

    def of_replicas(self, value: Any) -> tuple[Any, ...]:
        """Return the value in each replica; empty if it is not a per-replica value."""


class Reads(Protocol):
    """Reads tensors during the step.

    Attributes:
        readings: The readings.
    """

    readings: Readings

    def read(self, kind: Kind, path: str, tensor: Any) -> bool:
        """Read a tensor if it is due and available without waiting; return whether it need not be kept."""


class Marks(Protocol):
    """Marks tensors of a step while it is traced."""

    def mark(self, kind: Kind, path: str, value: Any) -> None:
        """Mark all tensors in a value."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The additional results requested from a step function.

    Attributes:
        gradients: Gradients before the optimizer uses them.
        outputs: Paths of layers whose output is requested.
        inputs: Paths of layers whose input is requested.
        data: Arguments of the loss.
        modes: Modes in which models are called.
        fed: Unchanged inputs of the step, which are recorded if the loss is out of range.
        gate: Withhold the update if the gradients are not acceptable, and return the reasons.
        norm_above: Norm of all gradients above which it is withheld, too.
        asked: Statistics of gradients, inputs and outputs that a compiled step can return instead of the tensors; None:
            it returns the tensors.
    """

    gradients: bool = False
    outputs: frozenset[str] = frozenset()
    inputs: frozenset[str] = frozenset()
    data: bool = False
    modes: bool = False
    fed: bool = False
    gate: bool = False
    norm_above: float | None = None
    asked: Requests | None = None


class Collector:
    """The values collected in one call of a step function.

    Args:
        names: Names of the model.
        wanted: Requested results.
        reach: Access to the backend.
        shared: See below.
        reads: Reads gradients, inputs and outputs as soon as they exist; None: all are kept.

    Attributes:
        reach: See above.
        seen: By name: "loss", "penalty" (Keras's additions from weights and layers), "learning_rate", "finite",
            "broadcast", "least_logarithm", and the groups "gradients", "outputs", "inputs", "data", "fed", except those
            already "read", or returned by the step as "statistics". With a gate also "withheld", "norms", "scale" (of a
            scaled loss), and the groups "given" (unchanged gradients), "batch" and "before" (non-trainable variables).
            For a loss with one number per sample, "samples" is their number.
        lost: Paths of layers whose tensors cannot leave; `OPTIMIZER`, if gradients cannot.
        optimizer: The first optimizer that used gradients.
        loss_is_of_tape: The loss is the target of a tape, and may be scaled.
        of_tape: Variables that a tape was called with, with their gradients.
        verdict: Why the update is withheld, if the step itself cannot report the reason.
        shared: For a replica, the shared step; None: this is the whole step.
        marks: Marks gradients, inputs and outputs while the step is traced, instead of keeping them; None: they are
            kept.
        failed: Error of rebuilding a step with statistics; None: no error.
        finite: Whether all gradients are finite, with a gate; None: not checked.
        skipped: Whether a loss scaler skips the step itself; None: there is no scaler.
        paths: Paths of the variables whose gradients a gate checks, in order.
        applying: An optimizer is using gradients: its nested calls are ignored.
        modes: Modes in which the trained models were called; None: not requested, or unknown.
        of_loop: The step belongs to a custom loop.
        losses: For a custom loop, the called Keras losses by their names in "data".
        alone: Name of the loss whose value is the loss of the step, with nothing added; "": none.
    """

    def __init__(self, names: Names, wanted: Wanted, reach: Reach, shared: SharedStep | None = None,
                 reads: Reads | None = None) -> None:
        self.names = names
        self.wanted = wanted
        self.reach = reach
        self._reads = reads
        self.seen: Seen = {} if reads is None else {"read": reads.readings}
        self.lost: set[str] = set()
        self.optimizer: Any = None
        self.loss_is_of_tape = False
        self.of_tape: list[tuple[Any, Any]] = []
        self._depth = 0
        self.verdict: Verdict | None = None
        self.shared = shared
        self.marks: Marks | None = None
        self.failed: Exception | None = None
        self.finite: Any = None
        self.skipped: Any = None
        self.applying = False
        self.paths: list[str] = []
        self.modes: Modes | None = None
        self._modes_seen = StepModes()
        self._moved: list[Any] = []
        self.losses: dict[str, Any] = {}
        self.alone = ""
        self._returned: dict[str, Any] = {}
        self.of_loop = False

    @contextmanager
    def listening_to(self, model: Any) -> Iterator[None]:
        """Collect the loss that a model computes, within a `with` block."""
        own = vars(model)
        wrapper = own.get("compute_loss")
        if not isinstance(wrapper, _LossWrapper):
            # In the instance, so that the step finds ours first, whichever class defines the method.
            own["compute_loss"] = wrapper = _LossWrapper(model, wrapper)
        wrapper.collectors[threading.get_ident()] = self
        try:
            yield
        finally:
            del wrapper.collectors[threading.get_ident()]
            if not wrapper.collectors:
                if wrapper.before is None:
                    del own["compute_loss"]
                else:
                    own["compute_loss"] = wrapper.before

    @contextmanager
    def using_gradients(self) -> Iterator[None]:
        """Ignore nested calls of an optimizer, within a `with` block."""
        self.applying = True
        try:
            yield
        finally:
            self.applying = False

    @contextmanager
    def within(self, reach: Reach) -> Iterator[Seen]:
        """Collect values of a nested trace separately, within a `with` block."""
        outer, self.reach = self.reach, reach
        seen, self.seen = self.seen, {}
        try:
            yield self.seen
        finally:
            self.seen, self.reach = seen, outer

    def gradient_asked(self, target: Any, sources: Any, gradients: Any) -> None:
        """Collect the target of a tape, if the model did not compute a loss, and the sources."""
        if "loss" not in self.seen and self._leaves(target):
            self.seen["loss"] = keras.ops.mean(target)
            self.loss_is_of_tape = True
            self.alone = next((name for name, value in self._returned.items() if value is target), "")
            self._look_behind(target)
            if self.shared is not None and len(target.shape):
                self.seen["samples"] = keras.ops.size(target)
        self.of_tape = list(zip(keras.tree.flatten(sources), keras.tree.flatten(gradients), strict=False))

    def layer_begins(self, layer: Any, kwargs: Mapping[str, Any]) -> None:
        """Note the start of a call of a layer, which may be a model."""
        self._depth += 1
        if self.wanted.modes:
            self._modes_seen.called(layer, kwargs, within=self._depth > 1)
        if self._depth == 1:
            self.names.called(layer)
            if self.wanted.gate and "before" not in self.seen:
                before = {path: keras.ops.copy(variable.value) for path, variable in self.names.untrained.items()}
                self.seen["before"] = {path: value for path, value in before.items() if self._leaves(value)}

    def layer_ends(self) -> None:
        """Note the end of a layer's call."""
        self._depth -= 1

    def begin(self, data: Any, before: Mapping[str, Any]) -> None:
        """Collect the inputs of the step, if it may have to be saved.

        Args:
            data: Data that Keras passes to the step.
            before: Variables that a forward pass changes, with their current values.
        """
        if self.wanted.fed:
            self._take("fed", "x", keras.utils.unpack_x_y_sample_weight(data)[0], "")
        if self.wanted.gate:
            for name, part in zip(("x", "y", "sample_weight"), keras.utils.unpack_x_y_sample_weight(data), strict=True):
                self._take("batch", name, part, "")
            self.seen["before"] = {path: keras.ops.copy(value) for path, value in before.items()}

    def begin_loop(self, arguments: Any) -> None:
        """Collect the inputs of a custom loop's step: its arguments are its batch."""
        self.of_loop = True
        if self.wanted.gate:
            # In an eager step, NumPy arrays are unchanged since the call.
            self._take("batch", "batch", keras.tree.map_structure(_as_tensor, arguments), "")

    def end_loop(self) -> None:
        """Collect gradients of a tape that no Keras optimizer got."""
        if self.optimizer is None and self.wanted.gradients and self.of_tape:
            dense = [(variable, self.reach.dense(gradient)) for variable, gradient in self.of_tape
                     if gradient is not None]
            known = [(variable, gradient) for variable, gradient in dense if self._leaves(gradient)]
            self.seen["gradients"] = {self.names.path(variable): gradient for variable, gradient in known}
            self.names.trainable.update({self.names.path(variable): variable for variable, _ in known})

    def applied(self, optimizer: Any, gradients: Any, variables: Any) -> Any:
        """Collect gradients before an optimizer uses them; its variables have their current values.

        Args:
            optimizer: The optimizer.
            gradients: Gradients in the order of the variables; None: the variable has none.
            variables: Variables of the model.

        Returns:
            Whether they may be used, as a tensor; None: no gate, or all replicas of the step decide together.
        """
        self.names.called(None)
        self.optimizer = self.optimizer or optimizer
        if self.wanted.modes:
            self._moved += [variable for variable, gradient in zip(variables, gradients, strict=False)
                            if gradient is not None]
            self.modes = self._modes_seen.of_trained(self._moved, self.names.layers)
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        rate = keras.ops.cast(keras.ops.convert_to_tensor(inner.learning_rate), "float32")
        if not self._leaves(rate):
            # A computation here would belong to an inner graph.
            self.lost.add(OPTIMIZER)
            return None
        self.seen["learning_rate"] = rate
        known = [(variable, self.reach.dense(gradient))
                 for variable, gradient in zip(variables, gradients, strict=False) if gradient is not None]
        if inner is not optimizer:
            self.seen["finite"] = all_finite([gradient for _, gradient in known])
        scale = optimizer.dynamic_scale if inner is not optimizer else optimizer.loss_scale_factor
        if self.loss_is_of_tape and scale is not None:
            self.seen["loss"] = self.seen["loss"] / keras.ops.cast(scale, self.seen["loss"].dtype)
            self.loss_is_of_tape = False
        fits = self._fits(known, scale, skips=inner is not optimizer) if self.wanted.gate else None
        if not self.wanted.gradients:
            return fits
        accumulated = _accumulated(inner, [variable for variable, _ in known])
        found = self.seen.setdefault("gradients", {})
        for number, (variable, given) in enumerate(known):
            gradient = given
            if scale is not None:
                gradient = gradient / keras.ops.cast(scale, gradient.dtype)
            if accumulated:
                gradient = (gradient + accumulated[number]) / inner.gradient_accumulation_steps
            path = self.names.path(variable)
            if self.marks is not None:
                self.marks.mark(Kind.GRADIENT, path, gradient)
            elif not self._is_read(Kind.GRADIENT, path, gradient):
                found[path] = gradient
        return fits

    def _fits(self, known: list[tuple[Any, Any]], scale: Any, *, skips: bool) -> Any:
        """Return whether gradients are acceptable, and keep the reason if not."""
        ops = keras.ops
        # They leave the step unchanged, because a saved step records their bits.
        given = {self.names.path(variable): gradient for variable, gradient in known}
        self.seen["given"] = given
        self.paths = list(given)
        gradients = [ops.cast(gradient, "float32") for gradient in given.values()]
        finite = self.finite = all_finite(gradients)
        if skips:
            # The scaler itself skips such a step, which is normal while its scale can be the reason.
            self.skipped = ops.logical_and(ops.logical_not(finite), ops.cast(scale, "float32") > 1.0)
        if scale is not None and self.shared is not None:
            self.seen["scale"] = ops.cast(scale, "float32")
        if self.shared is not None:
            return None
        norms = norms_of(gradients, scale)
        fits = finite
        if self.wanted.norm_above is not None:
            fits = ops.logical_and(fits, ops.sqrt(ops.sum(ops.square(norms))) <= self.wanted.norm_above)
        if "loss" in self.seen:
            fits = ops.logical_and(fits, ops.isfinite(self.seen["loss"]))
        if skips:
            fits = ops.logical_or(fits, self.skipped)
        self.seen["norms"] = norms
        self.seen["withheld"] = ops.logical_not(fits)
        return fits

    def evaluated(self, model: Any) -> None:
        """Note in which mode an evaluation called a model."""
        if self.wanted.modes:
            self.modes = self._modes_seen.of_trained(model.trainable_variables, self.names.layers)

    def layer_called(self, layer: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        """Collect the inputs and the output of a layer."""
        if self.of_loop and self.wanted.data and not self._depth and "x" not in self.seen.get("data", {}):
            # The model itself, the first that the step calls.
            self._take("data", "x", args[0] if len(args) == 1 else args, "")
        path = self.names.layers.get(id(layer))
        if path is None:
            return
        if path in self.wanted.outputs:
            self._take_of_layer("outputs", path, result)
        if path in self.wanted.inputs:
            self._take_of_layer("inputs", path, args[0] if len(args) == 1 else args)

    def _take_of_layer(self, group: str, path: str, value: Any) -> None:
        if self.marks is not None:
            self.marks.mark(_OF_LAYERS[group], path, value)
        else:
            self._take(group, path, value, "")

    def loss_called(self, loss: Any, target: Any, predictions: Any, result: Any) -> None:
        """Collect the arguments of a Keras loss in a custom loop."""
        if not self.of_loop:
            return
        name = free_label(called(loss), self._returned)
        self._returned[name] = result
        if not self.wanted.data:
            return
        data = {f"y[{name}]": _as_tensor(target), f"y_pred[{name}]": _as_tensor(predictions)}
        if all(map(self._leaves, data.values())):
            self.losses[name] = loss
            self.seen.setdefault("data", {}).update({path: [value] for path, value in data.items()})
        elif all(map(self.reach.is_tensor, data.values())):
            self.lost.add(name)

    def _take(self, group: str, path: str, value: Any, item: str) -> None:
        if group in _OF_LAYERS and self._is_read(_OF_LAYERS[group], path + item, value):
            return
        if isinstance(value, list | tuple):
            for number, part in enumerate(value):
                self._take(group, path, part, f"{item}[{number}]")
        elif isinstance(value, dict):
            for name, part in value.items():
                self._take(group, path, part, f"{item}[{name}]")
        elif isinstance(value, np.ndarray):
            # With torch, `train_on_batch` passes the script's data to the step unchanged.
            tensor = _as_tensor(value)
            if tensor is not value:
                self._take(group, path, tensor, item)
        elif parts := self.reach.of_replicas(value):
            for part in parts:
                self._take(group, path, part, item)
        elif self.reach.is_tensor(value):
            if self.reach.can_leave(value):
                # A layer may be called several times in one step.
                self.seen.setdefault(group, {}).setdefault(path + item, []).append(value)
            else:
                self.lost.add(path)

    def loss_computed(self, loss: Any, model: Any, arguments: Mapping[str, Any]) -> None:
        """Collect a model's loss, its arguments, and the part that is a penalty."""
        if not self._leaves(loss):
            return
        self.seen["loss"] = keras.ops.mean(loss)
        self._look_behind(loss)
        if self.wanted.data:
            for name in _COMPUTED:
                if arguments.get(name) is not None:
                    self._take("data", name, arguments[name], "")
            penalties = [keras.ops.sum(keras.ops.cast(item, "float32")) for item in model.losses]
            if penalties:
                self.seen["penalty"] = keras.ops.sum(keras.ops.stack(penalties))

    def _look_behind(self, loss: Any) -> None:
        """Collect facts from the graph of a loss."""
        for name, found in (("broadcast", broadcast_of(loss) if self.wanted.data and self.loss_is_of_tape else None),
                            ("least_logarithm", least_logarithm_of(loss))):
            if found is not None:
                self.seen[name] = found

    def _is_read(self, kind: Kind, path: str, tensor: Any) -> bool:
        return self._reads is not None and self._reads.read(kind, path, tensor)

    def _leaves(self, value: Any) -> bool:
        return self.reach.is_tensor(value) and self.reach.can_leave(value)


class _LossWrapper:
    """Wraps a model's `compute_loss`; replicas of a step each have a thread.

    Args:
        model: The model.
        before: The script's own attribute of the instance; None: none.

    Attributes:
        before: See above.
        collectors: Collectors by thread.
    """

    def __init__(self, model: Any, before: Any) -> None:
        self._model = model
        self._compute = model.compute_loss
        self.before = before
        self.collectors: dict[int, Collector] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        loss = self._compute(*args, **kwargs)
        collector = self.collectors.get(threading.get_ident())
        if collector is not None:
            collector.loss_computed(loss, self._model, {**dict(zip(_COMPUTED, args, strict=False)), **kwargs})
        return loss


def _as_tensor(value: Any) -> Any:
    is_array = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    return keras.ops.convert_to_tensor(value) if is_array else value


def norms_of(gradients: list[Any], scale: Any) -> Any:
    """Return the norms, as one tensor of the backend; `scale`: scale of their loss, or None."""
    ops = keras.ops
    norms = ops.stack([ops.sqrt(ops.sum(ops.square(gradient))) for gradient in gradients])
    return norms if scale is None else norms / ops.cast(scale, "float32")


def all_finite(gradients: list[Any]) -> Any:
    """Return whether all elements are finite, as a tensor of the backend."""
    if not gradients:
        return keras.ops.convert_to_tensor(True)
    return keras.ops.all(keras.ops.stack([keras.ops.all(keras.ops.isfinite(item)) for item in gradients]))


def _accumulated(optimizer: Any, variables: list[Any]) -> list[Any]:
    """Return an optimizer's accumulated gradients of earlier micro-batches by variable; empty without accumulation."""
    if not getattr(optimizer, "gradient_accumulation_steps", None):
        return []
    return [optimizer._accumulated_gradients[optimizer._get_variable_index(variable)] for variable in variables]
