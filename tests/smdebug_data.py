"""A directory that smdebug itself has written, and runs that are made of it; see `data/make_smdebug.py`."""

from __future__ import annotations

from pathlib import Path

from barograph.ingest.smdebug.importing import Imported, import_smdebug
from barograph.store.urls import store_from_url

SAVED = Path(__file__).parent / "data" / "smdebug"
FIRST = "events/000000000000/000000000000_worker_0.tfevents"
SECOND = "events/000000000001/000000000001_worker_0.tfevents"
FIRST_INDEX = "index/000000000/000000000000_worker_0.json"


def imported(source: Path | str, target: Path | str) -> Imported:
    """Return what became of a directory."""
    return import_smdebug(store_from_url(source), store_from_url(target))
