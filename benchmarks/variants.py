"""The variants of the step benchmark: each tool in each configuration, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.environments import OWN

BASE = "bare"
"""The variant by which every other one is divided."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One tool in one configuration.

    Attributes:
        tool: Module of `benchmarks.tools`.
        does: What it records, for the table.
        environment: Environment whose interpreter runs it.
        options: Arguments of the tool's `attach`.
        stretch: Factor of the measured time, for tools that settle slowly.
        asked: Measured only if requested by name.
    """

    tool: str
    does: str
    environment: str = OWN
    options: Mapping[str, Any] = field(default_factory=dict)
    stretch: float = 1.0
    asked: bool = False


def _barograph(does: str, **options: Any) -> Variant:
    return Variant("barograph", does, options=options)


VARIANTS: Mapping[str, Variant] = {
    BASE: Variant("bare", "nothing"),
    "barograph": Variant("barograph", "the default settings, with the default budget of 1%", stretch=4.0),
    "barograph-free": _barograph("losses and learning rates only; no budget", preset="free"),
    "barograph-recorder": _barograph(
        "the same with the flight recorder: every gradient checked, every step kept", preset="free", recorder=True
    ),
    "barograph-moments": _barograph(
        "moments of all weights, gradients and leaf outputs, and the loss, every step; no budget", preset="moments"
    ),
    "barograph-sampled": _barograph("the same with sampled exponent histograms", preset="sampled"),
    "barograph-exact": _barograph("the same with exact exponent histograms", preset="exact"),
    "barograph-units": _barograph("moments, and every unit of every leaf output", preset="units"),
    "barograph-updates": _barograph("moments, and the update of each weight", preset="updates"),
    "barograph-everything": Variant(
        "barograph", "every kind of record, every step", options={"preset": "everything"}, asked=True
    ),
    "tensorboard": Variant(
        "tensorboard", "add_histogram of all weights and gradients, and the loss, every step", "tensorboard"
    ),
    "wandb": Variant("wandb", 'watch(log="all", log_freq=1), offline, and the loss', "wandb"),
    "trainscope": Variant("trainscope", "its default profile", "trainscope"),
    "trainscope-debug": Variant(
        "trainscope", 'its profile "debug": everything, every step', "trainscope", {"profile": "debug"}
    ),
    "smdebug": Variant(
        "smdebug", "five reductions of weights, biases, gradients and losses, every step", "smdebug"
    ),
    "smdebug-raw": Variant("smdebug", "the same tensors, complete", "smdebug", {"raw": True}, asked=True),
}
