"""The orders of PyTorch's samplers, computed from their seed without PyTorch.

A shuffled pass over a million samples takes 2.5 bytes a sample as indices, and a few bytes in all as a seed. Verify an
order before you store it as a seed: another version of PyTorch may draw differently.
"""

from __future__ import annotations

import struct
from array import array
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_WORDS = 624
_TORCH_STATE = struct.Struct("<QiiQ")
"""Header of the state of a PyTorch generator: seed, draws left, whether seeded, next word."""

_DRAWS_AT_ONCE = 4096


class Twister:
    """MT19937, the CPU random number generator of PyTorch and NumPy.

    Args:
        words: The state, 624 32-bit numbers.
        position: Index of the next one; 624: all are used.
    """

    def __init__(self, words: NDArray[np.uint32], position: int) -> None:
        self._generator = np.random.MT19937()
        self._generator.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": position}}

    def draw(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` 32-bit numbers."""
        return self._generator.random_raw(count)


def twister_from_seed(seed: int) -> Twister:
    """Return the generator after `torch.Generator().manual_seed(seed)`, which uses the lower 32 bits of a seed.

    Example:
        >>> twister_from_seed(0).draw(2).tolist()
        [2357136044, 2546248239]
    """
    _, words, position, *_ = np.random.RandomState(seed & 0xFFFFFFFF).get_state(legacy=True)
    return Twister(np.asarray(words, np.uint32), int(position))


def state_of_torch(data: bytes) -> bytes:
    """Return the relevant part of `torch.Generator().get_state()`: 624 32-bit words and the position of the next.

    Raises:
        ValueError: The data is not such a state.
    """
    words_at = _TORCH_STATE.size
    if len(data) < words_at + 8 * _WORDS:
        raise ValueError("not the state of a CPU generator of PyTorch")
    _, left, _, position = _TORCH_STATE.unpack_from(data)
    words = np.frombuffer(data, "<u8", _WORDS, words_at).astype("<u4")
    return words.tobytes() + struct.pack("<I", _WORDS if left == 1 else position)


def twister_from_state(state: bytes) -> Twister:
    """Return the generator with a state from `state_of_torch`; raises ValueError if it is not valid."""
    if len(state) != 4 * _WORDS + 4:
        raise ValueError("not a state of the generator")
    words = np.frombuffer(state, "<u4", _WORDS)
    return Twister(words.astype(np.uint32), min(_WORDS, struct.unpack_from("<I", state, 4 * _WORDS)[0]))


class Drawing(Protocol):
    """An order of samples, computed lazily."""

    def part(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the samples at positions `start` to `stop` - 1 of the order; fewer at its end."""
        ...


class Counting:
    """Samples in order: 0, 1, … size - 1."""

    def __init__(self, size: int) -> None:
        self._size = size

    def part(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the samples at these positions."""
        return np.arange(start, max(start, min(stop, self._size)), dtype=np.int64)


class Permutation:
    """`torch.randperm(size)` on the CPU: Fisher-Yates from the front, so its start is known early.

    Args:
        twister: Generator; not shared.
        size: Number of samples, up to 2^32 / 20: PyTorch draws larger ones differently.

    Example:
        >>> Permutation(twister_from_seed(0), 5).part(0, 9).tolist()
        [4, 0, 1, 3, 2]
    """

    def __init__(self, twister: Twister, size: int) -> None:
        self._twister = twister
        self._size = size
        self._order = array("q", range(size))
        self._known = 0

    def part(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the samples at these positions."""
        self._find_out(min(stop, self._size))
        return np.frombuffer(self._order, np.int64)[start:stop].copy()

    def _find_out(self, stop: int) -> None:
        order, size = self._order, self._size
        while self._known < stop:
            first = self._known
            # The last position needs no draw: only one sample is left.
            last = min(size - 1, first + _DRAWS_AT_ONCE)
            left = np.arange(size - first, size - last, -1, dtype=np.uint64)
            others = (self._twister.draw(last - first) % left).astype(np.int64) + np.arange(first, last)
            for place, other in enumerate(others.tolist(), first):
                order[place], order[other] = order[other], order[place]
            self._known = last if last < size - 1 else size


class Draws:
    """`torch.randint(size, …)` on the CPU: samples drawn with replacement.

    Args:
        twister: Generator; not shared.
        size: Number of samples.
        count: Number of draws.

    Example:
        >>> Draws(twister_from_seed(0), 10, 4).part(0, 4).tolist()
        [4, 9, 3, 0]
    """

    def __init__(self, twister: Twister, size: int, count: int) -> None:
        self._twister = twister
        self._size = size
        self._count = count
        self._drawn = np.empty(0, np.int64)

    def part(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the samples at these positions."""
        missing = min(stop, self._count) - len(self._drawn)
        if missing > 0:
            more = self._twister.draw(max(missing, _DRAWS_AT_ONCE)) % np.uint64(self._size)
            self._drawn = np.concatenate([self._drawn, more.astype(np.int64)])
        return self._drawn[start : min(stop, self._count)]


class Dealt:
    """The part of an order for one of several workers, as `DistributedSampler` splits it.

    Args:
        whole: The whole order.
        size: Number of its samples.
        rank, workers: Rank, and number of workers.
        drop_last: Drop the samples of an uneven remainder; otherwise the order is padded from its start.

    Example:
        >>> Dealt(Counting(5), 5, rank=1, workers=2, drop_last=False).part(0, 9).tolist()
        [1, 3, 0]
    """

    def __init__(self, whole: Drawing, size: int, *, rank: int, workers: int, drop_last: bool) -> None:
        self._whole = whole
        self._size = size
        self._rank = rank
        self._workers = workers
        self._count = size // workers if drop_last else -(-size // workers)

    def part(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the samples at these positions."""
        stop = min(stop, self._count)
        places = self._rank + self._workers * np.arange(start, max(start, stop), dtype=np.int64)
        if not len(places):
            return places
        # It wraps around only at the very end.
        low, high = (int(places[0]), int(places[-1]) + 1) if places[-1] < self._size else (0, self._size)
        return self._whole.part(low, high)[places % self._size - low]
