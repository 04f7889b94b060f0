"""The files that the script of a job left: artifacts of its run."""

from __future__ import annotations

import os
from pathlib import Path

from barograph.errors import JobError
from barograph.model.items import ArtifactLink
from barograph.runs.format.layout import MANIFEST
from barograph.runs.format.metadata import manifest_from_bytes
from barograph.runs.state.journal import links_in_journal
from barograph.store.base import Store
from barograph.store.inside import Inside

_MODEL = "model/"


def outputs_of(run: Store) -> tuple[ArtifactLink, ...]:
    """Return the files that the script left, by name; of files of one name the last.

    Raises:
        StoreError, DamagedChunk: The run cannot be read.
    """
    uid = manifest_from_bytes(run.get(MANIFEST), MANIFEST).run_id
    found = {link.name: link for link in links_in_journal(run, uid) if "model/" in link.name or "output/" in link.name}
    return tuple(found[name] for name in sorted(found))


def has_model(run: Store) -> bool:
    """Return whether the script left a model.

    Raises:
        StoreError, DamagedChunk: The run cannot be read.
    """
    return any(link.name.startswith(_MODEL) for link in outputs_of(run))


def check_model_directory(directory: Path) -> None:
    """Raise `JobError` if no directory can be created at this path, before a long wait for the model."""
    place = next(path for path in (directory, *directory.absolute().parents) if os.path.exists(path))
    why = "it is a file" if not place.is_dir() else "" if os.access(place, os.W_OK) else "permission denied"
    if why:
        raise JobError(f"The model cannot be written to {directory}: {why} ({place}).")


def fetched_model(run: Store, directory: Path) -> Path:
    """Return a directory with the model of the first instance, after fetching what is not there yet.

    Args:
        run: The job's store.
        directory: Where to put the files.

    Raises:
        JobError: The script left no model, or the directory cannot be created.
        StoreError, DamagedChunk: A file cannot be read, or it has changed.
    """
    from barograph.experiments.artifacts import bytes_of, root_of

    links = [link for link in outputs_of(run) if link.name.startswith(_MODEL)]
    if not links:
        raise JobError(f"The job left no model: its script wrote nothing to SM_MODEL_DIR ({run.url}).")
    check_model_directory(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobError(f"The model cannot be written to {directory}: {error.strerror}.") from error
    inside, root = Inside(directory), root_of(run)
    for link in links:
        path = link.name.removeprefix(_MODEL)
        there = directory / path
        if not there.is_file() or there.stat().st_size != link.size_bytes:
            inside.write(path, bytes_of(root, link))
    return directory
