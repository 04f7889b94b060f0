"""Sample names: how the data set or the user names the sample of an index. Reads only names."""

from __future__ import annotations

import inspect
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.utils.data import ConcatDataset, Subset

Source = Callable[[int], object]
"""Returns the name of a sample by its index; None if unknown."""

_LISTS = ("samples", "imgs", "images", "files", "paths", "filenames", "image_files", "image_paths")
"""Common attributes of data sets that contain file paths, alone or as the first of a pair."""

_MOST_PATH_CHARS = 512
_MOST_ENDING_CHARS = 8


def source_of(dataset: Any) -> Source | None:
    """Return a function that names the samples of a data set; None if there is none.

    A method `source(index)` of the data set precedes lists of paths; subsets and concatenations are supported.
    """
    # On the class: an object that delegates missing attributes may respond to any name.
    if callable(getattr(type(dataset), "source", None)):
        own: Source = dataset.source
        return own
    if isinstance(dataset, Subset):
        inner = source_of(dataset.dataset)
        return None if inner is None else lambda index: inner(int(dataset.indices[index]))
    if isinstance(dataset, ConcatDataset):
        return _of_several(dataset)
    return _of_paths(dataset)


def names_in(batch: Any) -> list[str]:
    """Return the names in a batch, in the format of WebDataset; empty without any.

    `__url__` is the file of many samples, `__key__` the sample in it: `FILE#KEY`.

    Example:
        >>> names_in({"__key__": ["a", "b"], "__url__": ["1.tar", "1.tar"]})
        ['1.tar#a', '1.tar#b']
    """
    if not isinstance(batch, Mapping) or "__key__" not in batch:
        return []
    keys, files = _texts(batch["__key__"]), _texts(batch.get("__url__", ()))
    if len(files) != len(keys):
        return keys
    return [f"{file}#{key}" for file, key in zip(files, keys, strict=True)]


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(item) for item in value] if isinstance(value, list | tuple) else []


def _of_several(dataset: ConcatDataset[Any]) -> Source | None:
    inner = [source_of(part) for part in dataset.datasets]
    ends = list(dataset.cumulative_sizes)
    if not any(inner):
        return None

    def name(index: int) -> object:
        part = bisect_right(ends, index)
        source = inner[part]
        return None if source is None else source(index - (ends[part - 1] if part else 0))

    return name


def _of_paths(dataset: Any) -> Source | None:
    # Attributes of the data set or its class, not computed ones.
    for name in _LISTS:
        paths = inspect.getattr_static(dataset, name, None)
        if isinstance(paths, list | tuple) and paths and _path_in(paths[0]):
            return _path_source(paths, inspect.getattr_static(dataset, "root", None))
    return None


def _path_source(paths: Sequence[Any], root: Any) -> Source:
    folder = f"{os.fspath(root).rstrip('/')}/" if isinstance(root, str | os.PathLike) else ""
    return lambda index: (_path_in(paths[index]) or "").removeprefix(folder) or None


def _path_in(item: Any) -> str:
    """Return the path in an item of a list (the item or its first part); "" without one."""
    first = item[0] if isinstance(item, list | tuple) and item else item
    if not isinstance(first, str | os.PathLike):
        return ""
    text = os.fspath(first)
    if not isinstance(text, str) or len(text) > _MOST_PATH_CHARS or "\n" in text:
        return ""  # probably training text
    ending = os.path.splitext(text)[1][1:]
    return text if ending.isalnum() and len(ending) <= _MOST_ENDING_CHARS else ""
