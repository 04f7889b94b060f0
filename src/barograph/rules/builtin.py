"""The rules that come with Barograph, in the order of their codes."""

from __future__ import annotations

from barograph.rules.activations import DeadRelu, SaturatedActivation
from barograph.rules.base import Rule
from barograph.rules.gradients import GradientNormSpike, VanishingGradient
from barograph.rules.initialization import PoorWeightInitialization
from barograph.rules.losses import LossNotDecreasing, Overfit
from barograph.rules.memory_growth import GPUMemoryIncrease, HostMemoryLeak
from barograph.rules.numbers import NonFinite
from barograph.rules.run_signs import MaxInitializationTime, RecordingDropped
from barograph.rules.step_time import Dataloader, OverallFrameworkMetrics, StepOutlier, Straggler
from barograph.rules.updates import WeightUpdateRatio
from barograph.rules.utilization import (
    BatchSize,
    CPUBottleneck,
    IOBottleneck,
    LoadBalancing,
    LowGPUUtilization,
    OverallSystemUsage,
)
from barograph.rules.weights import FrozenParameter, UnchangedTensor

RULES: tuple[type[Rule], ...] = (
    DeadRelu,
    SaturatedActivation,
    VanishingGradient,
    GradientNormSpike,
    LossNotDecreasing,
    Overfit,
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
    WeightUpdateRatio,
    PoorWeightInitialization,
    UnchangedTensor,
    FrozenParameter,
)
