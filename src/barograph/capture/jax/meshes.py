"""Which axes of a mesh are part of the type of what lies on it: there each operation must say where its result lies."""

from __future__ import annotations

from typing import Any

import jax


def explicit_axes(tensor: Any) -> tuple[str, ...]:
    """Return the explicit axes of the mesh that a traced tensor lies on; (): there are none."""
    axes: tuple[str, ...] = getattr(jax.typeof(tensor).sharding.mesh, "explicit_axes", ())
    return axes
