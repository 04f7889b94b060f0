"""The order of a pass over the data as a few words of JSON, and back to the samples that it speaks of."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.measures.shuffles import (
    Counting,
    Dealt,
    Drawing,
    Draws,
    Permutation,
    state_of_torch,
    twister_from_seed,
    twister_from_state,
)
from barograph.model.trace import OrderHint

MOST_SAMPLES = 2**25
"""Maximum size of a data set whose passes are stored as an order; verifying one takes 8 bytes of memory per sample
during the pass."""

_WORTHWHILE_SAMPLES = 4096
"""Number of samples that need as much space as a generator's state."""


def order_from_hint(hint: OrderHint) -> str:
    """Return the order as text for the trace; "" if the samples themselves must be stored.

    Example:
        >>> order_from_hint(OrderHint("permutation", 60000, seed=7))
        '{"drawn":"permutation","size":60000,"seed":7}'
    """
    if not 0 < hint.size <= MOST_SAMPLES:
        return ""
    words: dict[str, Any] = {"drawn": hint.drawn, "size": hint.size}
    if hint.drawn != "range":
        if hint.seed is not None:
            words["seed"] = hint.seed
        elif hint.size < _WORTHWHILE_SAMPLES:
            return ""
        else:
            try:
                words["state"] = base64.b64encode(state_of_torch(hint.state)).decode()
            except ValueError:
                return ""
    if hint.drawn == "draws":
        words["count"] = hint.count
    if hint.deal is not None:
        words["deal"] = list(hint.deal)
    return json.dumps(words, separators=(",", ":"))


class Order:
    """The samples of an order, computed on demand.

    Args:
        text: Result of `order_from_hint`.

    Raises:
        ValueError: The text is invalid or unknown.

    Example:
        >>> Order('{"drawn":"range","size":5}').part(3, 9).tolist()
        [3, 4]
    """

    def __init__(self, text: str) -> None:
        words = json.loads(text)
        try:
            size = int(words["size"])
            if not 0 < size <= MOST_SAMPLES:
                raise ValueError(f"a data set of {size} samples; from 1 to {MOST_SAMPLES} are supported")
            self._drawing = _drawing(words, size)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a valid order: {error!r}") from error

    def part(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the samples at positions `start` to `stop` - 1; fewer if the order ends before."""
        return self._drawing.part(start, stop)


def _drawing(words: dict[str, Any], size: int) -> Drawing:
    whole = _whole(words, size)
    if "deal" not in words:
        return whole
    rank, workers, drop_last = words["deal"]
    return Dealt(whole, size, rank=int(rank), workers=int(workers), drop_last=bool(drop_last))


def _whole(words: dict[str, Any], size: int) -> Drawing:
    if words["drawn"] == "range":
        return Counting(size)
    twister = twister_from_seed(int(words["seed"])) if "seed" in words else twister_from_state(
        base64.b64decode(words["state"]))
    if words["drawn"] == "permutation":
        return Permutation(twister, size)
    if words["drawn"] == "draws":
        return Draws(twister, size, int(words["count"]))
    raise ValueError(f'unknown order "{words["drawn"]}"')
