"""Records a trainer's logged metrics and phases, besides the steps of the PyTorch integration.

Losses and steps are none of its business: torch's integration has them of the optimizer, and they must not be told
twice.
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
        recording: Who is told.
        library: As people call it.
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
        """Whether nothing is recorded any more."""
        return self._session.closed

    def log(self, values: Callable[[], Mapping[str, Any]], mode: Mode | None = None) -> None:
        """Record what is logged, where it is a number, after the steps made so far.

        Args:
            values: Returns it, by name; what is within another mapping has both names.
            mode: In which it is; None: in that which goes on.
        """
        if self.silent or self._session.script.passes_over:
            return
        with self._entry.guarded(f"recording metrics of {self._library}"):
            numbers = dict(numbers_in(values()))
            if numbers:
                self._session.log(numbers, mode=mode)

    def begins_at(self, step: int) -> None:
        """Note that a training begins with this step, for optimizers that keep no count of their own."""
        session = self._session
        if step or session.counts.first_step == self._began_at:
            # What the script itself said of the first step stands, unless the framework knows better.
            self._began_at = step
            session.counts.begin_at(step)

    @contextlib.contextmanager
    def mode(self, mode: Mode) -> Iterator[None]:
        """Have what goes on in a `with` block recorded in this mode, unless the script has set one."""
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
        """Have nothing recorded of what goes on in a `with` block."""
        return self._recording.aside("torch")

    def own_end(self, leave: Leave) -> contextlib.AbstractContextManager[None]:
        """Have a training that is stopped in a `with` block end as the library ends one."""
        return self._session.steering.own_end.within(leave)
