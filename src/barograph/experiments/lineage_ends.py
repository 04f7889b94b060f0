"""Artifacts, actions and contexts: items of a lineage besides runs and components."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

from barograph.errors import NameTaken, SettingsError
from barograph.experiments.handle import Handle, catalog_at
from barograph.experiments.writing import artifact_uid
from barograph.model.items import ArtifactLink, Entry, ItemKind, Verb, checked_name

Made = TypeVar("Made", bound=Handle)


class Artifact(Handle):
    """Something that was read or made, such as a dataset or a model."""

    kinds: ClassVar[tuple[ItemKind, ...]] = (ItemKind.ARTIFACT,)

    @classmethod
    def create(
        cls, name: str, uri: str = "", *, digest: str = "", media_type: str = "", size_bytes: int = -1,
        description: str = "", tags: Mapping[str, str] | None = None, root: str | os.PathLike[str] | None = None,
        or_load: bool = False,
    ) -> Self:
        """Create an artifact. Logging the same bytes, or the same URI without a digest, refers to this one.

        Args:
            name: Name of the artifact.
            uri: Its location.
            digest: Digest of its bytes, as returned by `log_artifact`: "sha256:…".
            media_type: Media type, such as "text/csv".
            size_bytes: -1 if unknown.
            description, tags, root, or_load: As in `Component.create`.

        Raises:
            NameTaken: An artifact has that digest or URI.
            SettingsError: Both are missing, or the name is invalid.
        """
        if not (digest or uri):
            raise SettingsError(f'Artifact "{name}": pass either its digest or its URI.')
        catalog, uid = catalog_at(root), artifact_uid(digest, uri)
        catalog.feed()
        known = catalog.item_by_uid(uid)
        if known is not None and known.facts["deleted_unix"] is None:
            if not or_load:
                raise NameTaken(f'That artifact already exists: "{known.name}" ({uid}).')
            return cls(catalog, known)
        fields = {"uri": uri, "digest": digest, "media_type": media_type, "description": description,
                  "size_bytes": size_bytes if size_bytes >= 0 else None}
        catalog.tell([Entry(uid, Verb.CREATE, {
            "kind": ItemKind.ARTIFACT, "name": checked_name("the artifact", name), "parent": "",
            "fields": {field: value for field, value in fields.items() if value not in (None, "")}})])
        return _tagged(cls(catalog, catalog.item(uid)), tags)

    @classmethod
    def of(cls, link: ArtifactLink, *, root: str | os.PathLike[str] | None = None) -> Self:
        """Return the artifact of a link from `log_artifact`, inputs or outputs."""
        return cls.create(link.name, link.uri, digest=link.digest, media_type=link.media_type,
                          size_bytes=link.size_bytes, root=root, or_load=True)

    @property
    def uri(self) -> str:
        """Location."""
        return str(self.item.facts["uri"])

    @property
    def digest(self) -> str:
        """Digest of its bytes; "" if unknown."""
        return str(self.item.facts["digest"])


class _Named(Handle):
    @classmethod
    def create(
        cls, name: str, *, uri: str = "", description: str = "", tags: Mapping[str, str] | None = None,
        root: str | os.PathLike[str] | None = None, or_load: bool = False,
    ) -> Self:
        """Create an item of this kind.

        Args:
            name: Unique within the root among items of this kind.
            uri: Its location, or a page about it.
            description, tags, root, or_load: As in `Component.create`.

        Raises:
            NameTaken: An item of this kind has that name.
        """
        catalog = catalog_at(root)
        said = {"uri": uri, "description": description}
        fields: dict[str, Any] = {field: value for field, value in said.items() if value}
        return _tagged(cls(catalog, catalog.create(cls.kinds[0], name, fields=fields, or_load=or_load)), tags)


class Action(_Named):
    """Something done by a person or by a program that is not a run, such as an approval or a deployment."""

    kinds: ClassVar[tuple[ItemKind, ...]] = (ItemKind.ACTION,)


class Context(_Named):
    """Something that other items belong to, such as an endpoint or a project."""

    kinds: ClassVar[tuple[ItemKind, ...]] = (ItemKind.CONTEXT,)


def _tagged(made: Made, tags: Mapping[str, str] | None) -> Made:
    return made.tag(**tags) if tags else made
