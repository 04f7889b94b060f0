"""What a notebook shows of an object."""

from __future__ import annotations

import types
from typing import Any

from IPython.core.formatters import DisplayFormatter

from barograph.jupyter.formatters import register


def drawn(thing: Any) -> str:
    """Return an object as the HTML that IPython displays."""
    formatter = DisplayFormatter()
    register(types.SimpleNamespace(display_formatter=formatter))
    data, _ = formatter.format(thing)
    return str(data["text/html"])
