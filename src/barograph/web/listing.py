"""The runs of all roots, with the names and stars of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barograph.errors import CatalogError, StoreError
from barograph.experiments.labels import Label, labels_of_runs
from barograph.queries.run_list import runs_in
from barograph.web.catalogs import Catalogs
from barograph.web.places import Places


def listed_runs(places: Places, catalogs: Catalogs) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the runs that are neither archived nor deleted, and what cannot be read, one sentence each.

    A root that cannot be read does not hide the others. Without its catalog, a root shows all its runs.
    """
    rows, problems = [], []
    for root in places.roots:
        try:
            found = runs_in(root.store, root.place)
        except StoreError as error:
            problems.append(f"Cannot read {root.place}: {error}")
            continue
        labels: Mapping[str, Label] = {}
        try:
            labels = labels_of_runs(catalogs.at(root.number))
        except (CatalogError, StoreError) as error:
            problems.append(str(error))
        for row in found:
            label = labels.get(row.url, Label(row.name, starred=False, hidden=False))
            if not label.hidden:
                rows.append({"key": root.key_of(row.place), **row.to_json(), "name": label.name,
                             "starred": label.starred})
    return rows, problems
