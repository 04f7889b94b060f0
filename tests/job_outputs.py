"""The files that the script of a job left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barograph.experiments.artifacts import bytes_of, root_of
from barograph.jobs.outputs import outputs_of
from barograph.store.urls import store_from_url


def outputs(desk: Any, name: str) -> Mapping[str, bytes]:
    """Return the content of all files that the script of a job left, by name."""
    run = store_from_url(str(desk.folder / "barograph-runs" / name))
    return {link.name: bytes_of(root_of(run), link) for link in outputs_of(run)}
