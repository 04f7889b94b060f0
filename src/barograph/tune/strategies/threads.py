"""One thread for the linear algebra of a proposal."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any


def one_thread() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which NumPy's linear algebra uses one thread, if threadpoolctl is installed.

    The matrices of a study are small: a second thread gains nothing, and on a busy processor both wait for each other.
    """
    pools = _pools(len(sys.modules))
    return contextlib.nullcontext() if pools is None else pools.limit(limits=1, user_api="blas")


@functools.lru_cache(maxsize=1)
def _pools(modules: int) -> Any:
    """Return the libraries of the process; since that takes a millisecond, the same as long as nothing is imported."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
