"""Optuna, loaded on use."""

from __future__ import annotations

from typing import Any

from barograph.errors import MissingExtra


def optuna() -> Any:
    """Return Optuna, silent.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        import optuna as library  # loaded here: it is an extra, and takes half a second
    except ImportError as error:
        raise MissingExtra("This needs Optuna. Install barograph[tune].") from error
    library.logging.set_verbosity(library.logging.WARNING)
    return library
