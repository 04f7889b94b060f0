"""Keys of recorded series: a kind and a path in the model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from barograph.errors import UnknownName, nearest


class Kind(StrEnum):
    """Kind of a record."""

    WEIGHT = "weight"
    """A parameter (weight or bias) after the optimizer step."""
    GRADIENT = "gradient"
    """The gradient of a parameter: accumulated, unscaled, reduced over workers, before clipping."""
    GRADIENT_CLIPPED = "gradient_clipped"
    """The gradient that the optimizer used, if the script clips."""
    UPDATE = "update"
    """The change by the optimizer step: weight after minus weight before."""
    INPUT = "input"
    """The input of a module."""
    OUTPUT = "output"
    """The output of a module (an activation)."""
    LOSS = "loss"
    """The tensor on which `backward` was called, or the output of a loss function."""
    LEARNING_RATE = "learning_rate"
    """The learning rate of a parameter group."""
    OPTIMIZER_STATE = "optimizer_state"
    """A state tensor of the optimizer for a parameter (momentum, second moment)."""
    SCALAR = "scalar"
    """A number that the script logs."""
    CUSTOM = "custom"
    """A tensor that the script saves under a name."""
    BATCH = "batch"
    """The input of the whole model. Its units are channels or features."""
    TARGET = "target"
    """The targets passed to a loss function, if they are not class numbers."""
    LABEL = "label"
    """How often a class was the target: `label:cross_entropy[3]`."""
    CONFUSION = "confusion"
    """How often a class was the target and another was predicted: `confusion:cross_entropy[3,5]`."""
    FACT = "fact"
    """A fact about the loop, the loss or the data: see `model.facts`."""
    TIME = "time"
    """Seconds spent in a part of a step: "step", "data", "forward", "backward", "optimizer", "capture", "other"."""
    MACHINE = "machine"
    """Use of the machine: `machine:cpu[0]` in percent, `machine:memory` in bytes."""
    VITAL = "vital"
    """Health of the recording, from the watcher: seconds without records, dropped steps."""
    IMPORTANCE = "importance"
    """The importance of a feature in a tree model."""
    TREE = "tree"
    """A property of the trees of one round: "depth", "leaves", "splits", "trees", "gain"."""

    # Equal to the string's hash. Enum's own hash is written in Python and would slow down every lookup of a key.
    __hash__ = str.__hash__


def kind_from_name(name: str) -> Kind:
    """Return the kind with this name.

    Raises:
        UnknownName: There is no such kind; the message suggests the nearest.

    Example:
        >>> kind_from_name("weight")
        <Kind.WEIGHT: 'weight'>
    """
    try:
        return Kind(name)
    except ValueError:
        raise UnknownName(f'"{name}" is not a kind of record. {nearest(name, list(Kind))}') from None


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The identity of a series: its kind and its path in the model.

    Attributes:
        kind: Kind of the record.
        path: Canonical dotted path of the parameter or module, or the name of a loss or scalar. An item
            of a compound value follows in brackets: `lstm[1][0]`, `fc1.weight[exp_avg]`.

    Example:
        >>> str(Key(Kind.WEIGHT, "fc1.bias"))
        'weight:fc1.bias'
    """

    kind: Kind
    path: str

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.path}"

    def __reduce__(self) -> tuple[type[Key], tuple[Kind, str]]:
        # Thousands are sent to the writer process. The generic code for dataclasses takes several times as long.
        return Key, (self.kind, self.path)


def key_from_text(text: str) -> Key:
    """Return the key that prints as `text`.

    Raises:
        UnknownName: `text` has no colon, or the word before it is not a kind.

    Example:
        >>> key_from_text("gradient:block.0.fc.weight")
        Key(kind=<Kind.GRADIENT: 'gradient'>, path='block.0.fc.weight')
    """
    kind, colon, path = text.partition(":")
    if not colon:
        raise UnknownName(f'"{text}" is not a valid key: write KIND:PATH, as in "weight:fc1.bias".')
    return Key(kind_from_name(kind), path)


_WRAPPERS = re.compile(r"(?:^|(?<=\.))(?:module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)(?:\.|$)")


def layer_path(parameter_path: str) -> str:
    """Return the path of the module of a parameter.

    Example:
        >>> layer_path("blocks.0.fc.weight"), layer_path("scale")
        ('blocks.0.fc', '')
        >>> layer_path("head.parametrizations.weight.original0")
        'head'
    """
    # torch stores the parts of a parametrized weight (spectral_norm, weight_norm, orthogonal) in a submodule.
    module, made, _ = parameter_path.partition(".parametrizations.")
    return module if made else parameter_path.rpartition(".")[0]


def canonical_path(path: str) -> str:
    """Return `path` without the components that wrappers add.

    A model has the same keys whether it is bare, compiled, or wrapped for data parallelism, sharding or
    activation checkpointing. Only whole components are dropped, so a user's `module_list` stays. A user's
    submodule named exactly `module` is dropped, too.

    Example:
        >>> canonical_path("_orig_mod.module.fc1.weight")
        'fc1.weight'
        >>> canonical_path("blocks.0._checkpoint_wrapped_module.attn")
        'blocks.0.attn'
    """
    return _WRAPPERS.sub("", path).rstrip(".")
