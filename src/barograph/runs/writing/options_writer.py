"""Writing of the parsed options of a worker's script, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from barograph.model.origin import Option, Untrained
from barograph.provenance.secrets import Secrets
from barograph.runs.state.origins import write_options
from barograph.store.base import Store

_MOST_ERROR_CHARS = 300


class OptionsWriter:
    """Holds the options until they can be written.

    Args:
        store: Store of the run.
        attempt: Attempt of the run.
        environment: Environment of the training; its secrets are masked.
    """

    def __init__(self, store: Store, attempt: int, environment: Mapping[str, str]) -> None:
        self._store = store
        self._attempt = attempt
        self._secrets = Secrets(environment)
        self._options: Mapping[str, Option] | None = None

    def put(self, options: Mapping[str, Option]) -> None:
        """Replace the options."""
        self._options = options

    def write(self, worker: str, untrained: Untrained | None = None) -> None:
        """Write the options if they have changed; and what the script is if it did not train.

        Raises:
            StoreError: The store rejects them.
        """
        waiting = self._options
        if waiting is None:
            return
        if untrained is not None:
            untrained = replace(untrained, error=self._secrets.hide(untrained.error)[:_MOST_ERROR_CHARS])
        write_options(self._store, self._attempt, worker, {
            name: Option(self._secrets.hide_parameter(name, option.value), option.flags)
            for name, option in waiting.items()}, untrained)
        if self._options is waiting:
            self._options = None
