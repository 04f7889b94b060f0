"""The rules that come with Barograph, in the order of their codes."""

from __future__ import annotations

from barograph.rules.across_runs import SimilarAcrossRuns
from barograph.rules.activations import DeadRelu, SaturatedActivation
from barograph.rules.again import NonDeterminism
from barograph.rules.attention import AttentionCollapse
from barograph.rules.base import Rule
from barograph.rules.batches import LeakyValidation, RepeatedBatch, UnshuffledData
from barograph.rules.boosting import RoundsPastBest, Shrinkage
from barograph.rules.chance import Plateau, Underfit, WrongChance
from barograph.rules.collapse import ActivationCollapse
from barograph.rules.confusion import Confusion
from barograph.rules.decay import WeightDecay
from barograph.rules.divergence import Divergence
from barograph.rules.exploding import ExplodingGradient
from barograph.rules.fed import NonFiniteInput
from barograph.rules.gradients import GradientNormSpike, VanishingGradient
from barograph.rules.imbalance import ClassImbalance
from barograph.rules.initialization import PoorWeightInitialization
from barograph.rules.inputs import NLPSequenceRatio, NotNormalizedInput, TargetInInput
from barograph.rules.label_range import LabelRange
from barograph.rules.layer_imbalance import LayerImbalance
from barograph.rules.learning_rates import LearningRate
from barograph.rules.loop import GradientsNotReset, TrainEvalMode
from barograph.rules.loss_scale import AmpScale
from barograph.rules.losses import LossNotDecreasing, Overfit
from barograph.rules.memory_growth import GPUMemoryIncrease, HostMemoryLeak
from barograph.rules.mismatch import LossMismatch
from barograph.rules.narrow import UnderflowOverflow
from barograph.rules.nonfinite_origin import NonFiniteOrigin
from barograph.rules.numbers import NonFinite
from barograph.rules.optimizer_state import OptimizerState
from barograph.rules.overtraining import Overtraining
from barograph.rules.parameters import ParametersAndOptimizer
from barograph.rules.replicas import ReplicasDiverge, SameDataOnAllWorkers
from barograph.rules.run_signs import MaxInitializationTime, RecordingDropped
from barograph.rules.spikes import LossSpike
from barograph.rules.step_time import Dataloader, OverallFrameworkMetrics, StepOutlier, Straggler
from barograph.rules.trees import FeatureImportanceOverweight, TreeDepth
from barograph.rules.updates import WeightUpdateRatio
from barograph.rules.utilization import (
    BatchSize,
    CPUBottleneck,
    IOBottleneck,
    LoadBalancing,
    LowGPUUtilization,
    OverallSystemUsage,
)
from barograph.rules.values import AllZero, TensorVariance
from barograph.rules.vitals import ScriptError, StalledTraining
from barograph.rules.weights import FrozenParameter, UnchangedTensor

RULES: tuple[type[Rule], ...] = (
    DeadRelu,
    SaturatedActivation,
    ActivationCollapse,
    AttentionCollapse,
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
    ExplodingGradient,
    LossNotDecreasing,
    Overfit,
    Overtraining,
    LossSpike,
    Divergence,
    Plateau,
    WrongChance,
    Underfit,
    BatchSize,
    CPUBottleneck,
    IOBottleneck,
    LowGPUUtilization,
    GPUMemoryIncrease,
    LoadBalancing,
    Dataloader,
    MaxInitializationTime,
    StepOutlier,
    Straggler,
    HostMemoryLeak,
    RecordingDropped,
    OverallSystemUsage,
    OverallFrameworkMetrics,
    NonFinite,
    NonFiniteOrigin,
    UnderflowOverflow,
    NonFiniteInput,
    OptimizerState,
    LearningRate,
    AmpScale,
    WeightDecay,
    GradientsNotReset,
    TrainEvalMode,
    ReplicasDiverge,
    SameDataOnAllWorkers,
    NonDeterminism,
    StalledTraining,
    ScriptError,
    ParametersAndOptimizer,
    SimilarAcrossRuns,
    TreeDepth,
    FeatureImportanceOverweight,
    Shrinkage,
    RoundsPastBest,
    WeightUpdateRatio,
    PoorWeightInitialization,
    UnchangedTensor,
    FrozenParameter,
    AllZero,
    TensorVariance,
    LayerImbalance,
)
