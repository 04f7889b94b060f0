"""Checks the graph of a loss: double softmax, softmax over the samples, broadcast targets.

Only the loss itself is checked: from the root of `backward`, through reductions, arithmetic and views, to the layers of
the model. Attention, gates and similar operations inside a model are not part of it.
"""

from __future__ import annotations

from typing import Any

from barograph.capture.torch.graph import operation, saved_axis, shape, sources
from barograph.model.facts import Fact

MOST_NODES = 64
"""Maximum number of graph nodes to visit; a loss has about ten."""

_LOGIT_TAKERS = frozenset({"LogSoftmax", "Softmax", "Sigmoid", "LogSigmoid", "BinaryCrossEntropyWithLogits"})
_SQUASHED = frozenset({"Softmax", "Sigmoid", "LogSoftmax", "LogSigmoid"})
_LOSSES = frozenset({
    "NllLoss", "NllLoss2D", "NllLossNd", "BinaryCrossEntropy", "MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss",
    "KlDiv", "CtcLoss", "CrossEntropyLoss", "SoftMarginLoss", "MultiMarginLoss", "MultilabelMarginLoss",
})
_VIEWS = frozenset({
    "View", "UnsafeView", "Reshape", "ReshapeAlias", "Squeeze", "Unsqueeze", "Permute", "Transpose", "T", "Mt", "Slice",
    "Select", "Index", "IndexSelect", "Gather", "Narrow", "Split", "SplitWithSizes", "Chunk", "Unbind", "Diagonal",
    "Clamp", "ClampMin", "ClampMax", "ToCopy", "Clone", "Alias", "Expand", "AsStrided", "Contiguous", "Flip", "Roll",
})
_SHIFTS = frozenset({"Add", "Sub"})
_ARITHMETIC = _SHIFTS | {
    "Mul", "Div", "Rsub", "Neg", "Pow", "Abs", "Exp", "Log", "Log2", "Log10", "Log1P", "Sqrt", "Mean", "Sum", "Where",
    "MaskedSelect", "MaskedFill", "Cat", "Stack", "Max", "Min", "Maximum", "Minimum", "Amax", "Amin", "Logsumexp",
    "LinalgVectorNorm", "Norm", "Std", "Var", "NanToNum", "Nansum", "Relu", "Softplus",
}
_OF_LOSS = _LOSSES | _VIEWS | _ARITHMETIC
_LOGARITHMS = frozenset({"Log", "Log2", "Log10", "LogSigmoid", "Clamp", "ClampMin"})


def facts_of_loss(root: Any) -> dict[Fact, float]:
    """Return facts from the graph of a loss: `SOFTMAX_TWICE`, `SOFTMAX_AXIS`, `BROADCAST`.

    Args:
        root: Node that made the loss.

    Returns:
        Nothing if the loss itself is hidden, in a compiled graph or in a custom function.
    """
    if operation(root) not in _OF_LOSS | _LOGIT_TAKERS:
        return {}
    looked = _Looked()
    seen = {root: False}
    waiting = [root]
    while waiting and len(seen) <= MOST_NODES:
        node = waiting.pop()
        name = operation(node)
        if name in _LOGIT_TAKERS:
            looked.at_logits(node, name, judged=seen[node])
        elif name in _OF_LOSS:
            looked.at_sizes(node, name)
            below = sources(node)
            # The input of a loss or a logarithm, apart from views and small constants, is meant as probabilities.
            judged = name in _LOSSES or name in _LOGARITHMS or (seen[node] and _hands_on(name, below))
            for source in below:
                if source not in seen:
                    seen[source] = judged
                    waiting.append(source)
        elif "Compiled" in name:
            looked.hidden = True
    return looked.facts()


class _Looked:
    """The result of one check of a loss."""

    def __init__(self) -> None:
        self.twice = False
        self.over_samples = False
        self.broadcast = 1
        self.hidden = False

    def at_logits(self, node: Any, name: str, *, judged: bool) -> None:
        below = _behind_views(node)
        if below is not None:
            inner = operation(below)
            # The logarithm of a softmax is its own log-softmax: taking it twice changes nothing.
            self.twice |= inner in _SQUASHED and (name, inner) != ("LogSoftmax", "LogSoftmax")
            self.hidden |= "Compiled" in inner
        if name == "LogSoftmax" or (name == "Softmax" and judged):
            self.over_samples |= _runs_over_samples(node)

    def at_sizes(self, node: Any, name: str) -> None:
        if name not in ("Sub", "Rsub", "Expand", "Mul"):
            return
        below = sources(node)
        made = shape(node)
        if len(below) != 1 or made is None or len(made) != 2 or made[0] != made[1] or made[0] < 2:
            return
        if name == "Mul" and operation(below[0]) not in _LOGARITHMS:
            return
        if shape(below[0]) in ((made[0],), (made[0], 1)) and not _is_meant(below[0]):
            self.broadcast = max(self.broadcast, made[0])

    def facts(self) -> dict[Fact, float]:
        found = {Fact.BROADCAST: float(self.broadcast)}
        if not self.hidden or self.twice:
            found[Fact.SOFTMAX_TWICE] = float(self.twice)
        if not self.hidden or self.over_samples:
            found[Fact.SOFTMAX_AXIS] = float(self.over_samples)
        return found


def _behind_views(node: Any) -> Any:
    """Return the node whose values, possibly shifted a little, are this one's input; None if there are several."""
    for _ in range(MOST_NODES):
        below = sources(node)
        if len(below) != 1:
            return None
        node = below[0]
        name = operation(node)
        if not _hands_on(name, sources(node)):
            return node
    return None


def _hands_on(name: str, below: list[Any]) -> bool:
    """Return whether an operation returns its input values, possibly plus a constant."""
    return name in _VIEWS or (name in _SHIFTS and len(below) == 1)


def _runs_over_samples(node: Any) -> bool:
    size = shape(node)
    axis = saved_axis(node)
    return size is not None and len(size) == 2 and axis in (0, -2) and size[1] > 1


def _is_meant(node: Any) -> bool:
    """Return whether an axis was inserted explicitly, or the values are a parameter's: then pairs are intended."""
    while operation(node) in _VIEWS:
        if operation(node) == "Unsqueeze":
            return True
        below = sources(node)
        if len(below) != 1:
            return False
        node = below[0]
    return operation(node) == "AccumulateGrad"
