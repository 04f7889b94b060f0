"""What a recorded thing is: its kind and its path in the model, two fields and never one string."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from barograph.errors import UnknownName, nearest


class Kind(StrEnum):
    """What sort of thing a record describes."""

    WEIGHT = "weight"
    """A parameter (weights and biases alike) as it is after the optimizer step."""
    GRADIENT = "gradient"
    """A parameter's gradient: accumulated, unscaled, reduced over workers, before any clipping."""
    GRADIENT_CLIPPED = "gradient_clipped"
    """The gradient the optimizer used, where the script clips."""
    UPDATE = "update"
    """What the optimizer step added: weight after minus weight before."""
    INPUT = "input"
    """What a module was called with."""
    OUTPUT = "output"
    """What a module returned (an activation)."""
    LOSS = "loss"
    """The tensor `backward` starts from, or what a loss function returned."""
    LEARNING_RATE = "learning_rate"
    """The learning rate of one parameter group."""
    OPTIMIZER_STATE = "optimizer_state"
    """One tensor an optimizer keeps for a parameter (momentum, second moment)."""
    SCALAR = "scalar"
    """A number the script logs."""
    CUSTOM = "custom"
    """A tensor the script saves under a name."""
    BATCH = "batch"
    """What a model as a whole was fed: its units are the channels, or the features."""
    TARGET = "target"
    """What a loss function was handed as the truth, where that is no class number."""
    LABEL = "label"
    """How often a class was the truth: `label:cross_entropy[3]`."""
    CONFUSION = "confusion"
    """How often a class was the truth and another the answer: `confusion:cross_entropy[3,5]`."""
    FACT = "fact"
    """Something known of the loop, the loss or the data: see `model.facts`."""
    TIME = "time"
    """Seconds that a part of a step took: "step", "data", "forward", "backward", "optimizer", "capture", "other"."""
    MACHINE = "machine"
    """How much of the machine is used: `machine:cpu[0]` in percent, `machine:memory` in bytes."""
    VITAL = "vital"
    """A sign of life of the run itself, told by the watcher: seconds of silence, steps that were dropped."""
    IMPORTANCE = "importance"
    """What a feature counts for in a model of trees."""
    TREE = "tree"
    """A property of the trees grown in one round: "depth", "leaves", "splits", "trees", "gain"."""

    # As the text that it equals; Enum's own is made in Python, and every look into a table of keys would wait for it.
    __hash__ = str.__hash__


def kind_from_name(name: str) -> Kind:
    """Return the kind of that name.

    Raises:
        UnknownName: No kind is called so; the message says the nearest.

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
    """The identity of a series: what it is, and where in the model.

    Attributes:
        kind: What sort of thing.
        path: Canonical dotted path of the parameter or module, a loss's or scalar's name. An item
            inside a compound value follows in brackets: `lstm[1][0]`, `fc1.weight[exp_avg]`.

    Example:
        >>> str(Key(Kind.WEIGHT, "fc1.bias"))
        'weight:fc1.bias'
    """

    kind: Kind
    path: str

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.path}"


def key_from_text(text: str) -> Key:
    """Return the key that prints as `text`.

    Raises:
        UnknownName: `text` has no colon, or what stands before it is no kind.

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
    """Return the module a parameter belongs to.

    Example:
        >>> layer_path("blocks.0.fc.weight"), layer_path("scale")
        ('blocks.0.fc', '')
        >>> layer_path("head.parametrizations.weight.original0")
        'head'
    """
    # torch keeps what a weight is made of (spectral_norm, weight_norm, orthogonal) in a module below it.
    module, made, _ = parameter_path.partition(".parametrizations.")
    return module if made else parameter_path.rpartition(".")[0]


def canonical_path(path: str) -> str:
    """Return `path` without the names that wrappers put in it.

    A model keeps one set of keys whether it is bare, compiled, or wrapped for data parallelism,
    sharding or activation checkpointing. Only whole components are dropped, so a user's own
    `module_list` stays. A user's own submodule that is called exactly `module` is dropped too: that
    is the price of one set of keys.

    Example:
        >>> canonical_path("_orig_mod.module.fc1.weight")
        'fc1.weight'
        >>> canonical_path("blocks.0._checkpoint_wrapped_module.attn")
        'blocks.0.attn'
    """
    return _WRAPPERS.sub("", path).rstrip(".")
