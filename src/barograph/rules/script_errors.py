"""Errors that scripts end with, and the mistakes that are known to be behind them: a table."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from barograph.model.cause import Cause


class Explanation(NamedTuple):
    """What is behind an error.

    Attributes:
        pattern: Regular expression that its class and text, "RuntimeError: …", contain.
        cause: The mistake.
        weight: How sure that is, from 0 to 1.
        why: What the error means, in one sentence.
        remedy: What to do.
    """

    pattern: str
    cause: Cause
    weight: float
    why: str
    remedy: str


EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        r"modified by an inplace operation|leaf [Vv]ariable that requires grad.* in-?place",
        Cause.INPLACE_UPDATE, 0.95, "a tensor that the backward pass needs was changed in place",
        "Write x = x + y in place of x += y (and relu(x) for relu_(x)) before the backward pass; change parameters "
        "only under torch.no_grad(), after it. torch.autograd.set_detect_anomaly(True) names the line.",
    ),
    Explanation(
        r"[Tt]arget -?\d+ is out of bounds|Assertion `?t >= 0 && t < n_classes|class values must be smaller than|"
        r"Class values must be (smaller|non-negative)",
        Cause.LABELS_OFF_BY_ONE, 0.85, "a label is no class of the model's output",
        "Count classes from 0 (labels − 1), or make the output as wide as the greatest label and one.",
    ),
    Explanation(
        r"index out of range in self|Assertion `?srcIndex < srcSelectDimSize",
        Cause.LABELS_OFF_BY_ONE, 0.5, "an index handed to an embedding is beyond its rows",
        "Make num_embeddings the greatest index and one, or count from 0.",
    ),
    Explanation(
        r"device-side assert triggered", Cause.LABELS_OFF_BY_ONE, 0.5,
        "an index was out of range in a kernel: a label beyond the classes, mostly",
        "Run it again with CUDA_LAUNCH_BLOCKING=1, or on the CPU, which names the value; count classes from 0.",
    ),
    Explanation(
        r"does not require grad and does not have a grad_fn", Cause.DETACHED_GRAPH, 0.95,
        "the loss is cut off from every parameter",
        "Compute the loss outside torch.no_grad(), without .detach(), .item(), .data, .numpy(), argmax or a new "
        "torch.tensor(…) between the model and the loss; see that some parameter asks for a gradient.",
    ),
    Explanation(
        r"backward through the graph a second time", Cause.SCRIPT_ERROR, 0.9,
        "the loss hangs on the graph of an earlier step",
        "Detach what is carried from step to step (hidden = hidden.detach()), and call backward once for each forward.",
    ),
    Explanation(
        r"Can't call numpy\(\) on Tensor that requires grad", Cause.DETACHED_GRAPH, 0.5,
        "a tensor with a gradient was handed to NumPy", "Use torch's own functions up to the loss; .detach().numpy() "
        "only for what is logged.",
    ),
    Explanation(
        r"optimizer got an empty parameter list", Cause.PARAMETER_NOT_IN_OPTIMIZER, 0.7,
        "the optimizer was made without parameters",
        "Register layers as attributes or in nn.ModuleList (a plain list hides them), and hand model.parameters() "
        "anew: a generator can be used once.",
    ),
    Explanation(
        r"can't optimize a non-leaf Tensor", Cause.STALE_OPTIMIZER, 0.6,
        "the optimizer was handed the result of an operation and not a parameter",
        "Move the model first (model.to(device)), then make the optimizer of model.parameters().",
    ),
    Explanation(
        r"No inf checks were recorded for this optimizer", Cause.DETACHED_GRAPH, 0.6,
        "no parameter of the optimizer had a gradient when the gradient scaler stepped",
        "See that backward came from a loss of this model, and that the optimizer holds this model's parameters.",
    ),
    Explanation(
        r"Expected to have finished reduction in the prior iteration", Cause.UNUSED_PARAMETER, 0.85,
        "some parameters took no part in the loss",
        "Take modules that are not used out of the model, or set find_unused_parameters=True.",
    ),
    Explanation(
        r"all elements of (input|target) should be between 0 and 1|Assertion `?(input|target)_val >= (zero|0)",
        Cause.LOGITS_AS_PROBABILITIES, 0.8, "binary_cross_entropy was handed what is no probability",
        "Use binary_cross_entropy_with_logits, or put a sigmoid before; targets must be 0 to 1.",
    ),
    Explanation(
        r"Using a target size .* that is different to the input size", Cause.BROADCAST_TARGETS, 0.8,
        "outputs and targets have different shapes",
        "Give both one shape: outputs.squeeze(1), or targets.view_as(outputs).",
    ),
    Explanation(
        r"expected scalar type Long but found|Expected floating point type for target with class probabilities|"
        r"not implemented for '(Long|Int|Float)'", Cause.WRONG_LOSS, 0.6,
        "the targets have a type that this loss does not take",
        "Class numbers are torch.long for cross_entropy; distances and binary_cross_entropy take floats of the "
        "outputs' shape.",
    ),
    Explanation(
        r"Function '?Log\w*Backward\d*'? returned nan", Cause.LOG_OF_ZERO, 0.85,
        "a logarithm of zero was differentiated",
        "Use log_softmax or logsigmoid in place of log(softmax(x)), or log(x.clamp_min(1e-8)).",
    ),
    Explanation(
        r"Function '?(Sqrt|Pow|LinalgVectorNorm|Norm)\w*Backward\d*'? returned nan", Cause.SQRT_OF_ZERO, 0.85,
        "a square root or norm was differentiated at zero", "Add a little inside: sqrt(x + 1e-12).",
    ),
    Explanation(
        r"Function '?Div\w*Backward\d*'? returned nan", Cause.DIVISION_BY_ZERO, 0.85, "a division by zero was "
        "differentiated", "Keep the denominator from zero: x / y.clamp_min(1e-8).",
    ),
    Explanation(
        r"Function '?(Exp|Softmax)\w*Backward\d*'? returned nan", Cause.EXP_OVERFLOW, 0.8,
        "an exponential overflowed", "Use torch.softmax or logsumexp, which subtract the greatest value first.",
    ),
    Explanation(
        r"to satisfy the constraint .*nan|found invalid values.*nan|invalid multinomial distribution|"
        r"probability tensor contains either", Cause.LEARNING_RATE_TOO_HIGH, 0.4,
        "a distribution was made of NaN: the model's weights are likely NaN by then",
        "Find the first step whose loss was not finite; lower the learning rate and clip gradients.",
    ),
    Explanation(
        r"Expected more than 1 value per channel when training", Cause.SCRIPT_ERROR, 0.9,
        "batch normalisation was fed a batch of one sample", "Set drop_last=True in the training loader.",
    ),
    Explanation(
        r"out of memory|DefaultCPUAllocator: can't allocate", Cause.MEMORY_LEAK, 0.3, "memory ran out",
        "Halve the batch and accumulate two; log loss.item() and not loss, which keeps the graph of its step.",
    ),
    Explanation(
        r"DataLoader worker .*(killed|exited)", Cause.MEMORY_LEAK, 0.3, "a process of the loader was ended, "
        "most often for want of memory", "Fewer num_workers; a larger /dev/shm; no growing lists in the data set.",
    ),
    Explanation(
        r"mat1 and mat2 shapes cannot be multiplied|size mismatch|The size of tensor a .* must match",
        Cause.SCRIPT_ERROR, 0.9, "two tensors do not fit each other", "Print both shapes in the line that failed.",
    ),
    Explanation(
        r"Expected all tensors to be on the same device", Cause.SCRIPT_ERROR, 0.9, "tensors are on different devices",
        "Move the batch to where the model is: x = x.to(device).",
    ),
)
"""The first that matches counts."""


@functools.lru_cache(maxsize=256)
def explanation_of(text: str) -> Explanation | None:
    """Return what is behind an error; None where it is not known.

    Args:
        text: Its class and what it says.

    Example:
        >>> explanation_of("IndexError: Target 10 is out of bounds.").cause
        <Cause.LABELS_OFF_BY_ONE: 'labels-off-by-one'>
        >>> explanation_of("KeyError: 'lr'") is None
        True
    """
    return next((item for item in EXPLANATIONS if re.search(item.pattern, text)), None)
