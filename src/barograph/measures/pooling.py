"""Smaller copies of samples and of layer outputs: means over blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_SIDE = 64
"""Largest height and width of a reduced image."""

MOST_VALUES = 1024
"""Largest number of values of a reduced sample that is no image."""

_CHANNELS = (1, 3, 4)


def is_image(shape: tuple[int, ...]) -> bool:
    """Return whether a sample of this shape can be drawn as an image: (H, W), (C, H, W) or (H, W, C).

    Example:
        >>> is_image((1, 8, 8)), is_image((64,)), is_image((3, 1))
        (True, False, False)
    """
    if len(shape) == 2:
        return min(shape) > 3
    return len(shape) == 3 and (shape[0] in _CHANNELS or shape[2] in _CHANNELS) and sorted(shape)[1] > 1


def reduced_sample(sample: NDArray[Any], most_side: int = MOST_SIDE, most_values: int = MOST_VALUES) -> NDArray[Any]:
    """Return a sample small enough to store.

    Args:
        sample: One sample.
        most_side: Largest height and width of an image. Larger ones are averaged over square blocks; rows and columns
            that fill no block are cut off.
        most_values: Of a sample that is no image, the first values.

    Example:
        >>> reduced_sample(np.arange(16.0).reshape(4, 4), most_side=2)
        array([[ 2.5,  4.5],
               [10.5, 12.5]])
    """
    if not is_image(sample.shape):
        return sample if sample.size <= most_values else sample.reshape(-1)[:most_values]
    channels_last = sample.ndim == 3 and sample.shape[0] not in _CHANNELS
    image = np.moveaxis(sample, 2, 0) if channels_last else sample
    height, width = image.shape[-2:]
    block = max(1, -(-max(height, width) // most_side))
    block = min(block, height, width)
    if block > 1:
        rows, columns = height // block, width // block
        cut = image[..., : rows * block, : columns * block].astype(np.float32)
        blocks = cut.reshape(*image.shape[:-2], rows, block, columns, block)
        image = blocks.mean((-3, -1)).astype(image.dtype if image.dtype.kind == "u" else np.result_type(cut, sample))
    return np.moveaxis(image, 0, 2) if channels_last else image
