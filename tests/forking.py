"""Starts the fork server: a process that has imported a framework and runs each command in a fork of itself.

Commands find the server through the folder `programs`, which holds `python`, `barograph` and `torchrun`: with that
folder first in PATH, they run in a fork instead of a new interpreter, and so do the processes that they start. See
docs/why/tests-fork-commands.md for what may be tested so.
"""

from __future__ import annotations

import importlib._bootstrap_external as importing
import json
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from barograph import cli

_SOURCES = Path(__file__).parent / "fork_server"
_BAROGRAPH = ("barograph.cli.main", *(item.name for item in pkgutil.walk_packages(cli.__path__, f"{cli.__name__}.")),
              "barograph.runs.writing.writer_process", "barograph.rules.builtin")
"""Every command, and what each recording loads besides."""


AVAILABLE = Path("/proc/self/task").exists()

TORCH = ("torch", "torch._dynamo", "barograph.capture.torch.integration")
"""What nearly every PyTorch script of a recording imports: its first optimizer imports `torch._dynamo`."""
DIGITS = (*TORCH, "sklearn.datasets")
"""What the examples import."""
TABLES = ("pandas", "sklearn", "xgboost", "lightgbm")
"""What the algorithms on tables import."""


class ForkServer:
    """A fork server, started.

    Args:
        modules: What it imports. A script sees them as not imported until it imports them.
        variables: Variables of its environment that the modules read. A command without them is not forked.

    Attributes:
        programs: The folder for PATH.
    """

    def __init__(self, *modules: str, **variables: str) -> None:
        # The path of a socket has room for about 100 bytes, which pytest's folders exceed.
        self.programs = Path(tempfile.mkdtemp(prefix="barograph-fork-"))
        server = self.programs / "server.pyc"
        code = compile((_SOURCES / "server.py").read_bytes(), "<fork server>", "exec")
        server.write_bytes(importing._code_to_timestamp_pyc(code))
        client = f"#!{sys.executable} -IS\n{(_SOURCES / 'client.py').read_text(encoding='utf-8')}"
        for name in ("python", "python3", "barograph", "torchrun"):
            (self.programs / name).write_text(client, encoding="utf-8")
            (self.programs / name).chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BAROGRAPH")}
        self._log = self.programs / "log"
        self._process = subprocess.Popen(
            [sys.executable, str(server), str(self.programs / "socket"), sys.executable, str(self._log), *_BAROGRAPH,
             *modules],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**environment, "OMP_NUM_THREADS": "1", **variables})
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            raise RuntimeError("The fork server did not start.")

    def commands(self) -> list[tuple[str, list[str]]]:
        """Return the commands so far, each with "forked" or the reason why a new interpreter ran it."""
        return [tuple(json.loads(line)) for line in self._log.read_text(encoding="utf-8").splitlines()]

    def close(self) -> None:
        """End the server and what still runs in forks of it."""
        self._process.communicate()
        shutil.rmtree(self.programs)
