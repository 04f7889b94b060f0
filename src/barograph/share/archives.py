"""Export, check and import archives of runs and experiments from Python."""

from __future__ import annotations

import os
from collections.abc import Sequence

from barograph.errors import SettingsError
from barograph.experiments.catalog import Catalog
from barograph.experiments.handle import Handle, catalog_at
from barograph.experiments.roots import root_of_places
from barograph.runs.format.layout import CAPSULES, CHECKPOINTS
from barograph.share.archive_file import local_path, object_at
from barograph.share.checking import checked
from barograph.share.choosing import chosen
from barograph.share.container import ArchiveReader
from barograph.share.exporting import Exported, Progress, put_archive, write_archive
from barograph.share.importing import Imported, bring_in
from barograph.share.manifest import ArchiveManifest
from barograph.store.whole_file import check_writable, replacing

Named = str | os.PathLike[str] | Handle
"""A name, ID or place, or a result of `Experiment.load`, `list_runs` and similar."""


def _quiet(done: int, total: int) -> None:
    """Ignore progress."""


def export_archive(
    what: Named | Sequence[Named], out: str | os.PathLike[str], *, checkpoints: bool = False, capsules: bool = False,
    skip_running: bool = False, root: str | os.PathLike[str] | None = None, catalog: Catalog | None = None,
    on_progress: Progress = _quiet,
) -> Exported:
    """Write runs and experiments with everything that belongs to them to one file, like `barograph export archive`.

    Args:
        what: One or several runs, experiments, trials or components.
        out: File, or object in a bucket (`s3://BUCKET/NAME.zip`); replaced atomically if it exists.
        checkpoints, capsules: Include these, which are large.
        skip_running: Leave out active runs, which are an error otherwise.
        root: As in `Experiment.create`; None: also the root of a place in `what`.
        catalog: Up-to-date catalog of that root; None: it is opened.
        on_progress: Called with the bytes written and their total.

    Returns:
        Contents and omissions; `complete` is False if something was damaged or no longer exists.

    Raises:
        UnknownItem: An item does not exist.
        RunInUse, ExportError: A run is active, or its directory is gone.
        SettingsError: `what` is empty, or `out` is invalid.
        StoreDenied, StoreFull: The file cannot be written; an existing one stays.
        StoreError: A store cannot be read.

    Example:
        >>> import tempfile
        >>> from barograph.tracking import Experiment
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     digits = Experiment.create("digits", root=f"{folder}/runs")
        ...     exported = export_archive(digits, f"{folder}/digits.zip")
        ...     imported = import_archive(f"{folder}/digits.zip", root=f"{folder}/other")
        >>> exported.complete, [item.name for item in exported.manifest.items], imported.entries
        (True, ['digits'], 1)
    """
    several = [what] if isinstance(what, str | os.PathLike | Handle) else list(what)
    if not several:
        raise SettingsError("Nothing to export: name a run or an experiment.")
    names = [one.uid if isinstance(one, Handle) else os.fspath(one) for one in several]
    path = local_path(out)
    if path is not None:
        check_writable(path, example="runs.zip")
    store_and_name = object_at(out) if path is None else None
    choice = chosen(catalog or _catalog_with(several, root), names, skip_running=skip_running,
                    include=[name for name, wanted in ((CHECKPOINTS, checkpoints), (CAPSULES, capsules)) if wanted])
    if store_and_name is not None:
        return put_archive(choice, *store_and_name, on_progress=on_progress)
    assert path is not None
    with replacing(path) as stream:
        return write_archive(choice, stream, on_progress=on_progress)


def import_archive(
    file: str | os.PathLike[str], *, root: str | os.PathLike[str] | None = None, on_check: Progress = _quiet,
    on_progress: Progress = _quiet,
) -> Imported:
    """Import an archive into a root, like `barograph import archive`. Repeating it changes nothing.

    Args:
        file: A file, or an object in a bucket.
        root: As in `Experiment.create`.
        on_check: Called with the bytes checked and their total.
        on_progress: Called with the bytes written and their total.

    Raises:
        ImportFailed: It does not exist, is not an archive, or a run exists with different content.
        BadArchive: It is damaged or malicious; then nothing is changed.
        NewerFormat: A newer Barograph wrote it.
        StoreError: It cannot be read, or the root cannot be written.
    """
    with ArchiveReader(file) as archive:
        found = checked(archive, on_progress=on_check)
        return bring_in(found, _fed(catalog_at(root)), on_progress=on_progress)


def check_archive(file: str | os.PathLike[str], *, on_progress: Progress = _quiet) -> ArchiveManifest:
    """Check a whole archive and return its manifest; arguments and errors as in `import_archive`."""
    with ArchiveReader(file) as archive:
        return checked(archive, on_progress=on_progress).manifest


def _catalog_with(several: Sequence[Named], root: str | os.PathLike[str] | None) -> Catalog:
    handles = {one.catalog.store.url: one.catalog for one in several if isinstance(one, Handle)}
    if len(handles) > 1:
        raise SettingsError(f"The items are in several roots: {', '.join(handles)}. Pass their common root.")
    if root is None and handles:
        return _fed(next(iter(handles.values())))
    return _fed(catalog_at(root if root is not None else root_of_places(
        [os.fspath(one) for one in several if not isinstance(one, Handle)])))


def _fed(catalog: Catalog) -> Catalog:
    catalog.feed()
    return catalog
