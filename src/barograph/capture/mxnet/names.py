"""Names of Gluon Blocks and Parameters, as `save_parameters` writes them: `0.weight`, `features.1.gamma`.

MXNet's own names (`dense0_weight`) count the Blocks of the process so far, so they would differ in a second training.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mxnet.gluon import Block, nn, rnn

from barograph.capture.live_objects import free_label, instances_of

_ACTIVATIONS = {
    "relu": "ReLU", "sigmoid": "Sigmoid", "tanh": "Tanh", "softrelu": "Softplus", "softsign": "Softsign",
    "log_sigmoid": "LogSigmoid", "mish": "Mish",
}
_LAYERS = {"Dense": "Linear", "Swish": "SiLU", "Conv1D": "Conv1d", "Conv2D": "Conv2d", "Conv3D": "Conv3d"}
"""Layers with the names that rules use: those of torch's classes."""

_CHANNELS_FIRST = ("Conv", "BatchNorm", "InstanceNorm", "GroupNorm", "MaxPool", "AvgPool", "GlobalMaxPool",
                   "GlobalAvgPool")
_MIND_MODE = (nn.Dropout, nn.BatchNorm, nn.BatchNormReLU, rnn.DropoutCell, rnn.ZoneoutCell)
_AUTOMATIC = re.compile(r"(\D*?)(\d+)_?$")


@dataclass(frozen=True, slots=True)
class Root:
    """A model: an outermost Block with Parameters of a Trainer.

    Attributes:
        block: Weak reference, so that Barograph keeps no model alive.
        label: Prefix of its paths; "": none, since it is the only trained model.
    """

    block: weakref.ref[Any]
    label: str

    def path(self, inner: str) -> str:
        """Return the path of something in the model, for a Key."""
        return ".".join(part for part in (self.label, inner) if part)


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a Block or a Parameter in a model.

    Attributes:
        thing: Weak reference to it, which detects reuse of its address.
        root: Its model.
        path: Its path, for a Key; "" for a model without a label.
        layer: Class that rules use for the Block, or for the Block that has the Parameter.
        leaf: The Block has no sub-Blocks.
    """

    thing: weakref.ref[Any]
    root: Root
    path: str
    layer: str
    leaf: bool = False


class GluonNames:
    """Finds the trained models among all live Blocks, and names their parts."""

    def __init__(self) -> None:
        self._roots: list[Root] = []
        self._places: dict[int, Place] = {}

    def find(self, parameters: Iterable[Any]) -> None:
        """Find the models with any of these Parameters. Walks over all objects: not for every step."""
        wanted = {id(parameter) for parameter in parameters}
        blocks = [block for block in instances_of(Block) if {"_children", "_reg_params"} <= vars(block).keys()]
        inner = {id(child) for block in blocks for child in block._children.values()}
        found = [block for block in blocks if id(block) not in inner
                 and any(id(parameter) in wanted for _, part in _parts(block) for parameter in _own(part).values())]
        self._roots = [root for root in self._roots if any(root.block() is block for block in found)]
        self._places = {key: place for key, place in self._places.items() if place.thing() is not None}
        known = [root.block() for root in self._roots]
        new = sorted((block for block in found if not any(block is other for other in known)), key=_age)
        for block in new:
            self._add(block, alone=len(found) == 1)

    def _add(self, block: Any, *, alone: bool) -> None:
        label = "" if alone else free_label(_label(block), {root.label for root in self._roots})
        root = Root(weakref.ref(block), label)
        self._roots.append(root)
        self._look(root, block)

    def _look(self, root: Root, block: Any) -> None:
        for inner, part in _parts(block):
            layer = layer_class(part)
            self._places[id(part)] = Place(weakref.ref(part), root, root.path(inner), layer, not part._children)
            for name, parameter in _own(part).items():
                known = self._places.get(id(parameter))
                # A shared one keeps its first name, as long as that is a name of this model.
                if known is None or known.thing() is not parameter or known.root is not root:
                    path = root.path(f"{inner}.{name}" if inner else name)
                    self._places[id(parameter)] = Place(weakref.ref(parameter), root, path, type_name(part))

    def place(self, thing: Any) -> Place | None:
        """Return the place of a Block or a Parameter; None if it is in no trained model."""
        known = self._places.get(id(thing))
        return known if known is not None and known.thing() is thing else None

    def rescan(self) -> None:
        """Name Blocks and Parameters added to the models meanwhile."""
        for root in self._roots:
            block = root.block()
            if block is not None:
                self._look(root, block)

    def minds_mode(self, root: Root) -> bool:
        """Return whether a model has mode-dependent Blocks: dropout, batch normalization."""
        return any(place.root is root and place.thing() is not None and _minds_mode(place.thing())
                   for place in self._places.values())

    def leaves(self) -> Iterator[str]:
        """Yield the paths of the Blocks without sub-Blocks."""
        return (place.path or "model" for place in self._places.values() if place.leaf and place.thing() is not None)


def layer_class(block: Any) -> str:
    """Return the class that rules use for the output of a Block: that of its activation, if it has one."""
    activation = getattr(block, "act", None)
    inner = activation if isinstance(activation, Block) else block
    if isinstance(inner, nn.Activation):
        return _ACTIVATIONS.get(inner._act_type, type(inner).__name__)
    return type_name(inner)


def type_name(block: Any) -> str:
    """Return the class that rules use for a Block, regardless of its activation."""
    name = type(block).__name__
    return _LAYERS.get(name, name)


def _minds_mode(block: Any) -> bool:
    return isinstance(block, _MIND_MODE) or (isinstance(block, rnn.rnn_layer._RNNLayer) and block._dropout > 0)


def unit_axis(block: Any, dimensions: int) -> int:
    """Return the axis of units (channels, features) in a Block's output.

    Channels are axis 1 for convolutions and similar, unless their layout differs, and for outputs with four axes or
    more; otherwise features are the last axis, as in a sequence.
    """
    layout = getattr(block, "_layout", None) or getattr(block, "_kwargs", {}).get("layout") or ""
    if "C" in layout and type(block).__name__.startswith(_CHANNELS_FIRST) and len(layout) == dimensions:
        return int(layout.index("C"))
    is_channels_first = type(block).__name__.startswith(_CHANNELS_FIRST) or dimensions >= 4
    return 1 if is_channels_first and dimensions > 1 else -1


def _parts(block: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Yield a Block and all Blocks in it, each once, with their names."""
    seen = set() if seen is None else seen
    if id(block) not in seen:
        seen.add(id(block))
        yield path, block
        for name, child in block._children.items():
            yield from _parts(child, f"{path}.{name}" if path else name, seen)


def _own(block: Any) -> dict[str, Any]:
    parameters: dict[str, Any] = block._reg_params
    return parameters


def _label(block: Any) -> str:
    """Return the label of a model: its prefix, if the script chose one, or else its class."""
    automatic = _AUTOMATIC.match(block.prefix)
    given = block.prefix.rstrip("_")
    is_automatic = not given or (automatic is not None and automatic[1] == type(block).__name__.lower())
    return type(block).__name__ if is_automatic else str(given)


def _age(block: Any) -> tuple[int, str]:
    """Return a sort key by creation: MXNet counts the models of a class in their prefix."""
    automatic = _AUTOMATIC.match(block.prefix)
    return (int(automatic[2]) if automatic is not None else 0, str(block.prefix))
