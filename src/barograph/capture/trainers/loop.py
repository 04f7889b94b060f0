"""Records a trainer's logged metrics and phases, besides the steps of the PyTorch integration.

Losses and steps are recorded by the PyTorch integration, and must not be recorded twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from barograph.capture.entry_point import EntryPoint
from barograph.capture.logged import numbers_in
from barograph.capture.patches import Patches

if TYPE_CHECKING:
    from barograph.capture.integrations import Listening
    from barograph.capture.own_end import Leave
    from barograph.model.step import Mode


class TrainerLoop(Patches):
    """Records the loops of one library.

    Args:
        recording: The recording.
        library: Displayed name of the library.
    """

    def __init__(self, recording: Listening, library: str) -> None:
        super().__init__()
        self._recording = recording
        self._session = recording.session
        self._entry = EntryPoint(recording.session)
        self._library = library
        self._began_at = 0

    @property
    def silent(self) -> bool:
        """Whether recording has ended."""
        return self._session.closed

    def log(self, values: Callable[[], Mapping[str, Any]], mode: Mode | None = None) -> None:
        """Record logged numbers, after the steps made so far.

        Args:
            values: Returns them by name; names of nested mappings are joined.
            mode: Mode of the values; None: the current one.
        """
        if self.silent or self._session.script.passes_over:
            return
        with self._entry.guarded(f"recording metrics of {self._library}"):
            numbers = dict(numbers_in(values()))
            if numbers:
                self._session.log(numbers, mode=mode)

    def begins_at(self, step: int) -> None:
        """Note the first step of a training, for optimizers that do not count steps."""
        session = self._session
        if step or session.counts.first_step == self._began_at:
            # The script's own first step applies, unless the framework knows better.
            self._began_at = step
            session.counts.begin_at(step)

    @contextlib.contextmanager
    def mode(self, mode: Mode) -> Iterator[None]:
        """Record a `with` block in this mode, unless the script has set one."""
        if self.silent or self._session.script.mode is not None:
            yield
            return
        self._recording.set_mode(mode)
        try:
            yield
        finally:
            if not self.silent:
                self._recording.set_mode(None)

    def aside(self) -> contextlib.AbstractContextManager[None]:
        """Record nothing of a `with` block."""
        return self._recording.aside("torch")

    def own_end(self, leave: Leave) -> contextlib.AbstractContextManager[None]:
        """End a training that is stopped in a `with` block as the library ends one."""
        return self._session.steering.own_end.within(leave)
