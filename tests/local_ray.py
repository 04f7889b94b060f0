"""A small Ray cluster on this machine that the test process joins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import ray


@contextmanager
def joined_cluster(cpus: int) -> Iterator[Any]:
    """Yield what `ray.init` returns about a new cluster.

    None of them authenticates: a process keeps the mode of its first cluster, and fails at one with another mode.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        try:
            yield ray.init(address="local", num_cpus=cpus, include_dashboard=False, object_store_memory=100 * 2**20,
                           log_to_driver=False, logging_level="ERROR")
        finally:
            ray.shutdown()
