"""The rules that come with Barograph, in the order of their codes."""

from __future__ import annotations

from barograph.rules.activations import DeadRelu, SaturatedActivation
from barograph.rules.again import NonDeterminism
from barograph.rules.base import Rule
from barograph.rules.batches import LeakyValidation, RepeatedBatch, UnshuffledData
from barograph.rules.chance import Plateau, Underfit, WrongChance
from barograph.rules.confusion import Confusion
from barograph.rules.divergence import Divergence
from barograph.rules.gradients import GradientNormSpike, VanishingGradient
from barograph.rules.imbalance import ClassImbalance
from barograph.rules.initialization import PoorWeightInitialization
from barograph.rules.inputs import NLPSequenceRatio, NotNormalizedInput, TargetInInput
from barograph.rules.label_range import LabelRange
from barograph.rules.loop import GradientsNotReset, TrainEvalMode
from barograph.rules.losses import LossNotDecreasing, Overfit
from barograph.rules.mismatch import LossMismatch
from barograph.rules.numbers import NonFinite
from barograph.rules.overtraining import Overtraining
from barograph.rules.parameters import ParametersAndOptimizer
from barograph.rules.replicas import ReplicasDiverge, SameDataOnAllWorkers
from barograph.rules.spikes import LossSpike
from barograph.rules.trees import FeatureImportanceOverweight, TreeDepth
from barograph.rules.updates import WeightUpdateRatio
from barograph.rules.vitals import ScriptError, StalledTraining
from barograph.rules.weights import FrozenParameter, UnchangedTensor

RULES: tuple[type[Rule], ...] = (
    DeadRelu,
    SaturatedActivation,
    ClassImbalance,
    Confusion,
    NotNormalizedInput,
    NLPSequenceRatio,
    RepeatedBatch,
    UnshuffledData,
    LabelRange,
    LossMismatch,
    LeakyValidation,
    TargetInInput,
    VanishingGradient,
    GradientNormSpike,
    LossNotDecreasing,
    Overfit,
    Overtraining,
    LossSpike,
    Divergence,
    Plateau,
    WrongChance,
    Underfit,
    NonFinite,
    GradientsNotReset,
    TrainEvalMode,
    ReplicasDiverge,
    SameDataOnAllWorkers,
    NonDeterminism,
    StalledTraining,
    ScriptError,
    ParametersAndOptimizer,
    TreeDepth,
    FeatureImportanceOverweight,
    WeightUpdateRatio,
    PoorWeightInitialization,
    UnchangedTensor,
    FrozenParameter,
)
