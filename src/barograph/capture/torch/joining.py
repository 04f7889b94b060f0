"""Detects when a process joins the other workers of its training; only then is its rank known.

A launcher such as torchrun sets environment variables. For processes that a script starts itself, such as those of
`torch.multiprocessing.spawn`, only the script knows the rank.
"""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable
from typing import Any

from torch import distributed


def is_child() -> bool:
    """Return whether the script started this process with multiprocessing, without a launcher."""
    # While a spawned process imports the script, it does not know its parent yet.
    return multiprocessing.parent_process() is not None or bool(
        getattr(multiprocessing.current_process(), "_inheriting", False))


def before_joining(action: Callable[[functools.partial[None]], None]) -> None:
    """Call `action` instead of the first `init_process_group` of this process and of each process forked from it.

    Args:
        action: Gets a function that joins the others, with the arguments of the script.
    """
    joins = distributed.init_process_group

    @functools.wraps(joins)
    def join(*args: Any, **kwargs: Any) -> None:
        if distributed.init_process_group is join:
            distributed.init_process_group = joins
        action(functools.partial(joins, *args, **kwargs))

    distributed.init_process_group = join
