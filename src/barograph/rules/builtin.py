"""The rules that come with Barograph, in the order of their codes."""

from __future__ import annotations

from barograph.rules.activations import DeadRelu, SaturatedActivation
from barograph.rules.attention import AttentionCollapse
from barograph.rules.base import Rule
from barograph.rules.collapse import ActivationCollapse
from barograph.rules.decay import WeightDecay
from barograph.rules.exploding import ExplodingGradient
from barograph.rules.fed import NonFiniteInput
from barograph.rules.gradients import GradientNormSpike, VanishingGradient
from barograph.rules.imbalance import LayerImbalance
from barograph.rules.initialization import PoorWeightInitialization
from barograph.rules.learning_rates import LearningRate
from barograph.rules.loss_scale import AmpScale
from barograph.rules.losses import LossNotDecreasing, Overfit
from barograph.rules.narrow import UnderflowOverflow
from barograph.rules.nonfinite_origin import NonFiniteOrigin
from barograph.rules.numbers import NonFinite
from barograph.rules.optimizer_state import OptimizerState
from barograph.rules.updates import WeightUpdateRatio
from barograph.rules.values import AllZero, TensorVariance
from barograph.rules.weights import FrozenParameter, UnchangedTensor

RULES: tuple[type[Rule], ...] = (
    DeadRelu,
    SaturatedActivation,
    ActivationCollapse,
    AttentionCollapse,
    VanishingGradient,
    GradientNormSpike,
    ExplodingGradient,
    LossNotDecreasing,
    Overfit,
    NonFinite,
    NonFiniteOrigin,
    UnderflowOverflow,
    NonFiniteInput,
    OptimizerState,
    LearningRate,
    AmpScale,
    WeightDecay,
    WeightUpdateRatio,
    PoorWeightInitialization,
    UnchangedTensor,
    FrozenParameter,
    AllZero,
    TensorVariance,
    LayerImbalance,
)
