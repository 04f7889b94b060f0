"""The script of this process, as started; capsules store it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

_MOST_SOURCE_BYTES = 4 * 2**20
_ENVIRONMENT = ("CUBLAS_", "CUDA_", "KERAS_", "KMP_", "MKL_", "NCCL_", "OMP_", "PYTHONHASHSEED", "PYTORCH_", "TF_",
                "TORCH_", "XLA_")
"""Environment variables that may affect numbers; others are not stored, since they may contain secrets."""

_PYTHONS_OWN = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")
"""Folder of Python's standard library, including that of an environment in the working directory."""


def script_now() -> dict[str, Any]:
    """Return the script, its arguments, its directory, and its source text."""
    return {
        "argv": list(sys.argv), "executable": Path(sys.executable).name, "folder": os.getcwd(),
        "environment": {name: value for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)},
        "sources": sources(),
    }


def sources() -> dict[str, str]:
    """Return the source texts of the script and the modules next to it or below, by path from the working directory."""
    found: dict[str, str] = {}
    room = _MOST_SOURCE_BYTES
    here = Path.cwd().resolve()
    inside: dict[str, bool] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if (not isinstance(file, str) or not file.endswith(".py") or "site-packages" in file
                or file.startswith(_PYTHONS_OWN) or name.partition(".")[0] == "barograph"):
            continue
        # Few of thousands of modules are the script's own, and they are in few folders.
        folder, base = os.path.split(os.path.abspath(file))
        if folder not in inside:
            inside[folder] = Path(folder).resolve().is_relative_to(here)
        if not inside[folder]:
            continue
        path = Path(folder, base).resolve()
        if not path.is_relative_to(here) or not path.is_file() or path.stat().st_size > room:
            continue
        found[path.relative_to(here).as_posix()] = path.read_text(encoding="utf-8", errors="replace")
        room -= path.stat().st_size
    return found
