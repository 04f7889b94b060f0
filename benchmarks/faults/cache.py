"""Cached results, so that an interrupted benchmark continues.

The key of a trial includes everything that could change it: the script, the seed, and every source file of Barograph.
Scores are not cached.
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
    """Return a digest of the installed version of Barograph, including uncommitted changes."""
    spec = find_spec("barograph")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(next(iter(spec.submodule_search_locations)))
    digest = hashlib.sha256()
    for path in sorted(path for ending in ("*.py", "*.c", "*.h") for path in folder.rglob(ending)):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class Cache:
    """Caches results below a folder, one file each.

    Args:
        version: Version of the results; see `sources_digest`.
        folder: The folder; created when needed.
    """

    def __init__(self, version: str, folder: Path = KEPT_IN) -> None:
        self._folder = folder / version

    def get(self, program: Program, what: str) -> dict[str, Any] | None:
        """Return the cached result of a program; None if there is none, or the file is truncated."""
        try:
            kept: dict[str, Any] = json.loads(self._path(program, what).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return kept

    def put(self, program: Program, what: str, result: dict[str, Any]) -> None:
        """Store a result atomically."""
        path = self._path(program, what)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(result), encoding="utf-8")
        unfinished.replace(path)

    def _path(self, program: Program, what: str) -> Path:
        return self._folder / program.part / f"{program.name}-{program.digest}-{what}.json"
