"""The rules that come with Barograph, in the order of their codes."""

from __future__ import annotations

from barograph.rules.activations import DeadRelu, SaturatedActivation
from barograph.rules.base import Rule
from barograph.rules.gradients import GradientNormSpike, VanishingGradient
from barograph.rules.initialization import PoorWeightInitialization
from barograph.rules.losses import LossNotDecreasing, Overfit
from barograph.rules.numbers import NonFinite
from barograph.rules.updates import WeightUpdateRatio
from barograph.rules.weights import FrozenParameter, UnchangedTensor

RULES: tuple[type[Rule], ...] = (
    DeadRelu,
    SaturatedActivation,
    VanishingGradient,
    GradientNormSpike,
    LossNotDecreasing,
    Overfit,
    NonFinite,
    WeightUpdateRatio,
    PoorWeightInitialization,
    UnchangedTensor,
    FrozenParameter,
)
