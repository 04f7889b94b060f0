"""Finds why a softmax or a product returned non-finite values: a row that is masked completely, or an overflow."""

from __future__ import annotations

from typing import Any

import torch

from barograph.capture.torch.graph import operation, saved, saved_axis

FULLY_MASKED, OF_INFINITY, OF_INFINITY_FLOAT16 = "softmax", "softmax_of_infinity", "softmax_float16"
_MASKS = {"MaskedFill": "mask", "Where": "condition"}
_PRODUCTS = {"Bmm": ("self", "mat2"), "Mm": ("self", "mat2"), "Addmm": ("mat1", "mat2"),
             "Baddbmm": ("batch1", "batch2")}
_KEEP_INFINITIES = frozenset({"View", "UnsafeView", "ReshapeAlias", "Expand", "Clone", "ToCopy", "Transpose", "Permute",
                              "T", "Unsqueeze", "Squeeze", "Div", "Mul", *_MASKS})
"""Operations whose result is infinite where their first input is, at least where it is not masked."""

_MOST_PASSED = 32


def why_softmax(node: Any) -> str:
    """Return the operation behind the non-finite values of a softmax; "": the one that made its input.

    A row is NaN if it is masked with −inf completely, or if it contains +inf or NaN: the masks in the graph tell.
    """
    chain = _chain(node.next_functions[0][0] if node.next_functions else None)
    masked = [step for step in chain if operation(step) in _MASKS]
    overflow = overflowing_product(chain[-1]) if chain else ""
    if not masked:
        return overflow
    made, axis = saved(node, "result"), saved_axis(node)
    masks = [] if made is None else [mask for mask in map(_mask_of, masked)
                                     if mask is not None and _fits(mask, made.shape)]
    if made is None or axis is None or len(masks) < len(masked):
        narrow = any(_type(step) is torch.float16 for step in chain)
        return overflow or (OF_INFINITY_FLOAT16 if narrow else OF_INFINITY)
    hidden = torch.zeros((), dtype=torch.bool, device=made.device)
    for mask in masks:
        hidden = hidden | mask
    innocent = ~hidden.expand(made.shape).all(axis)
    return overflow if bool((made.isnan().any(axis) & innocent).any()) else FULLY_MASKED


def overflowing_product(node: Any) -> str:
    """Return the name of the matrix product behind a node if it can exceed its number format; "": none can.

    Example:
        >>> large = torch.full((2, 2), 300.0, dtype=torch.float16, requires_grad=True)
        >>> overflowing_product((large @ large).grad_fn), overflowing_product((large @ (large / 300)).grad_fn)
        ('mm_float16', '')
    """
    chain = _chain(node)
    name = operation(chain[-1]) if chain else ""
    if name not in _PRODUCTS:
        return ""
    left, right = (saved(chain[-1], place) for place in _PRODUCTS[name])
    if left is None or right is None or not left.numel() or not right.numel():
        return ""
    # No entry of a product is above the product of the norms: cheap, and needs no memory.
    bound = (_norm(left, -1) * _norm(right, -2)).item()
    if not torch.finfo(left.dtype).max < bound < float("inf"):
        return ""
    return f"{name.lower()}_float16" if left.dtype is torch.float16 else name.lower()


def _norm(value: torch.Tensor, axis: int) -> torch.Tensor:
    wide = torch.float32 if value.device.type == "mps" else torch.float64
    norms: torch.Tensor = torch.linalg.vector_norm(value, dim=axis, dtype=wide)
    return norms.max()


def _chain(node: Any) -> list[Any]:
    """Return a node and those before it, up to the first that does not simply pass infinities on."""
    found: list[Any] = []
    while node is not None and len(found) < _MOST_PASSED:
        found.append(node)
        if operation(node) not in _KEEP_INFINITIES:
            break
        node = node.next_functions[0][0] or (node.next_functions[1][0] if operation(node) == "Where" else None)
    return found


def _mask_of(node: Any) -> torch.Tensor | None:
    """Return where a node replaces the values it is given."""
    value = saved(node, _MASKS[operation(node)])
    if value is None or operation(node) == "MaskedFill":
        return value
    taken = [source is not None for source, _ in node.next_functions[:2]]
    return None if all(taken) else ~value if taken[0] else value


def _fits(mask: torch.Tensor, shape: tuple[int, ...]) -> bool:
    return mask.dim() <= len(shape) and all(
        size in (1, whole) for size, whole in zip(reversed(mask.shape), reversed(shape), strict=False))


def _type(node: Any) -> torch.dtype | None:
    made = getattr(node, "_input_metadata", ())
    return made[0].dtype if made else None
