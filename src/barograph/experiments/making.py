"""What is told of a piece of work, whichever journal it is told to: what it was made with, what it read and made."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from barograph.experiments.artifacts import artifact_of, files_in
from barograph.model.clock import Clock, SystemClock
from barograph.model.items import ArtifactLink, Verb, checked_name, checked_value, flattened
from barograph.store.base import Store

Answer = TypeVar("Answer")
"""What a verb returns: the component itself, so that verbs can stand in a row; of a run under way nothing, since its
verbs stand in loops."""


class Making(ABC, Generic[Answer]):
    """A piece of work: with which parameters it was made, what it read and what it made.

    Of what has the same name the last one counts.
    """

    @abstractmethod
    def _tell(self, verb: Verb, data: Mapping[str, Any]) -> Answer:
        """Keep what is told of it, in the journal that it has."""

    @property
    @abstractmethod
    def _root(self) -> Store:
        """Where the runs are, beside which artifacts are kept."""

    @property
    def _artifact_clock(self) -> Clock:
        """Tells how old an artifact is that is kept already."""
        return SystemClock()

    def log_parameter(self, name: str, value: Any) -> Answer:
        """Keep a parameter: a number, a text, True or False, or a list of these.

        Raises:
            SettingsError: It is something else.
            SessionClosed: It is a run that has been closed.
            StoreError: It cannot be kept.
        """
        return self.log_parameters({name: value})

    def log_parameters(self, parameters: Mapping[str, Any]) -> Answer:
        """Keep parameters; nested tables become names with dots. Errors as of `log_parameter`."""
        return self._tell(Verb.PARAMETERS, {
            checked_name("a parameter", name): checked_value(name, value)
            for name, value in flattened(parameters).items()
        })

    def log_input(
        self, name: str, uri: str, *, media_type: str | None = "", digest: str = "", size_bytes: int = -1
    ) -> Answer:
        """Say of an artifact that it was read, wherever it is; nothing is copied."""
        return self._link(ArtifactLink(checked_name("an input", name), str(uri), media_type or "", digest, size_bytes),
                          is_output=False)

    def log_output(
        self, name: str, uri: str, *, media_type: str | None = "", digest: str = "", size_bytes: int = -1
    ) -> Answer:
        """Say of an artifact that it was made, wherever it is; nothing is copied."""
        return self._link(ArtifactLink(checked_name("an output", name), str(uri), media_type or "", digest, size_bytes),
                          is_output=True)

    def log_artifact(
        self, path: str | os.PathLike[str], name: str | None = None, *, media_type: str = "", is_output: bool = True,
        copy: bool = True,
    ) -> ArtifactLink:
        """Keep a file, or say where it is.

        Args:
            path: Of the file.
            name: By which the component calls it; None: the file's own.
            media_type: What it is made of; "": as its ending says.
            is_output: It was made; else it was read.
            copy: Keep its bytes beside the runs, once for all that have the same; else only its place and digest.

        Raises:
            SettingsError: There is no such file.
            SessionClosed, StoreError: As of `log_parameter`.
        """
        link = artifact_of(self._root, path, name, media_type=media_type, copy=copy, clock=self._artifact_clock)
        self._link(link, is_output=is_output)
        return link

    def log_file(
        self, file_path: str | os.PathLike[str], name: str | None = None, media_type: str | None = None,
        is_output: bool = True,
    ) -> ArtifactLink:
        """Keep a file: `log_artifact` under the name that users of SageMaker Experiments know."""
        return self.log_artifact(file_path, name, media_type=media_type or "", is_output=is_output)

    def log_artifacts(
        self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, is_output: bool = True,
        copy: bool = True,
    ) -> Sequence[ArtifactLink]:
        """Keep several files; other arguments and errors as of `log_artifact`.

        Args:
            paths: Of the files; or of a directory, whose files are kept by their paths in it.
        """
        named = files_in(paths) if isinstance(paths, str | os.PathLike) else [(path, None) for path in paths]
        return [self.log_artifact(path, name, is_output=is_output, copy=copy) for path, name in named]

    def _link(self, link: ArtifactLink, *, is_output: bool) -> Answer:
        return self._tell(Verb.OUTPUT if is_output else Verb.INPUT,
                          {name: getattr(link, name) for name in ArtifactLink.__slots__})
