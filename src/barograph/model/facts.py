"""Facts about a training that are not tensor statistics: the loop, the loss function, the data.

Each is a number under `Key(Kind.FACT, path)`. The path is the name below, followed by its subject in brackets, if
any: `without_gradient[fc2.weight]`, `weight_decay[group0]`. A fact is recorded at each step at which it was checked,
even if it is 0: a rule needs that to know that all is well.
"""

from __future__ import annotations

import functools
from enum import StrEnum

from barograph.model.key import Key, Kind


class Fact(StrEnum):
    """Name of a fact about a step."""

    # The loop
    GRADIENTS_KEPT = "gradients_kept"
    """1: gradients were not reset between this optimizer's previous step and the last backward pass."""
    BACKWARDS = "backwards"
    """Backward passes of this step: above 1 if gradients are accumulated."""
    LAYERS_IN_EVAL = "layers_in_eval"
    """In training: share of the mode-dependent layers (dropout, batch normalization) in eval mode."""
    LAYERS_IN_TRAIN = "layers_in_train"
    """In evaluation: share of the mode-dependent layers in training mode."""
    MODEL_IN_EVAL = "model_in_eval"
    """In training: 1 if the whole model was in eval mode, else 0."""

    # Parameters and their optimizer
    PARAMETERS = "parameters"
    """Number of parameter tensors of the trained models."""
    FROZEN = "frozen"
    """Parameters that do not require a gradient. Some are named."""
    UNTRAINED = "untrained"
    """Frozen parameters that still seem to have their initial values. Some are named.

    Counts parameters in PyTorch, layers in Keras."""
    OUTSIDE_OPTIMIZER = "outside_optimizer"
    """Parameters that get a gradient but are in no optimizer. Some are named: `outside_optimizer[PATH]`."""
    UNREGISTERED = "unregistered"
    """Parameters in the graph of the loss that are in no called model and no optimizer, such as those of layers in a
    plain list. Also counted by shape: `unregistered[64x32]`."""
    WITHOUT_GRADIENT = "without_gradient"
    """Parameters in this optimizer that require a gradient and have none at its step. Some are named."""
    UNREACHED = "unreached"
    """Parameters in this optimizer that are not in the graph of the loss. Some are named."""
    HEADS = "heads"
    """Heads that a layer feeds, as bits of an integer: `heads[actor.0]`. A head is the last layer before a loss.
    Recorded if a model has several heads that do not share all layers."""
    FOREIGN = "foreign"
    """Parameters in this optimizer that are in no called model and have no gradient. Some are named."""
    OPTIMIZERS_MADE = "optimizers_made"
    """Optimizer objects that have stepped these parameters so far: above 1 if it is recreated."""
    WEIGHT_DECAY = "weight_decay"
    """Weight decay of a parameter group: `weight_decay[group0]`. Recorded at the first step and on changes."""
    MOMENTUM = "momentum"
    """Momentum of a parameter group; for Adam and its variants the first beta."""
    DECOUPLED = "decoupled"
    """1: this optimizer applies weight decay to the weights (AdamW), 0: to the gradient."""
    SCHEDULER_STEPS = "scheduler_steps"
    """Steps of the schedulers of this optimizer so far. `scheduler_steps[StepLR]` names the class."""
    SCHEDULER_HORIZON = "scheduler_horizon"
    """Scheduler steps planned: T_max, total_steps, the last milestone, ten times step_size, or those in which an
    exponential decay reaches a thousandth. The least of several; `scheduler_horizon[StepLR]` names the class."""
    LOSS_SCALE = "loss_scale"
    """Scale of the gradient scaler."""
    ROUNDS_PLANNED = "rounds_planned"
    """Planned rounds of a boosted model, including those from before, if nothing stops it."""
    EARLY_STOPPING = "early_stopping"
    """Rounds without improvement after which training of a boosted model stops; 0: no early stopping.

    `early_stopping[training]`: 1 if it monitors the training data, else 0."""
    DETERMINISTIC = "deterministic"
    """1: the script requested deterministic algorithms."""

    # The loss, from its graph
    SOFTMAX_TWICE = "softmax_twice"
    """1: the output of a softmax or sigmoid is the input of another in the loss."""
    SOFTMAX_AXIS = "softmax_over_samples"
    """1: the softmax of the loss runs over the axis of the samples."""
    LOGITS_AS_PROBABILITIES = "logits_as_probabilities"
    """Share of rows passed as (log-)probabilities that do not sum to one."""
    PROBABILITIES_AS_LOGITS = "probabilities_as_logits"
    """Share of rows passed as logits that are nonnegative and sum to one."""
    BROADCAST = "broadcast"
    """Elements of the loss per element of the outputs: 1 is right, N means N × N pairs."""
    CLASS_NUMBERS_REGRESSED = "class_numbers_regressed"
    """1: a regression loss has small, repeating integers as targets, as class numbers are."""
    BAD_OPERATION = "bad_operation"
    """1 for the operation that made the loss, or a gradient, nonfinite: `bad_operation[log]`, `[exp]`, `[div]`,
    `[sqrt]`, `[log_of_negative]`, `[addmm]`; `[bmm_float16]`: a float16 product overflowed; `[mean]`: a
    mean over no elements, such as labels that are all ignored; `[data]`: the input itself was nonfinite. 0.5 if the
    weights are already nonfinite and the operation's derivative can be infinite. 0, without brackets: the loss was
    finite when checked."""

    # The data
    BATCH_SIZE = "batch_size"
    """Number of samples of this step."""
    BATCH_DIGEST = "batch_digest"
    """Hash of the batch's content, an integer below 2**52."""
    FULL_BATCH = "full_batch"
    """1: the loader yields the whole data set as one batch."""
    SEEN_IN_TRAINING = "seen_in_training"
    """In evaluation: share of samples that are, bit for bit, samples of a training step, beyond chance.

    If an evaluation covers several sets (training and validation), `seen_in_training[part0]` and so on give the share
    of each."""
    SEEN_BEFORE = "seen_before"
    """In training: share of this step's samples that an earlier step used: a second epoch, a repeated batch."""
    SAMPLES_KNOWN = "samples_known"
    """In evaluation: number of training samples compared with."""
    SAMPLES_REPEATED = "samples_repeated"
    """In evaluation: how often it contains each training sample that it contains, on average: 1 without duplicates."""
    TARGET_IS_INPUT = "target_is_input"
    """Share of target elements that equal the input.

    For tokens: at the same position (`target_is_input[0]`), one before (`[-1]`), one after (`[1]`: the next token).
    For one target per sample: the largest share of any column, named from one half on (`[column 3]`)."""
    CLASSES = "classes"
    """Number of classes: the width of the model's output."""
    LABEL_MIN = "label_min"
    """Smallest label of the step."""
    LABEL_MAX = "label_max"
    """Largest label of the step."""
    LOSS_WEIGHTED = "loss_weighted"
    """1: the loss weights classes or samples."""
    PADDING = "padding"
    """Share of one value among integer inputs: `padding[0]`."""
    EPOCH = "epoch"
    """Current pass over the training data, from 1, as reported by the loader."""
    EPOCH_STEPS = "epoch_steps"
    """Batches of one pass, as reported by the loader."""
    LOADER_WORKERS = "loader_workers"
    """Worker processes of the loader."""

    __hash__ = str.__hash__  # as for `Kind`


NOT_AN_OPERATION = "data"
"""Subject of `BAD_OPERATION` if the input itself contained NaN or +inf."""

OF_WHAT_WAS_LOOKED_AT = frozenset((
    Fact.SEEN_IN_TRAINING, Fact.SEEN_BEFORE, Fact.SAMPLES_KNOWN, Fact.SAMPLES_REPEATED))
"""Facts that depend on which earlier steps were inspected, and so on step times."""


@functools.lru_cache(maxsize=4096)
def fact(name: Fact, about: str | int = "") -> Key:
    """Return the key of a fact.

    Args:
        name: Name of the fact.
        about: Subject: a parameter's path, a group, an operation; "": the fact as a whole.

    Example:
        >>> str(fact(Fact.WITHOUT_GRADIENT, "fc2.weight"))
        'fact:without_gradient[fc2.weight]'
    """
    return Key(Kind.FACT, f"{name.value}[{about}]" if about != "" else name.value)
