"""What a lineage leads over beside runs and components, by hand: artifacts, actions, contexts."""

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
    """What was read or made, as a thing of its own: a data set, a model."""

    kinds: ClassVar[tuple[ItemKind, ...]] = (ItemKind.ARTIFACT,)

    @classmethod
    def create(
        cls, name: str, uri: str = "", *, digest: str = "", media_type: str = "", size_bytes: int = -1,
        description: str = "", tags: Mapping[str, str] | None = None, root: str | os.PathLike[str] | None = None,
        or_load: bool = False,
    ) -> Self:
        """Create an artifact. Whoever logs the same bytes, or without a digest the same address, logs this one.

        Args:
            name: For people.
            uri: Where it is.
            digest: Of its bytes, as `log_artifact` tells it: "sha256:…".
            media_type: What it is made of.
            size_bytes: -1 where that is not known.
            description, tags, root, or_load: As of `Component.create`.

        Raises:
            NameTaken: There is one of that digest, or that address.
            SettingsError: It has neither; or its name cannot be kept.
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
        """Return the artifact that `log_artifact` returned, or that is among inputs and outputs."""
        return cls.create(link.name, link.uri, digest=link.digest, media_type=link.media_type,
                          size_bytes=link.size_bytes, root=root, or_load=True)

    @property
    def uri(self) -> str:
        """Where it is."""
        return str(self.item.facts["uri"])

    @property
    def digest(self) -> str:
        """Of its bytes; "" where it is not known."""
        return str(self.item.facts["digest"])


class _Named(Handle):
    @classmethod
    def create(
        cls, name: str, *, uri: str = "", description: str = "", tags: Mapping[str, str] | None = None,
        root: str | os.PathLike[str] | None = None, or_load: bool = False,
    ) -> Self:
        """Create one.

        Args:
            name: No other of its kind in the root has it.
            uri: Where it is, or where more is told of it.
            description, tags, root, or_load: As of `Component.create`.

        Raises:
            NameTaken: There is one of that name.
        """
        catalog = catalog_at(root)
        said = {"uri": uri, "description": description}
        fields: dict[str, Any] = {field: value for field, value in said.items() if value}
        return _tagged(cls(catalog, catalog.create(cls.kinds[0], name, fields=fields, or_load=or_load)), tags)


class Action(_Named):
    """Something that was done, by a person or a program that is no run: an approval, a deployment."""

    kinds: ClassVar[tuple[ItemKind, ...]] = (ItemKind.ACTION,)


class Context(_Named):
    """A place that other things belong to: an endpoint, a project."""

    kinds: ClassVar[tuple[ItemKind, ...]] = (ItemKind.CONTEXT,)


def _tagged(made: Made, tags: Mapping[str, str] | None) -> Made:
    return made.tag(**tags) if tags else made
