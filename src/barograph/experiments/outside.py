"""Artifacts of a run that others logged to the catalog."""

from __future__ import annotations

import os
from collections.abc import Sequence

from barograph.errors import UnknownItem
from barograph.experiments.database import CATALOG_VARIABLE, catalog_url
from barograph.experiments.handle import catalog_at
from barograph.model.items import ArtifactLink, ItemKind
from barograph.store.base import Store


def links_in_catalog(root: Store, uid: str) -> Sequence[ArtifactLink]:
    """Return the artifacts of a run from the catalog; none if the root has no catalog. Creates no catalog.

    Args:
        root: Root of the runs.
        uid: ID of the run.

    Raises:
        CatalogError, StoreError: The catalog cannot be read.
    """
    if not os.environ.get(CATALOG_VARIABLE) and not os.path.exists(catalog_url(root).database or ""):
        return ()
    catalog = catalog_at(root.url)
    catalog.feed()
    try:
        item = catalog.item(uid, ItemKind.RUN)
    except UnknownItem:
        return ()
    return (*item.inputs, *item.outputs)
