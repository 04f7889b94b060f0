"""Facts about a training that are no statistics of a tensor: what the loop did, how the loss was made, what was fed.

Each is a plain number under `Key(Kind.FACT, path)`. The path is the name below, with what it is about in
brackets behind it where there is anything: `without_gradient[fc2.weight]`, `weight_decay[group0]`. A fact is
recorded in the steps in which it was looked for, also where it is 0: that is how a rule knows that all is well.
"""

from __future__ import annotations

import functools
from enum import StrEnum

from barograph.model.key import Key, Kind


class Fact(StrEnum):
    """What can be known of a step beside its tensors."""

    # The loop
    GRADIENTS_KEPT = "gradients_kept"
    """1: no reset of the gradients was seen between this optimizer's step before and the last backward pass."""
    BACKWARDS = "backwards"
    """Backward passes of this step: above 1 where gradients are accumulated."""
    LAYERS_IN_EVAL = "layers_in_eval"
    """In training: share of the layers that mind the mode (dropout, batch normalisation) that were in eval mode."""
    LAYERS_IN_TRAIN = "layers_in_train"
    """In evaluation: share of the layers that mind the mode that were in training mode."""
    MODEL_IN_EVAL = "model_in_eval"
    """In training: 1 where the model as a whole was in eval mode, else 0."""

    # Parameters and their optimizer
    PARAMETERS = "parameters"
    """Parameters of the models that are trained, tensors and not elements."""
    FROZEN = "frozen"
    """Those that do not ask for a gradient. Some are named."""
    UNTRAINED = "untrained"
    """Those frozen that are as an initialisation makes them, as far as that can be told. Some are named.

    Of PyTorch parameters are counted, of Keras layers."""
    OUTSIDE_OPTIMIZER = "outside_optimizer"
    """Those that ask for a gradient, get one, and are in no optimizer. Some are named: `outside_optimizer[PATH]`."""
    UNREGISTERED = "unregistered"
    """Those that the loss reaches, and that are in no model that was called and in no optimizer, as those of layers in
    a plain list. Counted by their shapes, too: `unregistered[64x32]`."""
    WITHOUT_GRADIENT = "without_gradient"
    """Those in this optimizer that ask for a gradient and have none at its step. Some are named."""
    UNREACHED = "unreached"
    """Those in this optimizer that the graph of the loss does not reach. Some are named."""
    FOREIGN = "foreign"
    """Parameters in this optimizer that are in no model that was called, and have no gradient. Some are named."""
    OPTIMIZERS_MADE = "optimizers_made"
    """Optimizer objects that have stepped for these parameters so far: above 1 where it is made anew."""
    WEIGHT_DECAY = "weight_decay"
    """Of a parameter group: `weight_decay[group0]`. Where it changed, and with the first step."""
    MOMENTUM = "momentum"
    """Of a parameter group; for Adam and its like the first beta."""
    DECOUPLED = "decoupled"
    """1: this optimizer applies weight decay to the weights (AdamW), 0: to the gradient."""
    SCHEDULER_STEPS = "scheduler_steps"
    """Steps of the schedulers of this optimizer so far. `scheduler_steps[StepLR]` names the class."""
    SCHEDULER_HORIZON = "scheduler_horizon"
    """Scheduler steps it was made for: T_max, total_steps, the last milestone, ten times step_size, or those in which
    an exponential decay comes to a thousandth. The least of several; `scheduler_horizon[StepLR]` names the class."""
    LOSS_SCALE = "loss_scale"
    """Scale of the gradient scaler."""
    ROUNDS_PLANNED = "rounds_planned"
    """Of a boosted model: rounds it has when its training ends, those from before included, if nothing stops it."""
    EARLY_STOPPING = "early_stopping"
    """Of a boosted model: rounds without gain after which its training ends by itself; 0: it does not.

    `early_stopping[training]`: 1 where what it watches is the data that is trained on, else 0."""
    DETERMINISTIC = "deterministic"
    """1: the script asked for deterministic algorithms."""

    # The loss, from the graph it was made of
    SOFTMAX_TWICE = "softmax_twice"
    """1: a softmax or sigmoid goes into another that is part of the loss."""
    SOFTMAX_AXIS = "softmax_over_samples"
    """1: the softmax of the loss runs over the axis of the samples."""
    LOGITS_AS_PROBABILITIES = "logits_as_probabilities"
    """Share of rows handed over as (log-)probabilities that do not sum to one."""
    PROBABILITIES_AS_LOGITS = "probabilities_as_logits"
    """Share of rows handed over as logits that are non-negative and sum to one."""
    BROADCAST = "broadcast"
    """Elements that the loss runs over, as a multiple of those of the outputs: 1 is sound, N is N × N pairs."""
    CLASS_NUMBERS_REGRESSED = "class_numbers_regressed"
    """1: a loss of squares or distances whose targets are small whole numbers that repeat, as class numbers do."""
    BAD_OPERATION = "bad_operation"
    """1 beside the operation that made the loss, or a gradient, not finite: `bad_operation[log]`, `[exp]`, `[div]`,
    `[sqrt]`, `[log_of_negative]`, `[addmm]`; `[mean]`: a mean over nothing, as of labels that are all ignored;
    `[data]`: what was fed was not finite itself. 0.5 where the weights are not finite any more, and this one's
    derivative can be infinite.
    0, with nothing in brackets: the loss was finite when it was looked at."""

    # What was fed
    BATCH_SIZE = "batch_size"
    """Samples of this step."""
    BATCH_DIGEST = "batch_digest"
    """A whole number below 2**52 that stands for the content of the batch."""
    FULL_BATCH = "full_batch"
    """1: the loader hands out the whole data set as one batch."""
    SEEN_IN_TRAINING = "seen_in_training"
    """In evaluation: share of its samples that are, to the last bit, samples of a training step, beyond chance.

    Where an evaluation goes over several sets (training and validation), `seen_in_training[part0]` and so on tell
    of each."""
    SEEN_BEFORE = "seen_before"
    """In training: share of the samples of this step that an earlier step was fed: a second pass, a repeated batch."""
    SAMPLES_KNOWN = "samples_known"
    """In evaluation: training samples that these were compared with."""
    TARGET_IS_INPUT = "target_is_input"
    """Share of target elements that equal the input.

    Of tokens: at the same place (`target_is_input[0]`), one before (`[-1]`), one after (`[1]`: the next token). Of
    one target a sample: the greatest share of any column, and from a half on its name (`[column 3]`)."""
    CLASSES = "classes"
    """Classes that the model tells apart: the width of its output."""
    LABEL_MIN = "label_min"
    """Least label of the step."""
    LABEL_MAX = "label_max"
    """Greatest label of the step."""
    LOSS_WEIGHTED = "loss_weighted"
    """1: the loss weighs classes, or samples, each by a factor of its own."""
    PADDING = "padding"
    """Share of a value among integer inputs: `padding[0]`."""
    EPOCH = "epoch"
    """Passes over the training data that were begun, from 1, as the loader tells."""
    EPOCH_STEPS = "epoch_steps"
    """Batches of one pass, as the loader tells."""
    LOADER_WORKERS = "loader_workers"
    """Processes that the loader runs."""

    __hash__ = str.__hash__  # as of `Kind`


NOT_AN_OPERATION = "data"
"""Stands beside `BAD_OPERATION` for what was fed: NaN or +inf were in it before anything was computed."""

OF_WHAT_WAS_LOOKED_AT = frozenset((Fact.SEEN_IN_TRAINING, Fact.SEEN_BEFORE, Fact.SAMPLES_KNOWN))
"""Facts that depend on which steps before were looked at, and so on the time that steps take."""


@functools.lru_cache(maxsize=4096)
def fact(name: Fact, about: str | int = "") -> Key:
    """Return the key of a fact.

    Args:
        name: Which.
        about: A parameter's path, a group, an operation; "": the fact as a whole.

    Example:
        >>> str(fact(Fact.WITHOUT_GRADIENT, "fc2.weight"))
        'fact:without_gradient[fc2.weight]'
    """
    return Key(Kind.FACT, f"{name.value}[{about}]" if about != "" else name.value)
