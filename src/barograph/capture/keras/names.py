"""Names in a Keras model: paths of layers and variables, and the layer classes that rules use.

A path consists of the names of the nested layers, without the model's own: `encoder.dense.kernel`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import keras

_ACTIVATIONS = {
    "relu": "ReLU", "relu6": "ReLU6", "leaky_relu": "LeakyReLU", "elu": "ELU", "selu": "SELU", "gelu": "GELU",
    "silu": "SiLU", "swish": "SiLU", "tanh": "Tanh", "sigmoid": "Sigmoid", "hard_sigmoid": "Hardsigmoid",
    "softmax": "Softmax", "softplus": "Softplus",
}
"""Activations of Keras with the names that rules use: those of torch's classes."""


class Names(Protocol):
    """The names in a step: `KerasNames` or `LoopNames`."""

    layers: dict[int, str]
    leaves: dict[str, str]
    owners: dict[str, str]
    trainable: dict[str, Any]
    untrained: dict[str, Any]
    frozen: dict[str, Any]

    def path(self, variable: Any) -> str:
        """Return the path of a variable."""

    def called(self, layer: Any) -> None:
        """Note a call of a layer by no other layer."""


_STATES = {
    "Adagrad": {"accumulator": "sum"},
    "RMSprop": {"velocity": "square_avg", "momentum": "momentum_buffer", "average_gradient": "grad_avg"},
    "SGD": {"momentum": "momentum_buffer"},
}
_ADAM_STATES = {"momentum": "exp_avg", "velocity": "exp_avg_sq", "velocity_hat": "max_exp_avg_sq", "m": "exp_avg",
                "u": "exp_inf"}
"""State variables of Keras optimizers with the names that rules use: those of torch's optimizers."""


class KerasNames:
    """The layers and variables of one model, at the time of reading.

    Attributes:
        model: The model.
        layers: Path by the ID of a layer, without the model itself.
        leaves: Paths of the layers without sublayers, with the class that rules use for their output.
        owners: Class of the layer by the path of a variable.
        trainable: Path of each trainable variable, in the model's order.
        untrained: Path of each other variable: moving statistics, and seeds of random generators.
        frozen: Those that were frozen, with their layer.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._look()

    def _look(self) -> None:
        model = self.model
        self.layers: dict[int, str] = {}
        self.leaves: dict[str, str] = {}
        self.owners: dict[str, str] = {}
        self._variables: dict[int, str] = {}
        self.frozen: dict[str, Any] = {}
        taken: set[str] = set()
        for path, layer in _layers(model):
            path = _free(path, taken)
            self.layers[id(layer)] = path
            # An input layer is never called: it only describes the inputs of a model.
            holds_none = not _inside(layer) or isinstance(layer, keras.layers.RNN)
            if holds_none and not isinstance(layer, keras.layers.InputLayer):
                self.leaves[path] = output_class(layer)
            self._name_variables(layer, path)
        self._name_variables(model, "")
        self.trainable = {self.path(variable): variable for variable in model.trainable_variables}
        self.untrained = {self.path(variable): variable for variable in model.non_trainable_variables}

    def path(self, variable: Any) -> str:
        """Return the path of a variable; outside the model's layers, Keras's own path with dots."""
        found = self._variables.get(id(variable))
        if found is None:
            found = self._variables[id(variable)] = _dotted(variable)
        return found

    def called(self, layer: Any) -> None:
        """Read the layers again if the model got its variables only at its first call."""
        if not self.fits():
            self._look()

    def fits(self) -> bool:
        """Return whether the model still trains the same variables."""
        now = self.model.trainable_variables
        if len(self.model.non_trainable_variables) != len(self.untrained):
            return False
        return len(now) == len(self.trainable) and all(
            one is other for one, other in zip(now, self.trainable.values(), strict=True))

    def _name_variables(self, layer: Any, path: str) -> None:
        taken: set[str] = set()
        # A trainable variable stays among them when its layer is frozen.
        learning = len(getattr(layer, "_trainable_variables", ()))
        own = [*getattr(layer, "_trainable_variables", ()), *getattr(layer, "_non_trainable_variables", ())]
        for number, variable in enumerate(own):
            if id(variable) not in self._variables:
                name = _free(f"{path}.{variable.name}" if path else str(variable.name), taken)
                self._variables[id(variable)] = name
                self.owners[name] = type(layer).__name__
                if number < learning and not variable.trainable:
                    self.frozen[name] = variable


class LoopNames:
    """The names of all models that a custom loop calls.

    Names of a second model that clash with the first's begin with the model's name.

    Attributes:
        layers, leaves, owners, trainable, untrained, frozen: See `KerasNames`.
    """

    def __init__(self) -> None:
        self.layers: dict[int, str] = {}
        self.leaves: dict[str, str] = {}
        self.owners: dict[str, str] = {}
        self.trainable: dict[str, Any] = {}
        self.untrained: dict[str, Any] = {}
        self.frozen: dict[str, Any] = {}
        self._models: list[Any] = []
        self._variables: dict[int, str] = {}
        self._counted = 0

    def called(self, layer: Any) -> None:
        """Add a called model; None: check whether known models have got variables meanwhile."""
        if layer is not None and not any(layer is model for model in self._models):
            self._models.append(layer)
        counted = sum(len(model.variables) for model in self._models) + len(self._models)
        if counted != self._counted:
            self._counted = counted
            for model in self._models:
                self._take_in(KerasNames(model), str(model.name))

    def path(self, variable: Any) -> str:
        """Return the path of a variable of a model, or its own name."""
        return self._variables.get(id(variable)) or _dotted(variable)

    def _take_in(self, names: KerasNames, model: str) -> None:
        mine = {*names.layers.values(), *names.trainable, *names.untrained}
        others = {path for key, path in self.layers.items() if key not in names.layers}
        begin = f"{model}." if mine & others else ""
        self.layers.update({key: begin + path for key, path in names.layers.items()})
        for group, found in ((self.leaves, names.leaves), (self.owners, names.owners),
                             (self.trainable, names.trainable), (self.untrained, names.untrained),
                             (self.frozen, names.frozen)):
            group.update({begin + path: value for path, value in found.items()})
        for path, variable in (*names.trainable.items(), *names.untrained.items()):
            self._variables[id(variable)] = begin + path
            # In TensorFlow, a script may use the variable below Keras's.
            self._variables[id(variable.value)] = begin + path


class LayerClasses(Mapping[str, str]):
    """Maps a layer's path, also with an item in brackets, to the layer class that rules use.

    Args:
        names: Names of the model; they may grow.
    """

    def __init__(self, names: Names) -> None:
        self._names = names

    def __getitem__(self, path: str) -> str:
        return self._names.leaves[path.partition("[")[0]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names.leaves)

    def __len__(self) -> int:
        return len(self._names.leaves)


def output_class(layer: Any) -> str:
    """Return the class that rules use for the output of a layer: that of its activation, if it has one.

    The output of a `Dense` with an activation is the activation's.
    """
    activation = getattr(layer, "activation", None)
    name = getattr(activation, "__name__", "")
    return _ACTIVATIONS.get(name, type(layer).__name__)


def optimizer_states(optimizer: Any, names: Names) -> Mapping[str, Any]:
    """Return the optimizer's state variables of parameters, as `dense.kernel[exp_avg]`.

    Keras names such a variable after the parameter and its role; it has the parameter's shape.
    """
    found: dict[str, Any] = {}
    known = {str(variable.path).replace("/", "_"): (path, variable) for path, variable in names.trainable.items()}
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    called = _STATES.get(type(inner).__name__, _ADAM_STATES)
    for state in optimizer.variables:
        name, prefix = str(state.name), ""
        for candidate in known:
            if name.startswith(f"{candidate}_") and len(candidate) > len(prefix):
                prefix = candidate
        if prefix and tuple(state.shape) == tuple(known[prefix][1].shape):
            kept = name[len(prefix) + 1:]
            found[f"{known[prefix][0]}[{called.get(kept, kept)}]"] = state
    return found


def _layers(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield each layer in a model once, with the names of the layers around it."""
    seen = {id(model)}

    def inside(layer: Any, path: str) -> Iterator[tuple[str, Any]]:
        for part in _inside(layer):
            if id(part) not in seen:
                seen.add(id(part))
                name = f"{path}.{part.name}" if path else str(part.name)
                yield name, part
                if not isinstance(part, keras.layers.RNN):
                    yield from inside(part, name)
                else:
                    yield from ((f"{name}.{cell.name}", cell) for cell in _inside(part))

    yield from inside(model, "")


def _inside(layer: Any) -> list[Any]:
    """Return the sublayers of a layer, without metrics and random generators."""
    return [part for part in getattr(layer, "_layers", ()) if hasattr(part, "_trainable_variables")]


def _free(path: str, taken: set[str]) -> str:
    number, free = 1, path
    while free in taken:
        number += 1
        free = f"{path}#{number}"
    taken.add(free)
    return free


def _dotted(variable: Any) -> str:
    return str(getattr(variable, "path", None) or variable.name).partition(":")[0].replace("/", ".")
