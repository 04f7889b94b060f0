"""Causes of training faults, and how strongly a finding suspects them.

A finding reports a symptom; several causes may be behind it. The names of causes are few and fixed, so that the
suspicions of several rules add up, and so that tests can plant a fault and check which cause is named first.
Custom rules may use their own names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """A cause of a training fault."""

    # The optimizer and its schedule
    LEARNING_RATE_TOO_HIGH = "learning-rate-too-high"
    """Updates are too large for the loss surface."""
    LEARNING_RATE_TOO_LOW = "learning-rate-too-low"
    """Updates are so small that the training ends before the model learns anything."""
    SCHEDULER_MISPLACED = "scheduler-misplaced"
    """The scheduler steps once per batch although it counts epochs, or at another wrong place."""
    NO_WARMUP = "no-warmup"
    """The full learning rate is used from the first step, although the model needs a warmup."""
    WEIGHT_DECAY_TOO_LARGE = "weight-decay-too-large"
    """Weights are pulled to zero faster than the gradient can hold them."""
    MOMENTUM_WRONG = "momentum-wrong"
    """Momentum is so high that updates overshoot, or it is applied wrongly."""
    OPTIMIZER_STATE_LOST = "optimizer-state-lost"
    """The optimizer is recreated again and again, and loses its momentum."""
    NO_GRADIENT_CLIPPING = "no-gradient-clipping"
    """Gradients grow over recurrence or depth, and are not clipped."""

    # Which parameters learn
    FROZEN_PARAMETER = "frozen-parameter"
    """A parameter that should learn does not require a gradient."""
    PARAMETER_NOT_IN_OPTIMIZER = "parameter-not-in-optimizer"
    """A parameter gets a gradient, but is in no optimizer."""
    STALE_OPTIMIZER = "stale-optimizer"
    """The optimizer holds parameters that the model no longer has."""
    DETACHED_GRAPH = "detached-graph"
    """The graph is cut between the loss and the parameters: `detach`, `item`, `.data`, `no_grad`, NumPy."""
    UNUSED_PARAMETER = "unused-parameter"
    """A module is not used in the forward pass."""

    # The loop
    GRADIENTS_NOT_RESET = "gradients-not-reset"
    """`zero_grad` is missing, and gradients of earlier steps add up."""
    EVAL_MODE_IN_TRAINING = "eval-mode-in-training"
    """The model trains with dropout and batch normalization in evaluation mode."""
    TRAIN_MODE_IN_EVALUATION = "train-mode-in-evaluation"
    """The model is evaluated with dropout and batch normalization in training mode."""
    INPLACE_UPDATE = "inplace-update"
    """A tensor that the backward pass needs is changed in place."""
    GRADIENTS_NOT_AVERAGED = "gradients-not-averaged"
    """Workers do not average their gradients, so their replicas drift apart."""
    SAME_DATA_ON_ALL_WORKERS = "same-data-on-all-workers"
    """All workers train on the same samples."""
    NONDETERMINISM = "nondeterminism"
    """The same step gives different numbers when it is run again."""

    # The loss
    WRONG_LOSS = "wrong-loss"
    """The loss function does not fit the task, such as squared error on class numbers."""
    LOSS_SIGN = "loss-sign"
    """The loss is maximized instead of minimized."""
    SOFTMAX_TWICE = "softmax-twice"
    """The loss expects logits and gets probabilities (softmax or sigmoid applied twice)."""
    LOGITS_AS_PROBABILITIES = "logits-as-probabilities"
    """The loss expects probabilities or their logarithms and gets logits."""
    SOFTMAX_WRONG_AXIS = "softmax-wrong-axis"
    """Softmax runs over the samples of the batch, not over the classes."""
    BROADCAST_TARGETS = "broadcast-targets"
    """Outputs of shape (N, 1) and targets of shape (N,) are broadcast to N × N pairs."""

    # Data
    LABELS_UNRELATED = "labels-unrelated"
    """Labels do not match their inputs: shuffled, shifted or random."""
    LABELS_OFF_BY_ONE = "labels-off-by-one"
    """Labels or targets are shifted by one: classes counted from 1, a sequence shifted wrongly."""
    TARGETS_IN_INPUT = "targets-in-input"
    """The target leaks into the input."""
    INPUT_NOT_NORMALIZED = "input-not-normalized"
    """Inputs are far from zero mean and unit variance."""
    NON_FINITE_INPUT = "non-finite-input"
    """The data contains NaN or infinite values."""
    BAD_SAMPLE = "bad-sample"
    """One sample is far out of range."""
    UNSHUFFLED_DATA = "unshuffled-data"
    """Batches are sorted by label or in another informative order."""
    REPEATED_BATCH = "repeated-batch"
    """The same batch is used again and again."""
    CLASS_IMBALANCE = "class-imbalance"
    """Some classes are so rare that ignoring them lowers the loss."""
    LEAKY_VALIDATION = "leaky-validation"
    """The validation data contains training samples."""
    OVERFITTING = "overfitting"
    """The model memorizes its training samples."""

    # The model and its initialization
    DEAD_RELU = "dead-relu"
    """Units of a ReLU layer output zero for every sample."""
    SATURATED_ACTIVATION = "saturated-activation"
    """Tanh or sigmoid units are saturated and pass no gradient."""
    VANISHING_GRADIENT = "vanishing-gradient"
    """The gradient vanishes on its way back through the layers."""
    EXPLODING_GRADIENT = "exploding-gradient"
    """The gradient grows on its way back through layers or recurrence."""
    CONSTANT_INITIALIZATION = "constant-initialization"
    """Units of a layer are initialized equal and stay equal."""
    INITIALIZATION_SCALE = "initialization-scale"
    """Initial weights are far too large or far too small."""
    ATTENTION_COLLAPSE = "attention-collapse"
    """Attention is on one position only, or uniform."""
    REPRESENTATION_COLLAPSE = "representation-collapse"
    """Different inputs give almost the same output."""

    # Numbers
    FP16_UNDERFLOW = "fp16-underflow"
    """Values too small for half precision are flushed to zero."""
    FP16_OVERFLOW = "fp16-overflow"
    """Values too large for half precision become infinite."""
    LOSS_SCALE_COLLAPSE = "loss-scale-collapse"
    """The gradient scaler halves its scale again and again."""
    EXP_OVERFLOW = "exp-overflow"
    """The exponential of a large number is infinite, as in a hand-written softmax."""
    LOG_OF_ZERO = "log-of-zero"
    """A logarithm gets zero, such as a probability of exactly 0 or 1."""
    DIVISION_BY_ZERO = "division-by-zero"
    """A division by zero or almost zero, such as a norm, a count or a standard deviation."""
    SQRT_OF_ZERO = "sqrt-of-zero"
    """A square root or norm is taken at zero, where its gradient is infinite."""
    OUT_OF_DOMAIN = "out-of-domain"
    """An operation got a value outside its domain: a logarithm or root of a negative number, acos beyond ±1."""
    INFINITE_DERIVATIVE = "infinite-derivative"
    """An operation has a finite output and an infinite derivative: acos at ±1, SVD with equal singular values."""
    FULLY_MASKED = "fully-masked"
    """A softmax gets a row that is fully masked with −inf."""
    NOTHING_TO_AVERAGE = "nothing-to-average"
    """A mean over no elements: all labels of the batch are ignored, or a selection is empty."""
    NOT_KNOWN_YET = "not-known-yet"
    """No record explains it; replay the failing step to find the cause."""

    # Trees and machines
    TREES_TOO_DEEP = "trees-too-deep"
    """Trees are too deep for the amount of data."""
    TREES_ADD_NOTHING = "trees-add-nothing"
    """Trees of later rounds have no split, so predictions no longer change: no gain is left, or none is allowed."""
    FEW_FEATURES_DOMINATE = "few-features-dominate"
    """A few features have nearly all importance: one may leak the label."""
    SLOW_DATA_LOADING = "slow-data-loading"
    """Training waits for its data."""
    MACHINE_UNDERUSED = "machine-underused"
    """The machine is underused."""
    MEMORY_LEAK = "memory-leak"
    """Memory use grows from step to step."""
    SLOW_WORKER = "slow-worker"
    """One worker is slower than the others, which wait for it."""
    SCRIPT_ERROR = "script-error"
    """The script ended with an error."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A possible cause of a finding, with the evidence for it in this run.

    Attributes:
        cause: Name: one of `Cause`, or a custom one in the same style.
        weight: Strength of the evidence, from 0 to 1: about 0.9 if the cause itself was seen (two softmax in one
            graph), 0.5 if a number points at it, 0.2 or less for a usual suspect with nothing against it.
        why: The evidence with its numbers, in one sentence.
        remedy: What to do, with the setting and its old and new value; "" to use the finding's remedy.
    """

    cause: str
    weight: float
    why: str = ""
    remedy: str = ""

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight <= 1.0:
            raise ValueError(f"the weight of a suspicion is {self.weight!r}; it must be from 0 to 1")
