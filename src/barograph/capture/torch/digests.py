"""Sums for samples' digests, computed where the samples are: in memory or on a device."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import torch

from barograph.measures.digests import WORDS, row_sums, word_weights

_MOST_WORDS = 1 << 20
"""Maximum number of words read per batch: of a larger one, evenly spread samples."""

_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_TENSOR_WEIGHT = 0x2545F4914F6CDD1D


def sample_sums(tensors: Iterable[torch.Tensor], rows: int) -> torch.Tensor | None:
    """Return the sums from which digests of samples are computed.

    Args:
        tensors: Inputs of a model. Only tensors with `rows` along the first axis are read.
        rows: Number of samples.

    Returns:
        Shape (2, read samples), int64, on the device of the tensors: the weighted sums, and 1 for each constant sample,
        such as one of a single number. None: there is nothing to read.
    """
    words = [item for tensor in tensors if (item := _words(tensor, rows)) is not None]
    width = sum(item.shape[1] for item in words)
    if not words or not width:
        return None
    every = max(1, -(-rows * min(width, WORDS) // _MOST_WORDS))
    device = words[0].device
    total = alike = None
    for number, item in enumerate(words):
        item = item[::every]
        sums = torch.from_numpy(row_sums(item.numpy())) if item.is_cpu else sums_on_device(item)
        # If all words are equal, the sum is the first word times the sum of all weights.
        same = sums == item[:, 0].to(torch.int64) * _wrapped_sum(item.shape[1])
        sums, same = sums.to(device), same.to(device)
        total = sums if total is None else total + sums * (_TENSOR_WEIGHT + 2 * number)
        alike = same if alike is None else alike & same
    if total is None or alike is None:
        return None
    return torch.stack([total, alike.to(torch.int64)])


def _words(tensor: torch.Tensor, rows: int) -> torch.Tensor | None:
    """Return the bits of a tensor as signed integers, one row per sample; None if they are not accessible."""
    if (
        tensor.dim() == 0 or tensor.is_nested or tensor.shape[0] != rows or not tensor.numel()
        or tensor.layout is not torch.strided or tensor.is_quantized or hasattr(tensor, "to_local")
    ):
        return None
    item = tensor.detach().resolve_conj().resolve_neg()
    if item.is_complex():
        item = torch.view_as_real(item)
    flat = item.reshape(rows, -1)
    flat = flat[:, :: -(-flat.shape[1] // WORDS)]
    return flat.view(_SIGNED[flat.element_size()])


def sums_on_device(words: torch.Tensor) -> torch.Tensor:
    """Return the result of `row_sums`, computed with torch operations on the device of `words`."""
    return (words.to(torch.int64) * _weights_on(words.shape[1], words.device)).sum(1)


@functools.lru_cache(maxsize=32)
def _weights_on(words: int, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(word_weights(words).copy()).to(device)


@functools.lru_cache(maxsize=32)
def _wrapped_sum(words: int) -> int:
    """Return the sum of the weights, modulo 2**64, as a signed number."""
    return int(word_weights(words).sum())
