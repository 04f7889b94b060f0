"""The probe of Keras: evaluates fixed samples after each `evaluate`, and after each validation of `fit`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from barograph.capture.attribution import METHODS, attribution
from barograph.capture.keras.arrays import array_of
from barograph.capture.keras.names import KerasNames
from barograph.capture.probe_pass import Called, OwnProbe, Results, class_results
from barograph.errors import SettingsError, UnknownName, UnsupportedCapture, nearest
from barograph.model.probe import LAST_INPUT, MODEL_OUTPUT, ProbeSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.session import Session

_BINARY = ("binary_crossentropy", "BinaryCrossentropy")


class KerasProbe:
    """The probe of one recording.

    Args:
        session: Stores the records.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._probe: OwnProbe | None = None
        self._model: Any = None
        self._is_given = False

    @property
    def on(self) -> bool:
        """Whether something is stored."""
        return self._probe is not None

    def observe(self, settings: ProbeSettings, given: Any) -> None:
        """Store outputs of a layer from now on; arguments and errors as of `Recording.observe`."""
        if self._probe is None or self._probe.settings != settings or given is not None:
            self._probe = OwnProbe(settings, self._say)
            self._model = None
        if given is not None:
            pair = given if isinstance(given, tuple | list) and len(given) == 2 else (given, None)
            self._probe.choose(*pair)
            self._is_given = True

    def evaluated(self, model: Any, integration: ArrayIntegration, data: Any, targets: Any) -> None:
        """Note that a model was evaluated with this data; the evaluation has not ended yet."""
        probe = self._probe
        if probe is None or (self._model is not None and self._model is not model):
            return
        if not self._is_given and not probe.chosen:
            if not _is_array(data):
                self._say("samples", f"the probe: the evaluation data is {type(data).__name__}, which cannot be read "
                          "twice without changing the training; pass samples with attach(probe=(inputs, targets))")
                return
            probe.choose(data, targets)
        self._model = model
        probe.write(_KerasModel(model, probe.settings.layer), integration.evaluation_buffer)
        for cause in ("the probe", "probe samples"):
            self._session.seen.reasons.pop(cause, None)

    def _say(self, cause: str, reason: str) -> None:
        self._session.seen.reasons[f"probe {cause}"] = reason


def explained(model: Any, inputs: Any, classes: Any, method: str) -> NDArray[Any]:
    """Return the maps of any samples; see `barograph.inside.explain`."""
    if method not in METHODS:
        raise UnknownName(f'method is "{method}". {nearest(method, METHODS)}')
    x = np.array(array_of(inputs))
    if x.dtype.kind != "f":
        raise UnsupportedCapture("Cannot compute saliency maps: the inputs are integers, which have no gradient.")
    own = _KerasModel(model, "")
    wanted = own.call(x).scores.reshape(len(x), -1).argmax(1) if classes is None else np.asarray(classes, np.int64)
    return attribution(own.gradient, x, wanted, method)


class _KerasModel:
    """A Keras model in an evaluation. Its calls are stateless, so variables and seeds stay unchanged.

    Args:
        model: The model.
        layer: Path of the layer whose outputs are returned; "": the input of the last dense layer.
    """

    def __init__(self, model: Any, layer: str) -> None:
        self._model = model
        self._layer = layer

    def call(self, inputs: NDArray[Any]) -> Called:
        seen: list[tuple[str, Any]] = []
        with self._watching(seen), _without_gradients():
            scores = array_of(self._scores(keras.ops.convert_to_tensor(inputs)))
        found = [(name, array_of(value)) for name, value in seen[-1:]]
        name, outputs = found[0] if found and found[0][1].shape[:1] == (len(inputs),) else (MODEL_OUTPUT, scores)
        if self._layer and name == MODEL_OUTPUT:
            raise SettingsError(f'probe.layer is "{self._layer}", which was not called in an evaluation.')
        return Called(scores, name, outputs)

    def gradient(self, inputs: NDArray[Any], classes: NDArray[np.int64]) -> NDArray[Any]:
        def score(x: Any) -> Any:
            scores = self._scores(x)
            scores = keras.ops.reshape(scores, (len(inputs), -1))
            chosen = np.zeros(scores.shape, np.float32)
            chosen[np.arange(len(inputs)), classes if scores.shape[1] > 1 else 0] = 1.0
            return keras.ops.sum(scores * keras.ops.cast(chosen, scores.dtype))

        return array_of(_GRADIENTS[keras.backend.backend()](score, inputs))

    def results(self, scores: NDArray[Any], targets: NDArray[Any] | None) -> Results:
        loss = _loss_of(self._model)
        found = class_results(scores, targets, None if targets is None else _losses(loss, targets, scores))
        if _name_of(loss) in _BINARY and scores.size == len(scores):
            at = 0.0 if getattr(loss, "from_logits", False) else 0.5
            labels = None if found.targets is None else (found.targets >= 0.5).astype(np.int64)
            return Results(labels, (scores.reshape(-1) >= at).astype(np.int64), found.losses)
        return found

    def _scores(self, inputs: Any) -> Any:
        model = self._model
        found, _ = model.stateless_call(
            [variable.value for variable in model.trainable_variables],
            [variable.value for variable in model.non_trainable_variables], inputs, training=False)
        if isinstance(found, list | tuple | dict):
            raise UnsupportedCapture("The model has several outputs; the probe needs one.")
        return found

    @contextlib.contextmanager
    def _watching(self, seen: list[tuple[str, Any]]) -> Iterator[None]:
        """Note the inputs or outputs of the layer while the model is called."""
        names = KerasNames(self._model).layers
        watched = []
        try:
            for layer in self._model._flatten_layers():
                path = names.get(id(layer))
                if path is None or (path != self._layer if self._layer else not isinstance(layer, keras.layers.Dense)):
                    continue
                # Not through Keras, which would track the function as a part of the layer.
                object.__setattr__(layer, "call", self._noting(layer.call, path, seen))
                watched.append(layer)
            yield
        finally:
            for layer in watched:
                object.__delattr__(layer, "call")

    def _noting(self, call: Callable[..., Any], path: str, seen: list[tuple[str, Any]]) -> Callable[..., Any]:
        def noting(*args: Any, **kwargs: Any) -> Any:
            result = call(*args, **kwargs)
            seen.append((path, result) if self._layer else (f"{LAST_INPUT} {path}", args[0]))
            return result

        return noting


def _is_array(value: Any) -> bool:
    """Return whether a value is an array in memory, with a row per sample."""
    return hasattr(value, "shape") and hasattr(value, "__getitem__") and len(value.shape) > 0


def _loss_of(model: Any) -> Any:
    loss = getattr(model, "loss", None)
    if isinstance(loss, str):
        return keras.losses.get(loss)
    return loss if callable(loss) else None


def _name_of(loss: Any) -> str:
    return getattr(loss, "__name__", type(loss).__name__)


def _losses(loss: Any, targets: NDArray[Any], scores: NDArray[Any]) -> NDArray[Any] | None:
    """Return the loss of each sample; None if the model has no single loss function, or it does not fit."""
    function = loss.call if isinstance(loss, keras.losses.Loss) else loss
    if function is None:
        return None
    if targets.ndim == scores.ndim - 1 and scores.shape[-1] == 1:
        targets = targets[..., None]
    try:
        with _without_gradients():
            found = array_of(function(keras.ops.convert_to_tensor(targets), keras.ops.convert_to_tensor(scores)))
    except _errors_of_misfits():
        return None
    if found.shape[:1] != (len(scores),):
        return None
    mean: NDArray[Any] = found.reshape(len(scores), -1).mean(1)
    return mean


def _errors_of_misfits() -> tuple[type[Exception], ...]:
    """Return the errors about targets that do not fit the outputs, such as a label that is no class."""
    if keras.backend.backend() == "tensorflow":
        return ValueError, TypeError, sys.modules["tensorflow"].errors.InvalidArgumentError
    return ValueError, TypeError, RuntimeError


def _without_gradients() -> contextlib.AbstractContextManager[Any]:
    return sys.modules["torch"].no_grad() if keras.backend.backend() == "torch" else contextlib.nullcontext()


def _gradient_of_tensorflow(score: Callable[[Any], Any], inputs: NDArray[Any]) -> Any:
    tensorflow = sys.modules["tensorflow"]
    x = tensorflow.convert_to_tensor(inputs)
    with tensorflow.GradientTape() as tape:
        tape.watch(x)
        value = score(x)
    return tape.gradient(value, x)


def _gradient_of_jax(score: Callable[[Any], Any], inputs: NDArray[Any]) -> Any:
    return sys.modules["jax"].grad(score)(inputs)


def _gradient_of_torch(score: Callable[[Any], Any], inputs: NDArray[Any]) -> Any:
    torch = sys.modules["torch"]
    with torch.enable_grad():
        x = keras.ops.convert_to_tensor(inputs).detach().requires_grad_()
        return torch.autograd.grad(score(x), x)[0]


_GRADIENTS = {"tensorflow": _gradient_of_tensorflow, "jax": _gradient_of_jax, "torch": _gradient_of_torch}
