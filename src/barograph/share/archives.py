"""Archives of runs and experiments, for programs: written, looked through, brought in."""

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
"""A name, identity or place; or what `Experiment.load`, `list_runs` and the like returned."""


def _quiet(done: int, total: int) -> None:
    """Tell nobody."""


def export_archive(
    what: Named | Sequence[Named], out: str | os.PathLike[str], *, checkpoints: bool = False, capsules: bool = False,
    skip_running: bool = False, root: str | os.PathLike[str] | None = None, catalog: Catalog | None = None,
    on_progress: Progress = _quiet,
) -> Exported:
    """Write runs and experiments to one file, with all that belongs to them: what `barograph export archive` does.

    Args:
        what: Runs, experiments, trials or components, one or several.
        out: File to write, or object in a bucket (`s3://BUCKET/NAME.zip`); what is there is replaced, whole or not at
            all.
        checkpoints, capsules: Also these, which are large.
        skip_running: Leave out runs that are still written, which else are an error.
        root: As of `Experiment.create`; None: the one that a place among them is in, too.
        catalog: Of that root, brought up to date; None: it is opened.
        on_progress: Called with how many bytes are written, and of how many.

    Returns:
        What is in it, and what is not: `whole` is False where something was damaged before, or is no longer kept.

    Raises:
        UnknownItem: There is none of that name.
        RunInUse, ExportError: A run is still written, or its folder is gone.
        SettingsError: Nothing is named, or `out` is no place.
        StoreDenied, StoreFull: The file cannot be written; one that was there stays.
        StoreError: A store cannot be read.

    Example:
        >>> import tempfile
        >>> from barograph.tracking import Experiment
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     digits = Experiment.create("digits", root=f"{folder}/runs")
        ...     exported = export_archive(digits, f"{folder}/digits.zip")
        ...     imported = import_archive(f"{folder}/digits.zip", root=f"{folder}/other")
        >>> exported.whole, [item.name for item in exported.manifest.items], imported.entries
        (True, ['digits'], 1)
    """
    several = [what] if isinstance(what, str | os.PathLike | Handle) else list(what)
    if not several:
        raise SettingsError("Nothing is named that would go into the archive: name a run or an experiment.")
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
    """Bring what an archive holds into a root of runs: what `barograph import archive` does. Twice is once.

    Args:
        file: The archive: a file, or an object in a bucket.
        root: As of `Experiment.create`.
        on_check: Called with how many bytes are looked through, and of how many.
        on_progress: Likewise of those that are put.

    Raises:
        ImportFailed: There is none, it is none, or a run is there already with other content.
        BadArchive: It is damaged, or made to do harm; then nothing is changed.
        NewerFormat: A newer Barograph wrote it.
        StoreError: It cannot be read, or the root not written.
    """
    with ArchiveReader(file) as archive:
        found = checked(archive, on_progress=on_check)
        return bring_in(found, _fed(catalog_at(root)), on_progress=on_progress)


def check_archive(file: str | os.PathLike[str], *, on_progress: Progress = _quiet) -> ArchiveManifest:
    """Look a whole archive through, and return what it holds; arguments and errors as of `import_archive`."""
    with ArchiveReader(file) as archive:
        return checked(archive, on_progress=on_progress).manifest


def _catalog_with(several: Sequence[Named], root: str | os.PathLike[str] | None) -> Catalog:
    handles = {one.catalog.store.url: one.catalog for one in several if isinstance(one, Handle)}
    if len(handles) > 1:
        raise SettingsError(f"What is named is in several roots: {', '.join(handles)}. Give the one that all are in.")
    if root is None and handles:
        return _fed(next(iter(handles.values())))
    return _fed(catalog_at(root if root is not None else root_of_places(
        [os.fspath(one) for one in several if not isinstance(one, Handle)])))


def _fed(catalog: Catalog) -> Catalog:
    catalog.feed()
    return catalog
