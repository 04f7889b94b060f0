"""Results that are kept, so that an interrupted bench goes on where it was.

A trial is kept under what could change it: the script, the seed, and every source file of the Barograph that
watched it. What is scored of it is computed anew each time.
"""

from __future__ import annotations

import hashlib
import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT
from benchmarks.faults.programs import Program

KEPT_IN = ROOT / ".cache" / "fault-bench"


def sources_digest() -> str:
    """Return what tells the Barograph that is installed here from any other, uncommitted changes included."""
    spec = find_spec("barograph")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(next(iter(spec.submodule_search_locations)))
    digest = hashlib.sha256()
    for path in sorted(path for ending in ("*.py", "*.c", "*.h") for path in folder.rglob(ending)):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class Cache:
    """Keeps results below a folder, one file each.

    Args:
        version: What they hold for; see `sources_digest`.
        folder: Where; made when needed.
    """

    def __init__(self, version: str, folder: Path = KEPT_IN) -> None:
        self._folder = folder / version

    def get(self, program: Program, what: str) -> dict[str, Any] | None:
        """Return what was kept of a program; None where nothing was, or the file was cut short."""
        try:
            kept: dict[str, Any] = json.loads(self._path(program, what).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return kept

    def put(self, program: Program, what: str, result: dict[str, Any]) -> None:
        """Keep a result, whole or not at all."""
        path = self._path(program, what)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(result), encoding="utf-8")
        unfinished.replace(path)

    def _path(self, program: Program, what: str) -> Path:
        return self._folder / program.part / f"{program.name}-{program.digest}-{what}.json"
