"""smdebug's public names on Barograph: to move a SageMaker Debugger script or rule, change its imports.

This module has all names, whichever smdebug module has them: `import barograph.smdebug as smd` replaces
`import smdebug.pytorch as smd`, and `from barograph.smdebug import create_trial` replaces
`from smdebug.trials import create_trial`.
"""

from __future__ import annotations

from barograph.debugger.collection import Collection, CollectionKeys
from barograph.debugger.exceptions import (
    InvalidCollectionConfiguration,
    InvalidWorker,
    NoMoreData,
    RuleEvaluationConditionMet,
    ShapeUnavailableForStep,
    SMDebugError,
    SMDebugNotImplementedError,
    SMDebugTypeError,
    SMDebugValueError,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from barograph.debugger.hook import Hook, del_hook, get_hook
from barograph.debugger.modes import ModeKeys, modes
from barograph.debugger.opening import create_trial
from barograph.debugger.reduction_config import ReductionConfig
from barograph.debugger.rule import RequiredTensors, Rule, invoke_rule, no_refresh, refresh
from barograph.debugger.save_config import SaveConfig, SaveConfigMode
from barograph.debugger.tensor import Tensor
from barograph.debugger.trial import StepState, Trial

__all__ = [
    "Collection",
    "CollectionKeys",
    "Hook",
    "InvalidCollectionConfiguration",
    "InvalidWorker",
    "ModeKeys",
    "NoMoreData",
    "ReductionConfig",
    "RequiredTensors",
    "Rule",
    "RuleEvaluationConditionMet",
    "SMDebugError",
    "SMDebugNotImplementedError",
    "SMDebugTypeError",
    "SMDebugValueError",
    "SaveConfig",
    "SaveConfigMode",
    "ShapeUnavailableForStep",
    "StepNotYetAvailable",
    "StepState",
    "StepUnavailable",
    "Tensor",
    "TensorUnavailable",
    "TensorUnavailableForStep",
    "Trial",
    "create_trial",
    "del_hook",
    "get_hook",
    "invoke_rule",
    "modes",
    "no_refresh",
    "refresh",
]
