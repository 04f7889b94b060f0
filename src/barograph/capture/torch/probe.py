"""Collects the probe of a PyTorch evaluation from the forward passes that the script makes anyway."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from barograph.capture.buffer import StepBuffer
from barograph.capture.probe import Probe, ProbePass, ProbeRows
from barograph.capture.torch.digests import sample_sums
from barograph.capture.torch.entry_point import HookState, entry_point
from barograph.capture.torch.loss_arguments import LossArguments, loss_arguments
from barograph.capture.torch.names import ModelNames, Root, is_compiled, unwrapped
from barograph.capture.torch.per_sample import SampleResults, results_of_loss, results_of_output
from barograph.capture.torch.probe_given import GivenSamples, given_samples
from barograph.capture.torch.random import random_states
from barograph.capture.torch.saliency import Saliency
from barograph.capture.torch.values import tensors_in
from barograph.measures.digests import digests_from_sums
from barograph.model.probe import LAST_INPUT, MODEL_OUTPUT, ProbeSettings
from barograph.model.step import Mode

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NAME = "probe"
_MOST_FEATURES = 2048
_ROWS_AT_ONCE = 64
"""Samples whose digests are computed together: of more, only some would be read."""
_NO_INPUTS = frozenset({"[labels]", "[label]", "[targets]", "[target]"})


@dataclass(slots=True)
class _Batch:
    """One call of the model in an evaluation.

    Attributes:
        samples: Pass that collects it.
        rows: Number of samples of the call.
        inputs: The first input tensor; None: not known before the call ends.
        chosen: Rows that belong to the probe; None: not known before the call ends.
        digests: Digests of all rows.
        layer: Name of the recorded layer; "": it has not been called.
        outputs: Outputs of the layer for all rows, a row each.
        loss: Name and arguments of a loss function that the model itself called, until its call ends.
        results: Targets, predictions and losses of the chosen rows.
        maps: Saliency maps by method, and their rows among the chosen ones.
    """

    samples: ProbePass
    rows: int = 0
    inputs: torch.Tensor | None = None
    chosen: NDArray[np.intp] | None = None
    digests: NDArray[np.int64] | None = None
    layer: str = ""
    outputs: torch.Tensor | None = None
    loss: tuple[str, LossArguments] | None = None
    results: SampleResults | None = None
    maps: Mapping[str, NDArray[Any]] | None = None
    map_rows: NDArray[np.intp] | None = None


class TorchProbe:
    """Stores a layer's outputs for a fixed set of samples at each evaluation.

    Args:
        hooks: State shared by the hooks.
        names: The models.
        settings: Which samples and which layer; None: nothing is stored until `observe`.

    Attributes:
        hooks: See above.
        on: Something is stored.
        looks_inside: The forward pass that runs needs hooks on all modules.
    """

    def __init__(self, hooks: HookState, names: ModelNames, settings: ProbeSettings | None) -> None:
        self.hooks = hooks
        self.on = self.looks_inside = False
        self._names = names
        self._given: GivenSamples | None = None
        self._model: weakref.ref[nn.Module] | None = None
        self._layer: weakref.ref[nn.Module] | None = None
        self._batch: _Batch | None = None
        self._candidate: weakref.ref[nn.Module] | None = None
        self._settings = settings or ProbeSettings()
        if settings is not None:
            self.observe(settings, None)

    def observe(self, settings: ProbeSettings, given: Any) -> None:
        """Store outputs of a layer from now on.

        Args:
            settings: Which samples and which layer.
            given: Samples of the script, with a forward pass of their own at each evaluation; None: those of the
                evaluation data.

        Raises:
            SettingsError: `given` holds no samples.
        """
        self.hooks.place.begin_own_work()
        try:
            self._given = None if given is None else given_samples(given, settings.samples)
        finally:
            self.hooks.place.end_own_work()
        if self.on and settings == self._settings:
            return
        self.on = True
        self._settings = settings
        self._probe = Probe(settings)
        self._saliency = Saliency(settings) if settings.saliency else None

    # Forward passes of an evaluation

    def begins(self, module: nn.Module, root: Root, args: Any, buffer: StepBuffer) -> None:
        """Note that a model is called in an evaluation; runs within an entry point."""
        self._finish()
        known = self._model() if self._model is not None else None
        if known is not None and known is not module:
            return  # another model
        collected = buffer.gathered.get(_NAME)
        if collected is None:
            collected = buffer.gathered[_NAME] = ProbePass(self._probe)
        assert isinstance(collected, ProbePass)
        if self._given is not None:
            if not collected.begun:
                self._call_given(module, collected)
            return
        if collected.full:
            return
        batch = _Batch(collected)
        if args:
            self._identify(batch, args)
            if batch.chosen is not None and not len(batch.chosen):
                return
        self._batch = batch
        self.looks_inside = not (is_compiled(module) or is_compiled(unwrapped(module)))

    def _identify(self, batch: _Batch, inputs: Any) -> None:
        """Find the rows of a call that belong to the probe."""
        tensors = {item: tensor for item, tensor in tensors_in(inputs) if item not in _NO_INPUTS}
        first = next((tensor for tensor in tensors.values() if tensor.dim() and not tensor.is_nested), None)
        batch.chosen = np.empty(0, np.intp)
        if first is None:
            return
        batch.rows = first.shape[0]
        digests = _digests(list(tensors.values()), batch.rows)
        if digests is None:
            self._say("samples", "probe: the inputs of the model are no plain tensors, so its samples were not found")
            return
        batch.digests = digests
        batch.chosen = batch.samples.wanted(batch.digests)
        if len(batch.chosen):
            # The model may change its inputs in place.
            batch.inputs = _rows_of(first, batch.chosen)

    @entry_point("reading the probe's layer")
    def module_ended(self, module: nn.Module, args: Any, output: Any) -> None:
        """Note that a module within the model has returned."""
        self._take_layer(module, args, output)

    def _take_layer(self, module: nn.Module, args: Any, output: Any) -> None:
        """Keep the outputs of the layer, or the input of a linear layer that may be the last one."""
        batch = self._batch
        if batch is None:
            return
        layer = self._layer() if self._layer is not None else None
        if self._settings.layer:
            if layer is None:
                name = self._names.module(module)
                if name is None or self._names.path(name.root, name.path) != self._settings.layer:
                    return
                self._layer = weakref.ref(module)
            elif layer is not module:
                return
            tensor = next((item for _, item in tensors_in(output)), None)
            what = self._settings.layer
        else:
            if not isinstance(module, nn.Linear) or (layer is not None and layer is not module):
                return
            tensor = args[0] if args and isinstance(args[0], torch.Tensor) else None
            name = self._names.module(module)
            what = f"{LAST_INPUT} {self._names.path(name.root, name.path) if name is not None else 'a linear layer'}"
            self._candidate = weakref.ref(module)
        if tensor is not None and tensor.dim() and (not batch.rows or tensor.shape[0] == batch.rows):
            batch.layer, batch.outputs = what, _features(tensor, batch.chosen)

    def ended(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Note that the model has returned; runs within an entry point."""
        batch, self.looks_inside = self._batch, False
        if batch is None:
            return
        late = batch.chosen is None
        if late:
            self._identify(batch, args or kwargs)
        if batch.chosen is None or not len(batch.chosen):
            self._batch = None
            return
        if late and batch.outputs is not None:
            batch.outputs = _rows_of(batch.outputs, batch.chosen) if len(batch.outputs) == batch.rows else None
        if self._model is None:
            self._model = weakref.ref(module)
        if self._layer is None and not self._settings.layer and self._candidate is not None:
            self._layer = self._candidate
        if batch.loss is not None:
            batch.results = results_of_loss(*batch.loss, batch.rows, batch.chosen)
        answer = _answer(output, batch.rows)
        if answer is not None:
            of_output = results_of_output(answer[torch.as_tensor(batch.chosen, device=answer.device)])
            batch.results = of_output.updated(batch.results)
        if batch.outputs is None:
            self._use_model_output(batch, answer)
        self._draw_maps(module, args, kwargs, batch)

    def _use_model_output(self, batch: _Batch, answer: torch.Tensor | None) -> None:
        if self._settings.layer:
            self._say("layer", f'probe: no layer "{self._settings.layer}" was called in an evaluation')
        elif answer is not None and batch.chosen is not None:
            batch.layer, batch.outputs = MODEL_OUTPUT, _features(answer, batch.chosen)

    def loss_returned(self, name: str, args: Any, kwargs: Mapping[str, Any]) -> None:
        """Keep what a loss function of an evaluation was called with; runs within an entry point."""
        batch = self._batch
        given = loss_arguments(args, kwargs) if batch is not None else None
        if batch is None or given is None:
            return
        if batch.chosen is None:
            batch.loss = name, given
            return
        found = results_of_loss(name, given, batch.rows, batch.chosen)
        if found is not None:
            batch.results = found if batch.results is None else batch.results.updated(found)

    # The end

    def evaluation_ends(self, buffer: StepBuffer, mode: Mode) -> None:
        """Write the frame of an evaluation that is about to be published."""
        self._finish()
        collected = buffer.gathered.pop(_NAME, None)
        if isinstance(collected, ProbePass):
            collected.write(buffer)

    def _finish(self) -> None:
        """Hand over the last call of the model."""
        batch, self._batch, self.looks_inside = self._batch, None, False
        if batch is None or batch.outputs is None or batch.chosen is None or batch.digests is None:
            return
        results = batch.results or SampleResults()
        batch.samples.add(ProbeRows(
            batch.digests[batch.chosen], batch.layer, _array(batch.outputs),
            inputs=None if batch.inputs is None else _array(batch.inputs), targets=results.targets,
            predictions=results.predictions, losses=results.losses, saliency=batch.maps or {},
            saliency_rows=batch.map_rows))

    # Additional passes, if asked for

    def _draw_maps(self, module: nn.Module, args: Any, kwargs: Any, batch: _Batch) -> None:
        if self._saliency is None or batch.inputs is None or batch.results is None:
            return
        assert batch.chosen is not None
        assert batch.digests is not None
        places = [batch.samples.place_of(sample) for sample in batch.digests[batch.chosen].tolist()]
        rows = np.flatnonzero(np.array(places) < self._settings.saliency)
        if not len(rows):
            return
        if len(args) != 1 or kwargs:
            self._say("saliency", "saliency maps: the model takes more than one input")
            return
        states = random_states()
        try:
            inputs = batch.inputs[torch.as_tensor(rows, device=batch.inputs.device)]
            batch.maps = self._saliency.maps(unwrapped(module), inputs, batch.results.classes_of(rows))
            batch.map_rows = rows
        except Saliency.Impossible as error:
            self._say("saliency", f"saliency maps: {error}")
        finally:
            states.put_back()

    def _call_given(self, module: nn.Module, collected: ProbePass) -> None:
        """Call the model with the samples that the script gave."""
        assert self._given is not None
        if any(part.training for part in module.modules()):
            self._say("given", "probe: the model was not in eval mode, so the given samples were not evaluated")
            return
        states = random_states()
        try:
            for inputs, targets in self._given.batches(next(module.parameters()).device):
                batch = self._batch = _Batch(collected)
                self._identify(batch, inputs)
                if batch.chosen is None or not len(batch.chosen):
                    continue
                handles = [part.register_forward_hook(self._take_layer) for part in module.modules()]
                try:
                    with torch.no_grad():
                        output = unwrapped(module)(inputs)
                finally:
                    for handle in handles:
                        handle.remove()
                self.ended(module, (inputs,), {}, output)
                answer = _answer(output, batch.rows)
                if targets is not None and answer is not None:
                    self._compare(answer, targets, batch)
                self._finish()
        finally:
            self._batch = None
            states.put_back()

    def _compare(self, answer: torch.Tensor, targets: torch.Tensor, batch: _Batch) -> None:
        assert batch.chosen is not None
        classes = not targets.is_floating_point() and answer.dim() == 2
        found = results_of_loss("cross_entropy" if classes else "mse_loss", LossArguments(answer, targets), batch.rows,
                                batch.chosen)
        if found is not None and batch.results is not None:
            batch.results = batch.results.updated(found)

    def _say(self, cause: str, reason: str) -> None:
        self.hooks.session.seen.reasons[f"probe {cause}"] = reason


def _digests(tensors: Sequence[torch.Tensor], rows: int) -> NDArray[np.int64] | None:
    """Return a digest of each sample's content; None if it cannot be read."""
    whole = [tensor for tensor in tensors if tensor.dim() and tensor.shape[0] == rows]
    found = []
    for start in range(0, rows, _ROWS_AT_ONCE):
        parts = [tensor[start:start + _ROWS_AT_ONCE] for tensor in whole]
        count = min(_ROWS_AT_ONCE, rows - start)
        sums = sample_sums(parts, count)
        if sums is None or sums.shape[1] != count:
            return None
        found.append(digests_from_sums(np.ascontiguousarray(sums[0].cpu().numpy())))
    return np.concatenate(found) if found else None


def _answer(output: Any, rows: int) -> torch.Tensor | None:
    """Return the outputs of a model that are its answer: named logits, or the first with a row per sample."""
    found = {item: tensor.detach() for item, tensor in tensors_in(output)
             if tensor.dim() and tensor.shape[0] == rows and tensor.is_floating_point()}
    return found.get("[logits]", next(iter(found.values()), None))


def _features(tensor: torch.Tensor, rows: NDArray[np.intp] | None) -> torch.Tensor:
    """Return one vector per sample: means over positions of images and sequences, and at most 2048 features."""
    found = tensor.detach()
    if rows is not None:
        found = found[torch.as_tensor(rows, device=found.device)]
    if found.dim() >= 4:
        found = found.float().mean(tuple(range(2, found.dim())))
    elif found.dim() == 3:
        found = found.float().mean(1)
    elif found.dim() == 1:
        found = found[:, None]
    every = -(-found.shape[1] // _MOST_FEATURES)
    # A copy: the script may change the tensor in place.
    return found[:, ::every].clone()


def _rows_of(tensor: torch.Tensor, rows: NDArray[np.intp]) -> torch.Tensor:
    return tensor.detach()[torch.as_tensor(rows, device=tensor.device)].clone()


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    found = tensor.detach().cpu()
    return found.float().numpy() if found.dtype is torch.bfloat16 else found.numpy()
