"""Infers from the script's variables and calls which data set it evaluates on, and where.

Used only in evaluations. Of the variables, only the word that names a set is kept.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from barograph.capture.frames import is_of_script, locals_of

_MOST_FRAMES = 100
_MOST_VARIABLES = 1000

TRAIN, VALIDATION, TEST = "train", "val", "test"
_WORDS = {
    **dict.fromkeys(("train", "training", "trn"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "dev", "eval", "evaluation", "holdout", "heldout"), VALIDATION),
    **dict.fromkeys(("test", "testing", "tst"), TEST),
}
_LONGEST_WORD = max(map(len, _WORDS))
_SHORT = {"tr": TRAIN, "va": VALIDATION, "te": TEST}
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_GLUED = re.compile(r"^(train|valid|val|test|dev)(?:x|y|ing)?(?:loader|set|data|dataset|batches|dl|ds|gen|iter|ids)$")

Variable = tuple[Any, str]
"""The code of a function, and the name of a variable in it."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The script's variables and position at a call of a model.

    Attributes:
        site: The call stack: code and line of each function of the script, innermost first.
        named: Variables that contain the name of a set: "train", "val".
        bound: Variables whose data has another variable's name: `data`, which is `train_data`.
        source: Name of the current loader; "": unknown.
    """

    site: tuple[tuple[Any, int], ...] = ()
    named: Mapping[Variable, str] = field(default_factory=dict)
    bound: Mapping[Variable, str] = field(default_factory=dict)
    source: str = ""


def look(loader: Any = None) -> Sight:
    """Return the script's current variables and position.

    Args:
        loader: Loader of the last batch; None: unknown.
    """
    site: list[tuple[Any, int]] = []
    named: dict[Variable, str] = {}
    # By identity: the sets whose names an object has, and the outermost call that has it.
    names_of: dict[int, set[str]] = {}
    named_at: dict[int, int] = {}
    others: list[tuple[Variable, int, int]] = []
    for depth, frame in enumerate(_frames_of_script()):
        site.append((frame.f_code, frame.f_lineno))
        variables = locals_of(frame)
        if len(variables) > _MOST_VARIABLES:
            continue
        for name, value in list(variables.items()):
            if type(value) is str:
                # A script may have megabytes of text.
                if len(value) <= _LONGEST_WORD and (word := _WORDS.get(value.lower())) is not None:
                    named[frame.f_code, name] = word
            elif _is_data(value):
                if (word := set_named(name)) is not None:
                    names_of.setdefault(id(value), set()).add(word)
                    named_at[id(value)] = depth
                else:
                    others.append(((frame.f_code, name), id(value), depth))
        for name, value in list(_attributes(variables.get("self")).items()):
            if _is_data(value) and (word := set_named(name)) is not None:
                names_of.setdefault(id(value), set()).add(word)
                named_at[id(value)] = depth
    only = {number: words.pop() for number, words in names_of.items() if len(words) == 1}
    bound = {variable: only[number] for variable, number, depth in others
             # A caller's `x`, or a function named `train`, does not show what is evaluated.
             if number in only and named_at[number] >= depth}
    return Sight(tuple(site), named, bound, only.get(id(loader), "") if loader is not None else "")


def set_named(name: str) -> str | None:
    """Return the set that a variable's name refers to; None if unclear.

    Example:
        >>> [set_named(name) for name in ("val_loader", "X_train", "testset", "train_test_split", "data")]
        ['val', 'train', 'test', None, None]
    """
    found = {word for part in _PART.findall(name) if (word := _word_of(part.lower())) is not None}
    return found.pop() if len(found) == 1 else None


def _word_of(part: str) -> str | None:
    if part[:1] in ("x", "y") and (rest := part[1:]) in (*_WORDS, *_SHORT):
        return _WORDS.get(rest) or _SHORT[rest]
    glued = _GLUED.match(part)
    return _WORDS.get(part) or _SHORT.get(part) or (_WORDS[glued[1]] if glued else None)


def _is_data(value: Any) -> bool:
    if isinstance(value, torch.Tensor | np.ndarray):
        return value.ndim > 0
    if type(value) in (list, tuple):  # of batches or samples, not a list of losses
        return bool(value) and isinstance(value[0], torch.Tensor | np.ndarray | list | tuple)
    return isinstance(value, DataLoader | Dataset)


def _attributes(item: Any) -> Mapping[str, Any]:
    found = getattr(type(item), "__dict__", None) and getattr(item, "__dict__", None)
    return found if type(found) is dict and not isinstance(item, torch.nn.Module) else {}


def _frames_of_script() -> Iterator[FrameType]:
    """Yield the frames of functions outside Barograph and libraries, innermost first."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        if is_of_script(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back
