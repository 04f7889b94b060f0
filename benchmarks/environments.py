"""The benchmarks' own virtual environments: one per tool, below `.venvs/`, so that requirements do not conflict.

    python -m benchmarks.environments            create all missing ones
    python -m benchmarks.environments wandb aim  create these

Barograph itself and the bare steps run in the environment that runs the benchmarks. Every environment that trains has
the same PyTorch; steps with different versions are not compared.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".venvs"

TORCH = "torch==2.13.0"

OWN = "barograph"
"""Name of the environment that runs the benchmarks."""

REQUIREMENTS: Mapping[str, tuple[str, ...]] = {
    "tensorboard": (TORCH, "tensorboard==2.21.0"),
    "wandb": (TORCH, "wandb==0.31.0", "numpy"),
    "trainscope": (TORCH, "trainscope==1.8.1"),
    # The last release predates NumPy 2.3, and its declared dependencies are incomplete. Building needs a C compiler.
    "smdebug": (TORCH, "smdebug==1.0.34", "numpy<2.3", "requests", "pandas", "psutil"),
    "trackio": ("trackio==0.43.0",),
    "aim": ("aim==3.29.1",),
    # Searches that are compared with ours; nevergrad 1.0.12 needs this version of bayesian-optimization.
    "search": ("nevergrad==1.0.12", "bayesian-optimization==1.4.3", "cmaes==0.13.1"),
    "mlflow": ("mlflow==3.17.2",),
}

SMDEBUG_PYTHON = (3, 11)
"""The newest Python version that smdebug 1.0.34 supports."""


class EnvironmentUnavailable(Exception):
    """An environment could not be created here; the message says why."""


def python_of(name: str) -> Path:
    """Return the interpreter of an environment created by `prepare`."""
    if name == OWN:
        return Path(sys.executable)
    scripts = "Scripts" if sys.platform == "win32" else "bin"
    return HOME / name / scripts / "python"


def prepare(name: str) -> Path:
    """Return the interpreter of an environment, after creating it if it is missing or stale.

    Raises:
        EnvironmentUnavailable: It cannot be installed here; the message contains pip's reason.
    """
    python = python_of(name)
    if name == OWN or _is_ready(name):
        return python
    if name == "smdebug" and sys.version_info[:2] > SMDEBUG_PYTHON:
        raise EnvironmentUnavailable("smdebug 1.0.34 installs on Python 3.11 at most; run the bench with Python 3.11")
    if not python.exists():
        venv.create(HOME / name, with_pip=True, symlinks=sys.platform != "win32")
    _install(python, REQUIREMENTS[name])
    _stamp(name).write_text("\n".join(REQUIREMENTS[name]), encoding="utf-8")
    return python


def _install(python: Path, requirements: Sequence[str]) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stderr.splitlines()
        raise EnvironmentUnavailable(f"pip could not install {' '.join(requirements)}: {'; '.join(reason[-3:])}")


def _is_ready(name: str) -> bool:
    stamp = _stamp(name)
    return stamp.exists() and stamp.read_text(encoding="utf-8") == "\n".join(REQUIREMENTS[name])


def _stamp(name: str) -> Path:
    return HOME / name / ".requirements"


def main(names: Sequence[str]) -> int:
    unknown = sorted(set(names) - set(REQUIREMENTS))
    if unknown:
        print(f"unknown environment: {', '.join(unknown)}. Known: {', '.join(REQUIREMENTS)}", file=sys.stderr)
        return 2
    failed = False
    for name in names or REQUIREMENTS:
        try:
            print(f"{name}: {prepare(name)}")
        except EnvironmentUnavailable as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
