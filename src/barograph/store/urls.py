"""Stores from URLs."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from barograph.errors import SettingsError
from barograph.store.base import Store
from barograph.store.files import FileStore

if TYPE_CHECKING:
    from obstore.store import ClientConfig, MemoryStore, RetryConfig

    from barograph.store.objects import ObjectsStore

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)

_in_memory: dict[str, MemoryStore] = {}

CONNECT_TIMEOUT_SECS = 3
"""Connection timeout for buckets."""
REQUEST_TIMEOUT_SECS = 60
"""Timeout of one request to a bucket: enough to upload 32 MiB at 5 Mbit/s."""
_RETRIES: RetryConfig = {
    # Few and fast: the writer tries again by itself, and keeps count; a person at a terminal wants to know.
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=10),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 2},
}


def store_from_url(url: str | os.PathLike[str]) -> Store:
    """Return the store at a URL. Nothing is read or written yet.

    Args:
        url: A directory, as typed (with any characters) or as `file://` URL; `memory://NAME`, which
            exists as long as this process; `s3://BUCKET/PREFIX`, with keys and endpoint from the
            environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`);
            `gs://BUCKET/PREFIX`; `az://CONTAINER/PREFIX`. Bucket prefixes are taken as written.

    Raises:
        SettingsError: The URL is not valid.
        StoreError: The environment has no access data for the bucket.

    Example:
        >>> store = store_from_url("memory://example")
        >>> store.put("a/b", b"bytes")
        >>> bytes(store.get("a/b"))
        b'bytes'
    """
    text = os.fspath(url)
    match = _SCHEME.fullmatch(text)
    if not match:
        if not text.strip():
            raise SettingsError("The location of the run is empty. Write a directory or a URL like s3://bucket/prefix.")
        return _files(text)
    scheme, rest = match.group(1).lower(), match.group(2)
    if scheme == "file":
        return _files(unquote(rest.removeprefix("localhost")))
    if scheme == "memory":
        return _memory(text, rest.strip("/"))
    if scheme in ("s3", "s3a", "gs", "az"):
        return _bucket(text, scheme, rest)
    raise SettingsError(f'"{scheme}://" is not supported. Write a directory, or s3://, gs://, az:// or memory://.')


def _files(path: str) -> FileStore:
    # Absolute at once: the script may change its directory.
    return FileStore(Path(os.path.abspath(os.path.expanduser(path))))


def _memory(url: str, name: str) -> ObjectsStore:
    from obstore.store import MemoryStore  # loaded here: most stores are directories

    from barograph.store.objects import ObjectsStore

    return ObjectsStore(url, _in_memory.setdefault(name, MemoryStore()))


def _bucket(url: str, scheme: str, rest: str) -> ObjectsStore:
    from obstore.store import AzureStore, GCSStore, S3Store  # loaded here: most stores are directories

    from barograph.store.failures import store_error
    from barograph.store.objects import FOREIGN, ObjectsStore

    bucket, _, prefix = rest.partition("/")
    if not bucket:
        raise SettingsError(f'"{url}" has no bucket. Write {scheme}://BUCKET/PREFIX.')
    prefix_or_none = prefix.strip("/") or None
    if scheme in ("s3", "s3a"):
        _check_endpoints()
    client: ClientConfig = {
        "connect_timeout": f"{CONNECT_TIMEOUT_SECS}s",
        "timeout": f"{REQUEST_TIMEOUT_SECS}s",
        "allow_http": any(os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS),
    }
    try:
        if scheme == "gs":
            return ObjectsStore(url, GCSStore(bucket, prefix=prefix_or_none, client_options=client,
                                              retry_config=_RETRIES))
        if scheme == "az":
            return ObjectsStore(url, AzureStore(bucket, prefix=prefix_or_none, client_options=client,
                                                retry_config=_RETRIES))
        return ObjectsStore(url, S3Store(bucket, prefix=prefix_or_none, client_options=client, retry_config=_RETRIES))
    except FOREIGN as error:
        raise store_error(error, verb="open", name="", url=url) from error


def _check_endpoints() -> None:
    """Raise `SettingsError` for an endpoint that is no URL: obstore would panic at the first request."""
    for name in _AWS_ENDPOINTS:
        value = os.environ.get(name)
        if value is not None and not _ENDPOINT.fullmatch(value):
            raise SettingsError(f'{name} is "{value}"; it must be a URL such as http://localhost:9000.')


_ENDPOINT = re.compile(r"(?i:https?)://[^\s/?#]+[^\s]*")
_AWS_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_ENDPOINTS = (*_AWS_ENDPOINTS, "AZURE_STORAGE_ENDPOINT")
