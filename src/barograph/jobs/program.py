"""The script or program of a job, checked where it is submitted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from barograph.jobs.launchers import is_python, is_shell_script
from barograph.jobs.spec import JobSpec


def program_problem(spec: JobSpec) -> str:
    """Return why the script or program of a job cannot be started, and what to type; "" if it can."""
    program = spec.command[0] if spec.command else ""
    script = next((word for word in spec.command[:2] if word.endswith(".py")), "") if is_python(program) else program
    path = Path(script)
    if not script:
        return ""
    if path.is_dir():
        return f"{script} is a directory. Submit a script or a program."
    if script.endswith(".py") and not path.is_file():
        return f"No script at {script}."
    if path.is_file() and not _is_sent(path, spec):
        return (f"{script} is outside of this folder, and only files of this folder reach the instances. Submit it "
                "from its own folder.")
    if script.endswith(".py"):
        return ""
    if path.is_file():
        if is_shell_script(script):
            return ""
        if not os.access(path, os.X_OK):
            return f"{script} is not executable. Type: sh {script}"
        return "" if os.sep in script else f"{script} is not on the PATH. Type: ./{script}"
    return f'Program not found: "{script}".' if spec.engine == "local" and shutil.which(script) is None else ""


def _is_sent(path: Path, spec: JobSpec) -> bool:
    """Return whether the instances find a file of this machine: it is in this folder, or they are on this machine."""
    if path.is_absolute():
        return spec.engine == "local"
    return not os.path.normpath(path).startswith(os.pardir)
