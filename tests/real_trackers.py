"""An environment with the real MLflow, Weights & Biases and Aim, and what they write into it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from benchmarks.environments import REQUIREMENTS, TORCH
from own_environment import Unavailable, python_with

__all__ = ["Unavailable", "made_by", "python_with_trackers"]

WANTED = [entry for name in ("mlflow", "wandb", "aim") for entry in REQUIREMENTS[name] if entry != TORCH]
HERE = Path(__file__).parent
SCRIPT_SECS = 600.0
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ALLOW_FILE_STORE": "true", "GIT_PYTHON_REFRESH": "quiet",
    "WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false", "PYTHONWARNINGS": "ignore",
}


def python_with_trackers() -> Path:
    """Return an interpreter that has the three.

    Raises:
        Unavailable: It cannot be made here.
    """
    return python_with("trackers", WANTED)


def made_by(script: str, folder: Path) -> Path:
    """Return a folder in which a script of this folder has been run by that interpreter.

    Raises:
        Unavailable: As above.
    """
    python = python_with_trackers()
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, **QUIET, "HOME": str(folder)}
    done = subprocess.run([python, HERE / script], cwd=folder, env=environment, capture_output=True, text=True,
                          check=False, timeout=SCRIPT_SECS)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder
