"""Code shared by the XGBoost and LightGBM trainers: arguments and the objective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barograph.errors import SettingsError
from barograph.jobs.algorithms.table_training import Task


def rounds_of(parameters: dict[str, str], names: Sequence[str]) -> tuple[int, int]:
    """Take the number of rounds and `early_stopping_rounds` out of the parameters.

    Args:
        names: Names of the number of rounds.

    Raises:
        SettingsError: A value is not an integer.
    """
    given = [parameters.pop(name) for name in names if name in parameters]
    try:
        return int((given or ["100"])[0]), int(parameters.pop("early_stopping_rounds", "0"))
    except ValueError as error:
        raise SettingsError(f"The number of rounds must be an integer: {error}.") from error


def objective_of(task: Task, regression: str, binary: Sequence[str], multiclass: Sequence[str]) -> dict[str, Any]:
    """Return the objective that suits the task, and the number of classes if it needs one.

    Args:
        regression: Default objective of a regression; any other may be given.
        binary, multiclass: Objectives that predict probabilities; the first is the default.

    Raises:
        SettingsError: The objective in the parameters predicts no probabilities.
    """
    classes = len(task.classes)
    if not classes:
        return {"objective": regression}
    allowed = binary if classes == 2 else multiclass
    given = task.parameters.get("objective", allowed[0])
    if given not in allowed:
        raise SettingsError(f"objective is {given}, which predicts no probabilities of {classes} classes. "
                            f"Use {allowed[0]}, or pass --task regression.")
    return {"objective": given} | ({"num_class": classes} if classes > 2 else {})
