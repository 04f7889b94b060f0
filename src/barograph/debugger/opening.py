"""`create_trial`: opens a run or smdebug output as a trial."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from barograph.debugger.trial import Trial
from barograph.ingest.smdebug.importing import import_smdebug
from barograph.runs.format.layout import MANIFEST
from barograph.runs.reading.reader import RunReader
from barograph.store.base import Store
from barograph.store.urls import store_from_url

_CACHE = "barograph/smdebug"


def create_trial(
    path: str | os.PathLike[str], name: str | None = None, *,
    range_steps: tuple[int | None, int | None] | None = None, cache: str | os.PathLike[str] | None = None,
    **_: Any,
) -> Trial:
    """Return a trial of a run, imported or not, or of a directory that smdebug has written.

    Such a directory is imported once, into a folder of the user's cache, and anew where it has changed.

    Args:
        path: Directory or URL.
        name: Of the trial; None: the last part of the path.
        range_steps: Only global steps from the first on, and before the second.
        cache: Folder of what was imported; None: below `XDG_CACHE_HOME`, or `~/.cache`.

    Raises:
        ImportFailed: There is neither a run nor anything of smdebug's.
        NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    text = os.fspath(path).strip()
    store = store_from_url(text)
    name = name or text.rstrip("/").rpartition("/")[2]
    if any(item.name == MANIFEST for item in store.list()):
        return Trial(RunReader(store), name=name, range_steps=range_steps)
    kept = _imported(store, Path(cache) if cache is not None else _cache_folder())
    return Trial(RunReader(store_from_url(kept)), name=name, range_steps=range_steps)


def _imported(source: Store, cache: Path) -> Path:
    """Return where the directory was imported to; done where it was not yet, or is another by now."""
    listing = "\n".join(f"{item.name} {item.size_bytes} {item.modified_unix}" for item in source.list())
    place = cache / hashlib.sha256(f"{source.url}\n{listing}".encode("utf-8", "replace")).hexdigest()[:32]
    if (place / MANIFEST).exists():
        return place
    cache.mkdir(parents=True, exist_ok=True)
    # Beside it, then renamed: who comes meanwhile sees all of it or nothing.
    draft = Path(tempfile.mkdtemp(dir=cache))
    try:
        import_smdebug(source, store_from_url(draft / "run"))
        try:
            (draft / "run").rename(place)
        except OSError:
            if not (place / MANIFEST).exists():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / _CACHE
