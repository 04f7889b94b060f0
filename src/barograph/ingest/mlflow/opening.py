"""Opens a source of MLflow runs: a server, a database or a directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from barograph.errors import ImportFailed
from barograph.ingest.mlflow.database import DatabaseSource
from barograph.ingest.mlflow.file_store import FileStoreSource, is_file_store
from barograph.ingest.mlflow.server import ServerSource
from barograph.ingest.trackers.folders import ArtifactFolders
from barograph.ingest.trackers.foreign import ForeignSource
from barograph.wire.web import web_from_environment

_DATABASE = "mlflow.db"
_STORE = "mlruns"


def source_at(place: str, artifacts: Sequence[Path] = ()) -> ForeignSource:
    """Return the source of runs at a place.

    Args:
        place: `http://HOST:PORT` of a tracking server; `sqlite:///FILE` or `postgresql://…`; an SQLite file; a
            directory that is a file store, or contains `mlruns` or `mlflow.db`.
        artifacts: Local directories that artifacts may be copied from, besides the parent directory of `place`.

    Raises:
        ImportFailed: There are no MLflow runs, or the place is unreachable.
        MissingExtra: The driver of the database is not installed.
    """
    scheme = place.partition("://")[0].lower() if "://" in place else ""
    if scheme in ("http", "https"):
        return ServerSource(web_from_environment(place))
    if scheme == "file":
        place, scheme = unquote(urlsplit(place).path), ""
    if scheme == "databricks" or place == "databricks":
        raise ImportFailed("For Databricks, pass the URL of its tracking server, https://….")
    if scheme:
        file = place.partition(":///")[2] if scheme.startswith("sqlite") else ""
        return DatabaseSource(place, ArtifactFolders([*([Path(file).parent] if file else []), *artifacts]))
    path = Path(place)
    if path.is_file():
        return DatabaseSource(place, ArtifactFolders([path.parent, *artifacts]))
    if not path.is_dir():
        raise ImportFailed(f"No such file or directory ({place}).")
    if is_file_store(path):
        return FileStoreSource(path, ArtifactFolders([path, *artifacts]))
    if (path / _DATABASE).is_file():
        return DatabaseSource(str(path / _DATABASE), ArtifactFolders([path, *artifacts]))
    if is_file_store(path / _STORE):
        return FileStoreSource(path / _STORE, ArtifactFolders([path / _STORE, *artifacts]))
    raise ImportFailed(f"No MLflow runs: there is no file store with a meta.yaml per experiment, and no {_DATABASE}. "
                       f"For a tracking server, pass its URL, http://… ({place}).")
