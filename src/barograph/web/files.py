"""Inputs and outputs of a run as downloads; HTML and SVG are never displayed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from barograph.errors import ObjectNotFound, SettingsError, UnknownItem
from barograph.experiments.artifacts import SCHEME, parts_of_file, place_of, root_of
from barograph.experiments.catalog import Catalog
from barograph.experiments.item import Item
from barograph.model.items import ArtifactLink
from barograph.store.base import Store
from barograph.store.streaming import parts_of
from barograph.store.urls import store_from_url
from barograph.web.answers import json_answer
from barograph.web.catalogs import Catalogs
from barograph.web.embedding import embedded, media_type_of
from barograph.web.places import Places

_MOST_TEXT_BYTES = 64 * 1024
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# Not compressed: models hardly shrink, and compressing gigabytes would keep the server busy.
_HEADERS = {"content-security-policy": "default-src 'none'; sandbox", "content-encoding": "identity"}


def file_routes(places: Places, catalogs: Catalogs) -> list[BaseRoute]:
    """Return the routes of the files of runs. A file is named by `run`, `role` ("input" or "output") and `name`."""

    def files(request: Request) -> Response:
        catalog, item = catalogs.run(request.query_params.get("run", ""))
        return json_answer(request, [
            {"role": role, "name": link.name, "uri": link.uri,
             "size_bytes": link.size_bytes if link.size_bytes >= 0 else None,
             "media_type": link.media_type, "digest": link.digest,
             "kept": _Bytes.of(places, catalog, item, link) is not None}
            for role, links in (("output", item.outputs), ("input", item.inputs)) for link in links])

    def content(request: Request) -> Response:
        asked = request.query_params
        catalog, item = catalogs.run(asked.get("run", ""))
        links = {"input": item.inputs, "output": item.outputs}.get(asked.get("role", ""), ())
        link = next((link for link in links if link.name == asked.get("name")), None)
        if link is None:
            raise UnknownItem(f"The run has no {asked.get('role', '')[:20]} file {asked.get('name', '')[:200]!r}.")
        found = _Bytes.of(places, catalog, item, link)
        if found is None:
            raise SettingsError(f"{link.name[:200]} is not stored with the runs. It was at {link.uri[:500]}.")
        view = asked.get("view", "")
        if view == "text":
            return json_answer(request, _text(found.parts()))
        if view == "picture":
            return _picture(found.parts())
        if view == "embedded":
            return json_answer(request, embedded(found.parts()))
        return _download(found.parts(), link.name)

    return [Route("/api/files", files), Route("/api/file", content)]


class _Bytes:
    """The bytes of an artifact.

    What a run says of its files may be made up, so a name never becomes a path: an artifact stored with the runs is
    found by its digest, and a file only if it lies in the served directory.
    """

    def __init__(self, stores: list[Store], digest: str, path: Path | None) -> None:
        self._stores, self._digest, self._path = stores, digest, path

    @classmethod
    def of(cls, places: Places, catalog: Catalog, item: Item, link: ArtifactLink) -> _Bytes | None:
        if link.uri.startswith(SCHEME):
            digest = link.uri.removeprefix(SCHEME)
            stores = [catalog.store, root_of(store_from_url(str(item.facts["place"])))]
            return cls(stores, digest, None) if _DIGEST.fullmatch(digest) else None
        path = _path_in_roots(places, link.uri)
        return cls([], "", path) if path is not None else None

    def parts(self) -> Iterator[bytes]:
        """Return the bytes in chunks.

        Raises:
            ObjectNotFound: They are gone.
            StoreError: They cannot be read.
        """
        if self._path is not None:
            return _begun(parts_of_file(self._path))
        for number, store in enumerate(self._stores):
            try:
                return _begun(parts_of(store, place_of(self._digest)))
            except ObjectNotFound:
                if number == len(self._stores) - 1:
                    raise
        raise AssertionError


def _begun(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Return the same parts after reading the first, so that a missing object raises before the answer begins."""
    first = next(parts, b"")

    def all_parts() -> Iterator[bytes]:
        yield first
        yield from parts

    return all_parts()


def _path_in_roots(places: Places, uri: str) -> Path | None:
    if not uri.startswith("file:///"):
        return None
    try:
        path = Path(unquote(urlsplit(uri).path)).resolve()
    except (OSError, ValueError):
        return None
    roots = [Path(root.place).resolve() for root in places.roots if "://" not in root.place]
    return path if any(path.is_relative_to(root) for root in roots) and path.is_file() else None


def _text(parts: Iterator[bytes]) -> dict[str, Any]:
    data = b""
    for part in parts:
        data += part
        if len(data) > _MOST_TEXT_BYTES:
            break
    shown = data[:_MOST_TEXT_BYTES]
    try:
        # A character may be cut in two at the end.
        text = shown.decode("utf-8") if len(shown) == len(data) else shown.decode("utf-8", "ignore")
    except UnicodeDecodeError:
        return {"text": None, "more": False}
    return {"text": None if "\0" in text else text, "more": len(data) > len(shown)}


def _picture(parts: Iterator[bytes]) -> Response:
    first = next(parts, b"")
    # By its bytes, since the name and the type of a file are made by whoever logged it.
    kind = media_type_of(first)
    if kind is None:
        raise SettingsError("The file is not an image that browsers can display.")

    def whole() -> Iterator[bytes]:
        yield first
        yield from parts

    return StreamingResponse(whole(), media_type=kind, headers={
        **_HEADERS, "content-disposition": "inline", "cache-control": "private, max-age=60"})


def _download(parts: Iterator[bytes], name: str) -> Response:
    last = re.split(r"[/\\]", name)[-1] or "file"
    return StreamingResponse(parts, media_type="application/octet-stream", headers={
        **_HEADERS, "content-disposition": f"attachment; filename*=UTF-8''{quote(last[:200], safe='')}"})
