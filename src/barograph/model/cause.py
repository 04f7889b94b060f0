"""Why training goes wrong: the names that findings give to causes, and how strongly a cause is suspected.

A finding says what was seen; what is behind it may be one of several things. The names are few and fixed,
so that what two rules suspect adds up, and so that a fault planted on purpose can be checked against the
cause that was named first. A rule of one's own may use names of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """What may be wrong with a training."""

    # The optimizer and its schedule
    LEARNING_RATE_TOO_HIGH = "learning-rate-too-high"
    """The steps are larger than the loss surface bears."""
    LEARNING_RATE_TOO_LOW = "learning-rate-too-low"
    """The steps are so small that the planned training ends before anything is learnt."""
    SCHEDULER_MISPLACED = "scheduler-misplaced"
    """The scheduler is stepped for each batch where it counts epochs, or at another wrong place."""
    NO_WARMUP = "no-warmup"
    """The full learning rate from the first step, where the model bears it only later."""
    WEIGHT_DECAY_TOO_LARGE = "weight-decay-too-large"
    """Weights are pulled to zero faster than the gradient can hold them."""
    MOMENTUM_WRONG = "momentum-wrong"
    """Momentum so high that steps overshoot, or applied wrongly."""
    OPTIMIZER_STATE_LOST = "optimizer-state-lost"
    """The optimizer is made anew again and again, and forgets its momentum."""
    NO_GRADIENT_CLIPPING = "no-gradient-clipping"
    """Gradients grow through many steps of recurrence or depth, and nothing bounds them."""

    # Which parameters learn
    FROZEN_PARAMETER = "frozen-parameter"
    """A parameter that should learn does not ask for a gradient."""
    PARAMETER_NOT_IN_OPTIMIZER = "parameter-not-in-optimizer"
    """A parameter gets a gradient, and no optimizer moves it."""
    STALE_OPTIMIZER = "stale-optimizer"
    """The optimizer holds parameters that the model no longer has."""
    DETACHED_GRAPH = "detached-graph"
    """The graph is cut between the loss and the parameters: `detach`, `item`, `.data`, `no_grad`, NumPy."""
    UNUSED_PARAMETER = "unused-parameter"
    """A module of the model takes no part in its forward pass."""

    # The loop
    GRADIENTS_NOT_RESET = "gradients-not-reset"
    """`zero_grad` is missing, and gradients of earlier steps add up."""
    EVAL_MODE_IN_TRAINING = "eval-mode-in-training"
    """The model trains with dropout and batch normalisation in evaluation mode."""
    TRAIN_MODE_IN_EVALUATION = "train-mode-in-evaluation"
    """The model is evaluated with dropout and batch normalisation in training mode."""
    INPLACE_UPDATE = "inplace-update"
    """A tensor that the backward pass needs was changed in place."""
    GRADIENTS_NOT_AVERAGED = "gradients-not-averaged"
    """Workers step on their own gradients, and their replicas drift apart."""
    SAME_DATA_ON_ALL_WORKERS = "same-data-on-all-workers"
    """Every worker is fed the same samples."""
    NONDETERMINISM = "nondeterminism"
    """The same step gives other numbers when it is run again."""

    # The loss
    WRONG_LOSS = "wrong-loss"
    """The loss function does not fit the task: squared error on class numbers, say."""
    LOSS_SIGN = "loss-sign"
    """What should be minimised is maximised."""
    SOFTMAX_TWICE = "softmax-twice"
    """Probabilities go into a loss that wants logits (softmax or sigmoid applied twice)."""
    LOGITS_AS_PROBABILITIES = "logits-as-probabilities"
    """Logits go into a loss that wants probabilities or their logarithms."""
    SOFTMAX_WRONG_AXIS = "softmax-wrong-axis"
    """Softmax runs over the samples of the batch, not over the classes."""
    BROADCAST_TARGETS = "broadcast-targets"
    """Outputs of shape (N, 1) and targets of shape (N,) make a loss over N × N pairs."""

    # Data
    LABELS_UNRELATED = "labels-unrelated"
    """Labels do not belong to their inputs: shuffled, shifted against them, or random."""
    LABELS_OFF_BY_ONE = "labels-off-by-one"
    """Labels or targets are shifted by one: classes counted from 1, a sequence shifted wrongly."""
    TARGETS_IN_INPUT = "targets-in-input"
    """What is to be predicted stands in the input."""
    INPUT_NOT_NORMALIZED = "input-not-normalized"
    """Inputs far from zero mean and unit variance."""
    NON_FINITE_INPUT = "non-finite-input"
    """NaN or infinite values in the data."""
    BAD_SAMPLE = "bad-sample"
    """A single sample far out of the range of all others."""
    UNSHUFFLED_DATA = "unshuffled-data"
    """Batches come sorted by label, or otherwise in an order that says something."""
    REPEATED_BATCH = "repeated-batch"
    """The same batch is fed again and again."""
    CLASS_IMBALANCE = "class-imbalance"
    """Some classes are so rare that the model does well to ignore them."""
    LEAKY_VALIDATION = "leaky-validation"
    """Samples of the training data are in the validation data."""
    OVERFITTING = "overfitting"
    """The model learns its training samples by heart."""

    # The model and its beginning
    DEAD_RELU = "dead-relu"
    """Units of a ReLU layer answer nothing to any sample."""
    SATURATED_ACTIVATION = "saturated-activation"
    """Tanh or sigmoid units sit at their ends, and let no gradient through."""
    VANISHING_GRADIENT = "vanishing-gradient"
    """The gradient is lost on its way back through depth."""
    EXPLODING_GRADIENT = "exploding-gradient"
    """The gradient grows on its way back through depth or recurrence."""
    CONSTANT_INITIALIZATION = "constant-initialization"
    """Units of a layer begin equal, and stay equal."""
    INITIALIZATION_SCALE = "initialization-scale"
    """Weights begin far too large or far too small."""
    ATTENTION_COLLAPSE = "attention-collapse"
    """Attention looks at one place only, or everywhere alike."""
    REPRESENTATION_COLLAPSE = "representation-collapse"
    """Different inputs come out the same."""

    # Numbers
    FP16_UNDERFLOW = "fp16-underflow"
    """Values too small for half precision are flushed to zero."""
    FP16_OVERFLOW = "fp16-overflow"
    """Values too large for half precision become infinite."""
    LOSS_SCALE_COLLAPSE = "loss-scale-collapse"
    """The gradient scaler halves its scale again and again."""
    EXP_OVERFLOW = "exp-overflow"
    """An exponential of a large number is infinite: a softmax written by hand, say."""
    LOG_OF_ZERO = "log-of-zero"
    """A logarithm of zero, of a probability that is exactly 0 or 1."""
    DIVISION_BY_ZERO = "division-by-zero"
    """A division by zero or by nearly zero: by a norm, a count, a standard deviation."""
    SQRT_OF_ZERO = "sqrt-of-zero"
    """A square root or norm at zero, whose gradient is infinite."""
    OUT_OF_DOMAIN = "out-of-domain"
    """An operation got a value outside its domain: a logarithm or root of a negative number, acos beyond ±1."""
    INFINITE_DERIVATIVE = "infinite-derivative"
    """An operation whose output is finite and whose derivative is not: acos at ±1, SVD with equal singular values."""
    FULLY_MASKED = "fully-masked"
    """A softmax over a row that is masked with −inf throughout."""
    NOTHING_TO_AVERAGE = "nothing-to-average"
    """A mean over nothing: no label of the batch counts, or a selection is empty."""
    NOT_KNOWN_YET = "not-known-yet"
    """Nothing recorded explains it; a replay of the failing step does."""

    # Trees and machines
    TREES_TOO_DEEP = "trees-too-deep"
    """Trees deeper than the data bears."""
    TREES_ADD_NOTHING = "trees-add-nothing"
    """Trees of later rounds have no split, so that no answer changes: nothing is left to gain, or none is allowed."""
    FEW_FEATURES_DOMINATE = "few-features-dominate"
    """A few features hold nearly all importance: one may give the label away."""
    SLOW_DATA_LOADING = "slow-data-loading"
    """Training waits for its data."""
    MACHINE_UNDERUSED = "machine-underused"
    """The machine could do more than it is asked to."""
    MEMORY_LEAK = "memory-leak"
    """Memory grows from step to step."""
    SLOW_WORKER = "slow-worker"
    """One worker is slower than the others, and all wait for it."""
    SCRIPT_ERROR = "script-error"
    """The script ended with an error."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One cause that may be behind a finding, with what speaks for it in this run.

    Attributes:
        cause: Its name: one of `Cause`, or a rule's own in the same style.
        weight: How strongly the evidence speaks for it, from 0 to 1. About 0.9 where the thing itself was
            seen (two softmax in one graph), 0.5 where a number points at it, 0.2 or less where it is one of
            the usual suspects and nothing speaks against it.
        why: One sentence: the evidence, with its numbers.
        remedy: What to do, concretely, with the setting and its values; "" where the finding's remedy says it.
    """

    cause: str
    weight: float
    why: str = ""
    remedy: str = ""

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight <= 1.0:
            raise ValueError(f"the weight of a suspicion is {self.weight!r}; it must lie from 0 to 1")
