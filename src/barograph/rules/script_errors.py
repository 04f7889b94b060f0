"""Known errors of training scripts, with their causes and remedies."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from barograph.model.cause import Cause


class Explanation(NamedTuple):
    """The explanation of an error.

    Attributes:
        pattern: Regular expression, searched in class and message: "RuntimeError: …".
        cause: The mistake.
        weight: Confidence, from 0 to 1.
        why: Meaning of the error.
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
        Cause.INPLACE_UPDATE, 0.95, "a tensor that the backward pass needs was modified in place",
        "Write x = x + y instead of x += y (and relu(x) instead of relu_(x)) before backward; modify parameters "
        "only under torch.no_grad(), after backward. torch.autograd.set_detect_anomaly(True) names the line.",
    ),
    Explanation(
        r"[Tt]arget -?\d+ is out of bounds|Assertion `?t >= 0 && t < n_classes|class values must be smaller than|"
        r"Class values must be (smaller|non-negative)",
        Cause.LABELS_OFF_BY_ONE, 0.85, "a label is outside the model's classes",
        "Count classes from 0 (labels - 1), or give the model one output more than the largest label.",
    ),
    Explanation(
        r"index out of range in self|Assertion `?srcIndex < srcSelectDimSize",
        Cause.LABELS_OFF_BY_ONE, 0.5, "an index is out of range for the embedding",
        "Set num_embeddings to the largest index + 1, or count from 0.",
    ),
    Explanation(
        r"device-side assert triggered", Cause.LABELS_OFF_BY_ONE, 0.5,
        "an index was out of range in a kernel: usually a label outside the classes",
        "Run again with CUDA_LAUNCH_BLOCKING=1 or on the CPU, which names the value; count classes from 0.",
    ),
    Explanation(
        r"does not require grad and does not have a grad_fn", Cause.DETACHED_GRAPH, 0.95,
        "the loss is detached from every parameter",
        "Compute the loss outside torch.no_grad(), without .detach(), .item(), .data, .numpy(), argmax or a new "
        "torch.tensor(…) between the model and the loss; check that some parameter has requires_grad=True.",
    ),
    Explanation(
        r"backward through the graph a second time", Cause.SCRIPT_ERROR, 0.9,
        "the loss depends on the graph of an earlier step",
        "Detach state carried between steps (hidden = hidden.detach()), and call backward once per forward.",
    ),
    Explanation(
        r"Can't call numpy\(\) on Tensor that requires grad", Cause.DETACHED_GRAPH, 0.5,
        "a tensor with a gradient was passed to NumPy", "Use torch functions up to the loss; use .detach().numpy() "
        "only for logging.",
    ),
    Explanation(
        r"optimizer got an empty parameter list", Cause.PARAMETER_NOT_IN_OPTIMIZER, 0.7,
        "the optimizer was created without parameters",
        "Register layers as attributes or in nn.ModuleList (a plain list hides them), and call model.parameters() "
        "again for each optimizer: a generator can be used only once.",
    ),
    Explanation(
        r"can't optimize a non-leaf Tensor", Cause.STALE_OPTIMIZER, 0.6,
        "the optimizer got the result of an operation instead of a parameter",
        "Move the model first (model.to(device)), then create the optimizer with model.parameters().",
    ),
    Explanation(
        r"No inf checks were recorded for this optimizer", Cause.DETACHED_GRAPH, 0.6,
        "no parameter of the optimizer had a gradient when the gradient scaler stepped",
        "Check that backward runs on a loss of this model, and that the optimizer holds this model's parameters.",
    ),
    Explanation(
        r"Expected to have finished reduction in the prior iteration", Cause.UNUSED_PARAMETER, 0.85,
        "some parameters do not contribute to the loss",
        "Remove unused modules from the model, or set find_unused_parameters=True.",
    ),
    Explanation(
        r"all elements of (input|target) should be between 0 and 1|Assertion `?(input|target)_val >= (zero|0)",
        Cause.LOGITS_AS_PROBABILITIES, 0.8, "binary_cross_entropy got values outside 0 to 1",
        "Use binary_cross_entropy_with_logits, or add a sigmoid before the loss; targets must be 0 to 1.",
    ),
    Explanation(
        r"Using a target size .* that is different to the input size", Cause.BROADCAST_TARGETS, 0.8,
        "outputs and targets have different shapes",
        "Give both the same shape: outputs.squeeze(1), or targets.view_as(outputs).",
    ),
    Explanation(
        r"expected scalar type Long but found|Expected floating point type for target with class probabilities|"
        r"not implemented for '(Long|Int|Float)'", Cause.WRONG_LOSS, 0.6,
        "the targets have a dtype that this loss does not accept",
        "Use torch.long class labels for cross_entropy; for regression losses and binary_cross_entropy, floats of the "
        "outputs' shape.",
    ),
    Explanation(
        r"Function '?Log\w*Backward\d*'? returned nan", Cause.LOG_OF_ZERO, 0.85,
        "a logarithm of zero was differentiated",
        "Use log_softmax or logsigmoid instead of log(softmax(x)), or log(x.clamp_min(1e-8)).",
    ),
    Explanation(
        r"Function '?(Sqrt|Pow|LinalgVectorNorm|Norm)\w*Backward\d*'? returned nan", Cause.SQRT_OF_ZERO, 0.85,
        "a square root or norm was differentiated at zero", "Add an epsilon inside: sqrt(x + 1e-12).",
    ),
    Explanation(
        r"Function '?Div\w*Backward\d*'? returned nan", Cause.DIVISION_BY_ZERO, 0.85, "a division by zero was "
        "differentiated", "Clamp the denominator: x / y.clamp_min(1e-8).",
    ),
    Explanation(
        r"Function '?(Exp|Softmax)\w*Backward\d*'? returned nan", Cause.EXP_OVERFLOW, 0.8,
        "an exponential overflowed", "Use torch.softmax or logsumexp, which subtract the maximum first.",
    ),
    Explanation(
        r"to satisfy the constraint .*nan|found invalid values.*nan|invalid multinomial distribution|"
        r"probability tensor contains either", Cause.LEARNING_RATE_TOO_HIGH, 0.4,
        "a distribution got NaN parameters: the model's weights are probably NaN",
        "Find the first step whose loss was not finite; lower the learning rate and clip gradients.",
    ),
    Explanation(
        r"Expected more than 1 value per channel when training", Cause.SCRIPT_ERROR, 0.9,
        "batch normalization got a batch of one sample", "Set drop_last=True in the training loader.",
    ),
    Explanation(
        r"No space left on device|Errno 28\b|Disk quota exceeded", Cause.SCRIPT_ERROR, 0.95, "the disk is full",
        "Free space, or write checkpoints, logs and data to another disk.",
    ),
    Explanation(
        r"iostream error|PytorchStreamWriter failed|inline_container.* unexpected pos \d+ vs \d+",
        Cause.SCRIPT_ERROR, 0.9, "a file could not be written whole, usually because the disk is full",
        "Free space (df -h), or write checkpoints to another disk.",
    ),
    Explanation(
        r"out of memory|DefaultCPUAllocator: can't allocate", Cause.MEMORY_LEAK, 0.3, "memory ran out",
        "Halve the batch and accumulate gradients over two; log loss.item() instead of loss, which keeps its graph.",
    ),
    Explanation(
        r"DataLoader worker .*(killed|exited)", Cause.MEMORY_LEAK, 0.3, "a data loader worker was killed, "
        "usually for lack of memory", "Lower num_workers, enlarge /dev/shm, and avoid growing lists in the data set.",
    ),
    Explanation(
        r"mat1 and mat2 shapes cannot be multiplied|size mismatch|The size of tensor a .* must match",
        Cause.SCRIPT_ERROR, 0.9, "two tensors have incompatible shapes", "Print both shapes before the line that "
                                                                         "failed.",
    ),
    Explanation(
        r"Expected all tensors to be on the same device", Cause.SCRIPT_ERROR, 0.9, "tensors are on different devices",
        "Move the batch to the model's device: x = x.to(device).",
    ),
)
"""The first match wins."""


@functools.lru_cache(maxsize=256)
def explanation_of(text: str) -> Explanation | None:
    """Return the explanation of an error; None if unknown.

    Args:
        text: Class and message of the error.

    Example:
        >>> explanation_of("IndexError: Target 10 is out of bounds.").cause
        <Cause.LABELS_OFF_BY_ONE: 'labels-off-by-one'>
        >>> explanation_of("KeyError: 'lr'") is None
        True
    """
    return next((item for item in EXPLANATIONS if re.search(item.pattern, text)), None)
