"""Tables of consequences: findings and causes that follow from a cause, and remedies that contradict each other.

Add a new rule or cause here if others follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from barograph.model.cause import Cause

NOTHING_LEARNED = frozenset({"L101", "L102", "L103", "L104", "L106", "L108", "W107", "D102"})
"""Rules that report a model that does not learn, for any reason."""

_NO_GRADIENT = NOTHING_LEARNED | {"G101", "W103", "W104", "A103", "W105", "O101"}
"""Rules that report parameters without a gradient."""

_TOO_LARGE = _NO_GRADIENT | {
    "A101", "A102", "A104", "G102", "G103", "L105", "L107", "N101", "N102", "N103", "O103", "O104", "P107", "W101",
    "W102", "W106",
}
"""Rules that report too large updates, gradients or activations, and their effects on the model."""

_NOT_FINITE = _TOO_LARGE - {"L107", "W102", "O104"}
"""Rules that report the effects of NaN and infinite values."""

_MISREAD_AS = frozenset({
    Cause.LABELS_UNRELATED, Cause.LEARNING_RATE_TOO_LOW, Cause.OVERFITTING, Cause.VANISHING_GRADIENT,
    Cause.REPRESENTATION_COLLAPSE, Cause.DETACHED_GRAPH, Cause.CONSTANT_INITIALIZATION, Cause.FROZEN_PARAMETER,
    Cause.CLASS_IMBALANCE, Cause.FP16_UNDERFLOW, Cause.STALE_OPTIMIZER, Cause.ATTENTION_COLLAPSE,
    Cause.UNUSED_PARAMETER,
})
"""Causes easily confused with a model that cannot learn."""

_OF_LARGE_STEPS = _MISREAD_AS | {
    Cause.DEAD_RELU, Cause.SATURATED_ACTIVATION, Cause.EXPLODING_GRADIENT, Cause.NO_GRADIENT_CLIPPING,
    Cause.INITIALIZATION_SCALE, Cause.FP16_OVERFLOW, Cause.LOSS_SCALE_COLLAPSE, Cause.NO_WARMUP, Cause.BAD_SAMPLE,
    Cause.SCRIPT_ERROR, Cause.MOMENTUM_WRONG, Cause.EXP_OVERFLOW,
}
"""Causes that follow from too large updates."""

_DEAD = _MISREAD_AS | {Cause.INITIALIZATION_SCALE, Cause.SATURATED_ACTIVATION}
_STRUCK = _OF_LARGE_STEPS | {Cause.LEARNING_RATE_TOO_HIGH}

RULES_AFTER: Mapping[str, frozenset[str]] = {
    **dict.fromkeys((Cause.DEAD_RELU, Cause.SATURATED_ACTIVATION, Cause.CONSTANT_INITIALIZATION,
                     Cause.DETACHED_GRAPH, Cause.ATTENTION_COLLAPSE, Cause.VANISHING_GRADIENT,
                     Cause.FP16_UNDERFLOW), _NO_GRADIENT),
    Cause.REPRESENTATION_COLLAPSE: NOTHING_LEARNED | {"A101", "G101", "W104"},
    Cause.WEIGHT_DECAY_TOO_LARGE: _NO_GRADIENT | {"A101"},
    Cause.SOFTMAX_WRONG_AXIS: _NO_GRADIENT,
    **dict.fromkeys((Cause.FROZEN_PARAMETER, Cause.PARAMETER_NOT_IN_OPTIMIZER, Cause.UNUSED_PARAMETER),
                    NOTHING_LEARNED | {"W103", "W104", "W105"}),
    Cause.STALE_OPTIMIZER: _NO_GRADIENT | {"G103", "L105"},
    **dict.fromkeys((Cause.LEARNING_RATE_TOO_LOW, Cause.SCHEDULER_MISPLACED),
                    NOTHING_LEARNED | {"W101", "W103", "W104"}),
    **dict.fromkeys((Cause.WRONG_LOSS, Cause.SOFTMAX_TWICE, Cause.BROADCAST_TARGETS, Cause.LABELS_UNRELATED,
                     Cause.LABELS_OFF_BY_ONE, Cause.REPEATED_BATCH, Cause.CLASS_IMBALANCE,
                     Cause.EVAL_MODE_IN_TRAINING, Cause.TRAIN_MODE_IN_EVALUATION, Cause.OPTIMIZER_STATE_LOST),
                    NOTHING_LEARNED | {"A103"}),
    Cause.LOGITS_AS_PROBABILITIES: _TOO_LARGE,
    Cause.UNSHUFFLED_DATA: NOTHING_LEARNED | {"A103", "G102"},
    **dict.fromkeys((Cause.LEARNING_RATE_TOO_HIGH, Cause.NO_WARMUP, Cause.MOMENTUM_WRONG, Cause.EXPLODING_GRADIENT,
                     Cause.NO_GRADIENT_CLIPPING, Cause.INITIALIZATION_SCALE, Cause.BAD_SAMPLE, Cause.LOSS_SIGN,
                     Cause.GRADIENTS_NOT_RESET), _TOO_LARGE),
    # Large inputs alone make no NaN: what made it is worth finding.
    Cause.INPUT_NOT_NORMALIZED: _TOO_LARGE - {"N101", "N102"},
    **dict.fromkeys((Cause.NON_FINITE_INPUT, Cause.EXP_OVERFLOW, Cause.LOG_OF_ZERO, Cause.DIVISION_BY_ZERO,
                     Cause.SQRT_OF_ZERO, Cause.FP16_OVERFLOW, Cause.LOSS_SCALE_COLLAPSE), _NOT_FINITE | {"N104"}),
    Cause.TREES_ADD_NOTHING: frozenset({"W103", "L101", "L103", "T104"}),
    Cause.OVERFITTING: frozenset({"L103", "T104"}),
    **dict.fromkeys((Cause.TARGETS_IN_INPUT, Cause.LEAKY_VALIDATION), frozenset({"L102", "L103", "T104"})),
    Cause.SLOW_DATA_LOADING: frozenset({"M102", "M103", "M104", "M107", "M109", "M114", "P106"}),
    Cause.MEMORY_LEAK: frozenset({"M105", "M111", "M113"}),
}
"""Rules whose findings follow from a cause, by their codes."""

CAUSES_AFTER: Mapping[str, frozenset[str]] = {
    **dict.fromkeys((Cause.DEAD_RELU, Cause.SATURATED_ACTIVATION, Cause.CONSTANT_INITIALIZATION,
                     Cause.WEIGHT_DECAY_TOO_LARGE, Cause.SOFTMAX_WRONG_AXIS), _DEAD),
    **dict.fromkeys((Cause.DETACHED_GRAPH, Cause.FP16_UNDERFLOW, Cause.FROZEN_PARAMETER,
                     Cause.PARAMETER_NOT_IN_OPTIMIZER, Cause.UNUSED_PARAMETER, Cause.SCHEDULER_MISPLACED,
                     Cause.LEARNING_RATE_TOO_LOW, Cause.WRONG_LOSS, Cause.SOFTMAX_TWICE,
                     Cause.BROADCAST_TARGETS, Cause.REPEATED_BATCH, Cause.LABELS_OFF_BY_ONE,
                     Cause.EVAL_MODE_IN_TRAINING, Cause.ATTENTION_COLLAPSE, Cause.VANISHING_GRADIENT,
                     Cause.REPRESENTATION_COLLAPSE, Cause.OPTIMIZER_STATE_LOST), _MISREAD_AS),
    # A layer that has been replaced, and is not trained, looks like an explosion at first.
    Cause.STALE_OPTIMIZER: _STRUCK,
    Cause.UNSHUFFLED_DATA: _MISREAD_AS | {Cause.BAD_SAMPLE},
    Cause.CLASS_IMBALANCE: frozenset({Cause.OVERFITTING, Cause.LABELS_UNRELATED}),
    # While the data leaks, neither loss says whether the model generalizes.
    **dict.fromkeys((Cause.TARGETS_IN_INPUT, Cause.LEAKY_VALIDATION), frozenset({Cause.OVERFITTING})),
    Cause.LABELS_UNRELATED: frozenset({Cause.OVERFITTING, Cause.LEARNING_RATE_TOO_LOW, Cause.CLASS_IMBALANCE}),
    Cause.LOGITS_AS_PROBABILITIES: _STRUCK | {Cause.LOG_OF_ZERO, Cause.LOSS_SIGN, Cause.WRONG_LOSS},
    **dict.fromkeys((Cause.LEARNING_RATE_TOO_HIGH, Cause.NO_WARMUP, Cause.MOMENTUM_WRONG, Cause.EXPLODING_GRADIENT,
                     Cause.NO_GRADIENT_CLIPPING), _OF_LARGE_STEPS),
    **dict.fromkeys((Cause.INITIALIZATION_SCALE, Cause.INPUT_NOT_NORMALIZED, Cause.BAD_SAMPLE, Cause.LOSS_SIGN,
                     Cause.GRADIENTS_NOT_RESET, Cause.NON_FINITE_INPUT, Cause.EXP_OVERFLOW, Cause.LOG_OF_ZERO,
                     Cause.DIVISION_BY_ZERO, Cause.SQRT_OF_ZERO, Cause.FP16_OVERFLOW,
                     Cause.LOSS_SCALE_COLLAPSE), _STRUCK),
}
"""Causes suspected as a consequence of another cause."""

PRESUME_LEARNING = frozenset({"L102", "L103", "T104"})
"""Rules that report a model that learned and was trained on. One that cannot learn may look like it, but does not
overfit: their findings are consequences of the causes in `LEARNS_ANYWAY` only."""

LEARNS_ANYWAY = frozenset({
    Cause.OVERFITTING, Cause.FROZEN_PARAMETER, Cause.PARAMETER_NOT_IN_OPTIMIZER, Cause.UNUSED_PARAMETER,
    Cause.STALE_OPTIMIZER, Cause.OPTIMIZER_STATE_LOST, Cause.CLASS_IMBALANCE, Cause.UNSHUFFLED_DATA,
    Cause.REPEATED_BATCH, Cause.LABELS_UNRELATED, Cause.NO_WARMUP, Cause.NO_GRADIENT_CLIPPING,
    Cause.INPUT_NOT_NORMALIZED, Cause.EVAL_MODE_IN_TRAINING, Cause.TRAIN_MODE_IN_EVALUATION,
    Cause.TARGETS_IN_INPUT, Cause.LEAKY_VALIDATION,
})
"""Causes that make a model learn less, or something else, and let it overfit."""

WITNESSES: Mapping[str, tuple[str, ...]] = {
    Cause.LEARNING_RATE_TOO_HIGH: ("W101", "L105", "G103", "L104"),
    Cause.EXPLODING_GRADIENT: ("G103",),
    Cause.NON_FINITE_INPUT: ("N104",),
    Cause.DEAD_RELU: ("A101",),
    Cause.SATURATED_ACTIVATION: ("A102",),
    Cause.VANISHING_GRADIENT: ("G101",),
    Cause.REPRESENTATION_COLLAPSE: ("A103",),
    Cause.LABELS_UNRELATED: ("L108",),
    Cause.OVERFITTING: ("L102", "T104"),
}
"""Rules that detect a cause directly, best first: the first one with a finding gives the evidence."""

SYMPTOMS: tuple[str, ...] = (
    "N104", "N101", "N102", "N103", "P107", "L105", "G103", "W101", "A101", "A102", "A103", "G101", "W104", "W103",
    "L108", "L101", "L104", "L106", "L102", "L103",
)
"""Rules in causal order, for findings without a known cause."""

AFTER_SYMPTOM: Mapping[str, frozenset[str]] = {
    "N104": _NOT_FINITE,
    "N101": _NOT_FINITE,
    "N102": _NOT_FINITE,
    "L105": _TOO_LARGE - {"N101", "N102"},
    "G103": _TOO_LARGE,
    "W101": _TOO_LARGE,
    "A101": _NO_GRADIENT,
    "A102": _NO_GRADIENT,
    "A103": NOTHING_LEARNED,
    "G101": NOTHING_LEARNED | {"W104"},
    "W104": NOTHING_LEARNED,
    "L108": frozenset({"L101", "L102", "L103", "L106", "D102"}),
    "L101": frozenset({"L102", "L103", "L106", "L108"}),
    "L106": frozenset({"L103"}),
    "L102": frozenset({"L103"}),
}
"""Rules whose findings follow from another rule's finding, if no cause is known."""

BY_LARGE_STEPS = frozenset({
    "A101", "A102", "A103", "G102", "G103", "L101", "L104", "L105", "L108", "N101", "N102", "W101", "W104", "W106",
})
"""Rules whose findings a jump of the learning rate explains."""


SEEN_IN_SCRIPT: Mapping[str, frozenset[str]] = {
    "P108": frozenset({Cause.PARAMETER_NOT_IN_OPTIMIZER, Cause.STALE_OPTIMIZER, Cause.OPTIMIZER_STATE_LOST}),
}
"""Causes that a rule sees in what the script does, not in its numbers: they follow from no other cause."""

BEGIN_LATER = frozenset({
    Cause.BAD_SAMPLE, Cause.NON_FINITE_INPUT, Cause.EXP_OVERFLOW, Cause.LOG_OF_ZERO, Cause.DIVISION_BY_ZERO,
    Cause.SQRT_OF_ZERO, Cause.FP16_OVERFLOW, Cause.EXPLODING_GRADIENT, Cause.SCHEDULER_MISPLACED, Cause.SCRIPT_ERROR,
    Cause.STALE_OPTIMIZER,
})
"""Causes that start at some step of the training; the others act from the first step."""


class Direction(IntEnum):
    """Whether a remedy raises or lowers a setting."""

    DOWN = -1
    UP = 1


DIRECTIONS: Mapping[str, tuple[str, Direction]] = {
    Cause.LEARNING_RATE_TOO_HIGH: ("learning rate", Direction.DOWN),
    Cause.NO_WARMUP: ("learning rate", Direction.DOWN),
    Cause.LEARNING_RATE_TOO_LOW: ("learning rate", Direction.UP),
    Cause.MOMENTUM_WRONG: ("momentum", Direction.DOWN),
    Cause.WEIGHT_DECAY_TOO_LARGE: ("weight decay", Direction.DOWN),
    Cause.OVERFITTING: ("weight decay", Direction.UP),
    Cause.TREES_TOO_DEEP: ("depth of trees", Direction.DOWN),
}
"""The setting that the remedy of a cause changes, and its direction."""
