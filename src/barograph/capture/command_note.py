"""The note that a command without training leaves for `barograph run`: see `runs/writing/command_note.py`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from barograph.model.launch_variable import COMMAND_NOTE_VARIABLE, LAUNCH_VARIABLE

if TYPE_CHECKING:
    from barograph.capture.surroundings import Surroundings

_MOST_ERROR_CHARS = 100_000
"""Its reader hides secrets in it before it is shortened."""
_FRAMEWORKS = {
    "torch": "PyTorch", "tensorflow": "TensorFlow", "keras": "Keras", "jax": "JAX", "xgboost": "XGBoost",
    "lightgbm": "LightGBM", "sklearn": "scikit-learn", "mxnet": "MXNet",
}


def write_note(around: Surroundings, process: int) -> None:
    """Write a note for the parent process with what no writer process has received.

    Args:
        around: Recorded surroundings.
        process: Process ID of the recording process: a forked child writes no note.
    """
    parent, _, path = os.environ.get(COMMAND_NOTE_VARIABLE, "").partition(":")
    if around.is_handed_over or os.getpid() != process or parent != str(os.getppid()):
        return
    try:
        _write(path, around)
    except Exception as error:
        if '"strict": true' in os.environ.get(LAUNCH_VARIABLE, ""):
            raise
        print(f"Barograph: the output of this process was not saved: {error}", file=sys.stderr)


def _write(path: str, around: Surroundings) -> None:
    import json  # only in a process that is exiting

    opened, beyond = around.opened_since(0)
    printed, left_out = around.take_printed()
    options = {name: [option.value, option.flags] for name, option in around.options_seen().items()}
    # In ASCII, since output and names may contain invalid Unicode.
    with open(path, "w", encoding="ascii") as file:
        json.dump({"opened": opened, "beyond": beyond, "printed": printed, "left_out": left_out, "options": options,
                   "frameworks": imported_frameworks(), "loops": has_loop(_main_file()),
                   "error": last_error()}, file)


def last_error() -> str:
    """Return the error that ends this process, in one line; "" if none does."""
    error = getattr(sys, "last_value", None)
    if error is None or isinstance(error, SystemExit | KeyboardInterrupt):
        return ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:_MOST_ERROR_CHARS] if text else type(error).__name__


def imported_frameworks() -> list[str]:
    """Return the frameworks that this process has imported."""
    return [name for module, name in _FRAMEWORKS.items() if module in sys.modules]


def _main_file() -> str | None:
    # Python has deleted `__main__.__file__` when it calls atexit functions.
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec.origin if spec is not None else next(iter(sys.argv), None)


def has_loop(script: str | None) -> bool:
    """Return whether a Python file has a loop; True if it cannot be read."""
    import ast

    try:
        with open(script or "", "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return True
    return any(isinstance(node, ast.For | ast.While | ast.AsyncFor) for node in ast.walk(tree))
