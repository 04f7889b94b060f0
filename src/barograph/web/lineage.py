"""The lineage of a run, and whether its reruns are identical."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from barograph.experiments.lineage_graph import Node, lineage_graph
from barograph.jobs.home import JobsHome
from barograph.model.plain import plain
from barograph.web.answers import json_answer
from barograph.web.catalogs import Catalogs
from barograph.web.places import Places


def lineage_routes(places: Places, catalogs: Catalogs) -> list[BaseRoute]:
    """Return the route of the lineage of a run, named by `run`."""

    def lineage(request: Request) -> Response:
        key = request.query_params.get("run", "")
        catalog, item = catalogs.run(key)
        root = places.roots[int(key.partition("/")[0])]
        graph = lineage_graph(catalog, item.uid)
        jobs = {record.url: record.name for record in JobsHome().all()}

        def shown(node: Node) -> dict[str, Any]:
            inside = node.place.startswith(f"{root.place.rstrip('/')}/")
            return {**plain(node), "key": root.key_of(node.place) if inside else None, "job": jobs.get(node.place)}

        return json_answer(request, {**graph.to_json(), "nodes": [shown(node) for node in graph.nodes]})

    return [Route("/api/lineage", lineage)]
