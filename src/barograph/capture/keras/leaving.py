"""The format of a step's additional results: a flat tuple of tensors, with a description.

TensorFlow puts together in Python whatever a function returns. For each list or dictionary in it that takes as long as
to read a tensor, and of a list it would make one tensor. So there is one tuple of tensors. What these are stands in the
only key of a dictionary, which TensorFlow keeps as it is with each program that it makes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

Left = Mapping[str, tuple[Any, ...]]
_ALONE = -1
"""Stands for how many tensors there are of a name, where it is no list of them."""


def leaving(seen: Mapping[str, Any]) -> Left:
    """Return what was seen in the form in which it leaves.

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
    """Return what was seen, as it was handed to `leaving`.

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
