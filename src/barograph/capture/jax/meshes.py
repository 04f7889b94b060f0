"""The mesh axes that are part of a value's type; there, operations must specify the sharding of results."""

from __future__ import annotations

from typing import Any

import jax


def explicit_axes(tensor: Any) -> tuple[str, ...]:
    """Return the explicit mesh axes of a traced tensor; (): none."""
    axes: tuple[str, ...] = getattr(jax.typeof(tensor).sharding.mesh, "explicit_axes", ())
    return axes
