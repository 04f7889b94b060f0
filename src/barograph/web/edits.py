"""Edits from the page: names, notes, tags, stars, archive, deletion and its undo."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from barograph.errors import SettingsError
from barograph.experiments.catalog import UNDO_DAYS, Catalog
from barograph.experiments.editing import edit_from_json, edit_item, marks_of
from barograph.experiments.item import Item
from barograph.experiments.labels import deleted_items
from barograph.model.clock import Clock, SystemClock
from barograph.web.answers import json_answer
from barograph.web.catalogs import Catalogs
from barograph.web.places import Places
from barograph.web.posting import post, text_in
from barograph.web.protection import visitor_of


def edit_routes(places: Places, catalogs: Catalogs, clock: Clock | None = None) -> list[BaseRoute]:
    """Return the routes that show and edit the annotations of items.

    An item is named by `run`, the key of a run, or by `root` and `uid`.

    Args:
        places: The served roots.
        catalogs: Their catalogs.
        clock: Decides what can still be restored.
    """
    now = clock or SystemClock()
    # Between the check of a version and the edit, no other edit may come.
    editing = threading.Lock()

    def marks(request: Request) -> Response:
        _, item = _item(catalogs, request.query_params)
        return json_answer(request, _shown(item, request))

    def edit(request: Request, data: Mapping[str, Any]) -> Response:
        changes = data.get("changes")
        if not isinstance(changes, dict):
            raise SettingsError("changes must be a JSON object.")
        wanted = edit_from_json(changes)
        with editing:
            catalog, item = _item(catalogs, data)
            item = edit_item(catalog, item, wanted, version=text_in(data, "version", ""), by=visitor_of(request).name)
        return json_answer(request, _shown(item, request))

    def delete(request: Request, data: Mapping[str, Any]) -> Response:
        catalog, item = _item(catalogs, data)
        gone = catalog.delete(item, cascade=data.get("cascade") is True, by=visitor_of(request).name)
        return json_answer(request, {"deleted": [_named(one) for one in gone], "undo_days": UNDO_DAYS})

    def restore(request: Request, data: Mapping[str, Any]) -> Response:
        catalog, item = _item(catalogs, data)
        return json_answer(request, {"restored": [_named(one) for one in catalog.restore(
            item.uid, by=visitor_of(request).name)]})

    def deleted(request: Request) -> Response:
        return json_answer(request, {"undo_days": UNDO_DAYS, "items": [
            {"root": root.number, **_named(item), "deleted_unix": item.facts["deleted_unix"]}
            for root in places.roots for item in deleted_items(catalogs.at(root.number), now.unix())]})

    return [Route("/api/marks", marks), Route("/api/deleted", deleted), post("/api/edit", edit),
            post("/api/delete", delete), post("/api/restore", restore)]


def _item(catalogs: Catalogs, named: Mapping[str, Any]) -> tuple[Catalog, Item]:
    if "run" in named:
        return catalogs.run(text_in(named, "run"))
    number = named.get("root", 0)
    try:
        number = int(number)
    except (TypeError, ValueError):
        raise SettingsError("root must be a number.") from None
    return catalogs.item(number, text_in(named, "uid"))


def _shown(item: Item, request: Request) -> dict[str, Any]:
    return {**marks_of(item).to_json(), "may_edit": visitor_of(request).may_write}


def _named(item: Item) -> dict[str, Any]:
    return {"uid": item.uid, "kind": str(item.kind), "name": item.name}
