"""What was said of a run by others than itself, as the catalog knows it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from barograph.errors import UnknownItem
from barograph.experiments.database import CATALOG_VARIABLE, catalog_url
from barograph.experiments.handle import catalog_at
from barograph.model.items import ArtifactLink, ItemKind
from barograph.store.base import Store


def links_in_catalog(root: Store, uid: str) -> Sequence[ArtifactLink]:
    """Return the artifacts of a run; none where no catalog is kept of the root, and none is made for it.

    Args:
        root: Of the runs.
        uid: Of the run.

    Raises:
        CatalogError, StoreError: It cannot be read.
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
