"""The format of a step's additional results: a flat tuple of tensors, with a description.

TensorFlow rebuilds the result structure of a function in Python. Each list or dictionary in it takes as long as reading
a tensor, and lists may become tensors. So there is one flat tuple of tensors. Its description is the only key of a
dictionary, which TensorFlow stores with each compiled program.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

Left = Mapping[str, tuple[Any, ...]]
_ALONE = -1
"""Number of tensors for a single one instead of a list."""


def leaving(seen: Mapping[str, Any]) -> Left:
    """Return collected values in the form in which they leave a function.

    Args:
        seen: By name a tensor, or a group: by path a tensor, or a list of them.

    Example:
        >>> leaving({"loss": 1, "outputs": {"a": [2, 3]}, "fed": {}})
        {'[["loss", null, -1], ["outputs", "a", 2], ["fed", null, 0]]': (1, 2, 3)}
    """
    words: list[tuple[str, str | None, int]] = []
    tensors: list[Any] = []
    for name, item in seen.items():
        if not isinstance(item, dict):
            words.append((name, None, _ALONE))
            tensors.append(item)
        elif not item:
            words.append((name, None, 0))
        else:
            for path, value in item.items():
                several = isinstance(value, list | tuple)
                words.append((name, path, len(value) if several else _ALONE))
                tensors.extend(value if several else [value])
    return {json.dumps(words): tuple(tensors)}


def come_out(left: Left) -> dict[str, Any]:
    """Return the collected values as passed to `leaving`.

    Example:
        >>> come_out(leaving({"loss": 1, "outputs": {"a": [2, 3]}, "fed": {}}))
        {'loss': 1, 'outputs': {'a': [2, 3]}, 'fed': {}}
    """
    ((words, tensors),) = left.items()
    seen: dict[str, Any] = {}
    begin = 0
    for name, path, count in _parsed(words):
        end = begin + abs(count)
        value = tensors[begin] if count == _ALONE else list(tensors[begin:end])
        begin = end
        if path is not None:
            seen.setdefault(name, {})[path] = value
        else:
            seen[name] = {} if count == 0 else value
    return seen


@functools.lru_cache(64)
def _parsed(words: str) -> tuple[tuple[str, str | None, int], ...]:
    return tuple((name, path, count) for name, path, count in json.loads(words))
