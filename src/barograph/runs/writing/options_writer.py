"""What a parser made of a worker's command line, written into the run without secrets."""

from __future__ import annotations

from collections.abc import Mapping

from barograph.model.origin import Option
from barograph.provenance.secrets import Secrets
from barograph.runs.state.origins import write_options
from barograph.store.base import Store


class OptionsWriter:
    """Holds the options until they can be written.

    Args:
        store: The run's.
        attempt: Which life of it.
        environment: Of the training: secrets in it are hidden.
    """

    def __init__(self, store: Store, attempt: int, environment: Mapping[str, str]) -> None:
        self._store = store
        self._attempt = attempt
        self._secrets = Secrets(environment)
        self._options: Mapping[str, Option] | None = None

    def put(self, options: Mapping[str, Option]) -> None:
        """Take in all there are by now, in place of those before."""
        self._options = options

    def write(self, worker: str) -> None:
        """Write them, where they are others than those that were written.

        Raises:
            StoreError: The store does not take them.
        """
        waiting = self._options
        if waiting is None:
            return
        write_options(self._store, self._attempt, worker, {
            name: Option(self._secrets.hide_parameter(name, option.value), option.flags)
            for name, option in waiting.items()})
        if self._options is waiting:
            self._options = None
