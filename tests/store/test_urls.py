"""From what a person types to a Store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barograph.errors import ObjectNotFound, SettingsError, StoreDenied, StoreUnavailable
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url


def test_a_bare_path_is_taken_as_written(tmp_path: Path) -> None:
    store = store_from_url(tmp_path / "100% größe")
    store.put("a", b"x")
    assert (tmp_path / "100% größe" / "a").read_bytes() == b"x"


def test_a_file_url_is_unquoted(tmp_path: Path) -> None:
    store = store_from_url(f"file://{tmp_path}/a%20b")
    store.put("c", b"x")
    assert (tmp_path / "a b" / "c").read_bytes() == b"x"


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = store_from_url("run")
    monkeypatch.chdir("/")
    store.put("a", b"x")
    assert (tmp_path / "run" / "a").is_file()


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert isinstance(store := store_from_url("~/run"), FileStore)
    assert store.root == tmp_path / "run"


def test_looking_makes_no_directory(tmp_path: Path) -> None:
    store = store_from_url(tmp_path / "run")
    assert store.list() == []
    with pytest.raises(ObjectNotFound):
        store.get("a")
    store.delete("a")
    assert not (tmp_path / "run").exists()


def test_a_directory_made_later_is_seen(tmp_path: Path) -> None:
    early = store_from_url(tmp_path / "run")
    assert early.list() == []
    store_from_url(tmp_path / "run").put("a", b"x")
    assert [item.name for item in early.list()] == ["a"]


def test_a_directory_removed_meanwhile_is_made_again(tmp_path: Path) -> None:
    store = store_from_url(tmp_path / "run")
    store.put("a", b"x")
    (tmp_path / "run" / "a").unlink()
    (tmp_path / "run").rmdir()
    store.put("b", b"y")
    assert [item.name for item in store.list()] == ["b"]


def test_memory_of_one_name_is_one_store() -> None:
    store_from_url("memory://shared").put("a", b"x")
    assert bytes(store_from_url("memory://shared").get("a")) == b"x"
    assert store_from_url("memory://another").list() == []


@pytest.mark.parametrize("url", ["", "  ", "ftp://host/run", "s3://", "s3:///prefix"])
def test_what_is_no_place_is_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        store_from_url(url)


def test_a_file_in_place_of_a_directory_is_denied(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(StoreDenied):
        store_from_url(tmp_path / "run").put("a", b"x")
    with pytest.raises(StoreDenied):
        store_from_url(tmp_path / "run").list()


@pytest.mark.s3
def test_two_prefixes_of_a_bucket_are_two_stores(s3_url: str) -> None:
    store_from_url(f"{s3_url}/one two").put("a", b"1")
    store_from_url(f"{s3_url}/zwölf").put("a", b"12")
    assert bytes(store_from_url(f"{s3_url}/one two/").get("a")) == b"1"
    assert bytes(store_from_url(f"{s3_url}/zwölf").get("a")) == b"12"


@pytest.mark.s3
def test_a_bucket_that_does_not_exist_is_named(s3_environment: str) -> None:
    store = store_from_url("s3://no-such-bucket/run")
    for verb in (lambda: store.put("a", b""), lambda: store.get("a"), lambda: store.list()):
        with pytest.raises(StoreUnavailable, match="no-such-bucket"):
            verb()


def test_a_server_that_is_not_there_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    store = store_from_url("s3://bucket/run")
    for verb in (lambda: store.put("a", b""), lambda: store.get("a"), lambda: store.list(), lambda: store.delete("a")):
        with pytest.raises(StoreUnavailable):
            verb()


def test_loading_the_room_loads_no_arrow() -> None:
    code = "import sys, barograph.store.urls; sys.exit('pyarrow' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode == 0


@pytest.mark.parametrize("endpoint", ["localhost:9000", "", "http://", "ftp://localhost", "http://local host"])
@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"])
def test_an_endpoint_that_is_no_url_is_refused(name: str, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, endpoint)
    with pytest.raises(SettingsError, match=f'{name} is "{endpoint}"; it must be a URL such as http://localhost:9000'):
        store_from_url("s3://bucket/prefix")
