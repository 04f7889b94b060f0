"""What runs at the start of every Python below `barograph run` says nothing where nothing trains."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from barograph.capture import inject


def test_a_python_with_nothing_installed_starts_without_a_word() -> None:
    folder = str(Path(inject.__path__[0]))
    # -I and -S: no environment, no site: what a bare interpreter has loaded, and no more.
    program = f"import sys; sys.path.insert(0, {folder!r}); import sitecustomize"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
