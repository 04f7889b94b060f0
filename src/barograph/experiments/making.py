"""Logging of parameters, inputs, outputs and files, shared by components and runs."""

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
"""What logging methods return: a component returns itself, for chaining; a run that is being written returns None."""


class Making(ABC, Generic[Answer]):
    """Something with parameters, inputs and outputs.

    If two share a name, the last one wins.
    """

    @abstractmethod
    def _tell(self, verb: Verb, data: Mapping[str, Any]) -> Answer:
        """Write an entry to the journal."""

    @property
    @abstractmethod
    def _root(self) -> Store:
        """Root of the runs, where artifacts are stored."""

    @property
    def _artifact_clock(self) -> Clock:
        """Determines the age of an artifact that is stored already."""
        return SystemClock()

    def log_parameter(self, name: str, value: Any) -> Answer:
        """Log a parameter: a number, a string, a boolean, or a list of these.

        Raises:
            SettingsError: The value has another type.
            SessionClosed: The run is closed.
            StoreError: It cannot be stored.
        """
        return self.log_parameters({name: value})

    def log_parameters(self, parameters: Mapping[str, Any]) -> Answer:
        """Log parameters; nested dictionaries become dotted names. Errors as in `log_parameter`."""
        return self._tell(Verb.PARAMETERS, {
            checked_name("a parameter", name): checked_value(name, value)
            for name, value in flattened(parameters).items()
        })

    def log_input(
        self, name: str, uri: str, *, media_type: str | None = "", digest: str = "", size_bytes: int = -1
    ) -> Answer:
        """Log an input by its location; nothing is copied."""
        return self._link(ArtifactLink(checked_name("an input", name), str(uri), media_type or "", digest, size_bytes),
                          is_output=False)

    def log_output(
        self, name: str, uri: str, *, media_type: str | None = "", digest: str = "", size_bytes: int = -1
    ) -> Answer:
        """Log an output by its location; nothing is copied."""
        return self._link(ArtifactLink(checked_name("an output", name), str(uri), media_type or "", digest, size_bytes),
                          is_output=True)

    def log_artifact(
        self, path: str | os.PathLike[str], name: str | None = None, *, media_type: str = "", is_output: bool = True,
        copy: bool = True,
    ) -> ArtifactLink:
        """Log a file as an artifact.

        Args:
            path: Path of the file.
            name: None: the file name.
            media_type: "": guessed from the file extension.
            is_output: Whether it is an output; otherwise it is an input.
            copy: Store its bytes beside the runs, deduplicated; otherwise only its path and digest.

        Raises:
            SettingsError: The file does not exist.
            SessionClosed, StoreError: As in `log_parameter`.
        """
        link = artifact_of(self._root, path, name, media_type=media_type, copy=copy, clock=self._artifact_clock)
        self._link(link, is_output=is_output)
        return link

    def log_file(
        self, file_path: str | os.PathLike[str], name: str | None = None, media_type: str | None = None,
        is_output: bool = True,
    ) -> ArtifactLink:
        """Log a file: `log_artifact` under its SageMaker Experiments name."""
        return self.log_artifact(file_path, name, media_type=media_type or "", is_output=is_output)

    def log_artifacts(
        self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, is_output: bool = True,
        copy: bool = True,
    ) -> Sequence[ArtifactLink]:
        """Log several files; other arguments and errors as in `log_artifact`.

        Args:
            paths: Files, or a directory whose files are named by their relative paths.
        """
        named = files_in(paths) if isinstance(paths, str | os.PathLike) else [(path, None) for path in paths]
        return [self.log_artifact(path, name, is_output=is_output, copy=copy) for path, name in named]

    def _link(self, link: ArtifactLink, *, is_output: bool) -> Answer:
        return self._tell(Verb.OUTPUT if is_output else Verb.INPUT,
                          {name: getattr(link, name) for name in ArtifactLink.__slots__})
