"""Finds the loss among the numbers that a function of the script returns."""

from __future__ import annotations

from collections.abc import Collection


def loss_among(names: Collection[str]) -> str | None:
    """Return the name of the loss: "loss", else the unnamed number, else the first with "loss" in it; None if there is
    none.

    Args:
        names: Names of the numbers, in order; "" if unnamed.

    Example:
        >>> loss_among(["acc", "val_loss"]), loss_among(["val_loss", ""]), loss_among(["acc"])
        ('val_loss', '', None)
    """
    called_so = [name for name in names if "loss" in name.lower()]
    return next((name for name in ("loss", "", *called_so) if name in names), None)
