"""Where the tables of a catalog are: beside the runs, unless SQLite would be damaged there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from barograph.errors import SettingsError
from barograph.experiments.catalog import Catalog
from barograph.experiments.database import CATALOG_VARIABLE, catalog_url
from barograph.machine import filesystem
from barograph.store.urls import store_from_url


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the system says is of NFS."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    mounts = [SimpleNamespace(mountpoint="/", fstype="ext4"),
              SimpleNamespace(mountpoint=str((tmp_path / "share").resolve()), fstype="NFS4")]
    monkeypatch.setattr(filesystem.psutil, "disk_partitions", lambda all: mounts)
    return tmp_path / "share"


def test_on_a_disk_they_are_beside_the_runs(tmp_path: Path) -> None:
    with Catalog(tmp_path / "runs") as catalog:
        assert (Path(catalog.shown), catalog.why_elsewhere) == (tmp_path / "runs" / ".catalog" / "catalog.sqlite", "")


def test_of_runs_on_a_network_file_system_they_are_in_the_cache_and_why_is_said(mounted: Path) -> None:
    with Catalog(mounted / "runs") as catalog:
        catalog.feed()
        assert mounted.parent / "cache" in Path(catalog.shown).parents
        assert catalog.why_elsewhere == "the runs are on a network file system (nfs4), which would corrupt SQLite"
        catalog.create("experiment", "digits")  # type: ignore[arg-type]
    assert list(mounted.rglob("*.sqlite*")) == []
    assert len(list((mounted / "runs" / ".catalog" / "journal").iterdir())) == 1


def test_a_file_of_sqlite_that_is_put_on_one_is_refused(mounted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CATALOG_VARIABLE, f"sqlite:///{mounted}/catalog.sqlite")
    with pytest.raises(SettingsError, match=r"on a network file system \(nfs4\).*PostgreSQL"):
        catalog_url(store_from_url(mounted.parent / "runs"))
    monkeypatch.setenv(CATALOG_VARIABLE, f"sqlite:///{mounted.parent}/catalog.sqlite")
    assert catalog_url(store_from_url(mounted)).database == f"{mounted.parent}/catalog.sqlite"
