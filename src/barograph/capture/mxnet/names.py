"""Names of Gluon Blocks and Parameters, as `save_parameters` writes them: `0.weight`, `features.1.gamma`.

The names that MXNet gives beside them (`dense0_weight`) count the Blocks that a process has made so far, and would be
others in its second training.
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
"""Layers by the names that rules know them by: those of torch's classes."""

_CHANNELS_FIRST = ("Conv", "BatchNorm", "InstanceNorm", "GroupNorm", "MaxPool", "AvgPool", "GlobalMaxPool",
                   "GlobalAvgPool")
_MIND_MODE = (nn.Dropout, nn.BatchNorm, nn.BatchNormReLU, rnn.DropoutCell, rnn.ZoneoutCell)
_AUTOMATIC = re.compile(r"(\D*?)(\d+)_?$")


@dataclass(frozen=True, slots=True)
class Root:
    """A model: an outermost Block with Parameters that a Trainer holds.

    Attributes:
        block: Weakly, so that Barograph keeps no model alive.
        label: What its paths begin with; "": nothing, since it is the only one that is trained.
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
        thing: It, weakly; tells an address that is used again from what it was.
        root: The model it is in.
        path: Of it, for a Key; "" of a model without a label.
        layer: The class that rules know the Block by, or the Block that has the Parameter.
        leaf: Of a Block: it holds no others.
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
        """Find the models that hold any of these Parameters. A walk over every object: not to be done at every step."""
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
                # Where one is shared, its first name stands, as long as that is a name of this model.
                if known is None or known.thing() is not parameter or known.root is not root:
                    path = root.path(f"{inner}.{name}" if inner else name)
                    self._places[id(parameter)] = Place(weakref.ref(parameter), root, path, type_name(part))

    def place(self, thing: Any) -> Place | None:
        """Return where a Block or a Parameter stands; None if it is in no model that is trained."""
        known = self._places.get(id(thing))
        return known if known is not None and known.thing() is thing else None

    def look_anew(self) -> None:
        """Name what has been added to the models since they were found."""
        for root in self._roots:
            block = root.block()
            if block is not None:
                self._look(root, block)

    def minds_mode(self, root: Root) -> bool:
        """Return whether a model holds Blocks that compute otherwise in training: dropout, batch normalisation."""
        return any(place.root is root and place.thing() is not None and _minds_mode(place.thing())
                   for place in self._places.values())

    def leaves(self) -> Iterator[str]:
        """Yield the paths of the Blocks that hold no others."""
        return (place.path or "model" for place in self._places.values() if place.leaf and place.thing() is not None)


def layer_class(block: Any) -> str:
    """Return the class that rules know the output of a Block by: that of its activation, where it ends in one."""
    activation = getattr(block, "act", None)
    inner = activation if isinstance(activation, Block) else block
    if isinstance(inner, nn.Activation):
        return _ACTIVATIONS.get(inner._act_type, type(inner).__name__)
    return type_name(inner)


def type_name(block: Any) -> str:
    """Return the class of a Block as rules know it, whatever activation is in it."""
    name = type(block).__name__
    return _LAYERS.get(name, name)


def _minds_mode(block: Any) -> bool:
    return isinstance(block, _MIND_MODE) or (isinstance(block, rnn.rnn_layer._RNNLayer) and block._dropout > 0)


def unit_axis(block: Any, dimensions: int) -> int:
    """Return the axis of a Block's output whose index tells units (channels, features) apart.

    Channels stand on axis 1 for convolutions and their like, unless their layout says otherwise, and for anything with
    four axes or more; features stand on the last axis for the rest, as in a sequence.
    """
    layout = getattr(block, "_layout", None) or getattr(block, "_kwargs", {}).get("layout") or ""
    if "C" in layout and type(block).__name__.startswith(_CHANNELS_FIRST) and len(layout) == dimensions:
        return int(layout.index("C"))
    is_channels_first = type(block).__name__.startswith(_CHANNELS_FIRST) or dimensions >= 4
    return 1 if is_channels_first and dimensions > 1 else -1


def _parts(block: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Yield a Block and all that are in it, each once, with the names that lead there."""
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
    """Return what a model is called: by its prefix, where the script has chosen one, else by its class."""
    automatic = _AUTOMATIC.match(block.prefix)
    given = block.prefix.rstrip("_")
    is_automatic = not given or (automatic is not None and automatic[1] == type(block).__name__.lower())
    return type(block).__name__ if is_automatic else str(given)


def _age(block: Any) -> tuple[int, str]:
    """Return what sorts models by when they were made: MXNet counts those of a class in their prefix."""
    automatic = _AUTOMATIC.match(block.prefix)
    return (int(automatic[2]) if automatic is not None else 0, str(block.prefix))
