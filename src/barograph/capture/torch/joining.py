"""Detects when a process joins the other workers of its training; only then is its rank known.

A launcher like torchrun says that in the environment. Of processes that a script starts by itself, as those of
`torch.multiprocessing.spawn`, only the script knows.
"""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable
from typing import Any

from torch import distributed


def is_child() -> bool:
    """Return whether the script has started this process by itself, by multiprocessing, and no launcher."""
    # While a process that is spawned imports the script, it does not know its parent yet.
    return multiprocessing.parent_process() is not None or bool(
        getattr(multiprocessing.current_process(), "_inheriting", False))


def before_joining(action: Callable[[functools.partial[None]], None]) -> None:
    """Have `action` called in place of the first `init_process_group` of this process, and of each forked of it.

    Args:
        action: Gets what joins the others, with the arguments of the script.
    """
    joins = distributed.init_process_group

    @functools.wraps(joins)
    def join(*args: Any, **kwargs: Any) -> None:
        if distributed.init_process_group is join:
            distributed.init_process_group = joins
        action(functools.partial(joins, *args, **kwargs))

    distributed.init_process_group = join
