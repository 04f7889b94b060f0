"""A run that this process writes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from barograph.errors import SessionClosed, SettingsError
from barograph.experiments.artifacts import root_of
from barograph.experiments.checking import refuse_senseless
from barograph.experiments.exhibiting import Exhibiting
from barograph.model.clock import Clock, SystemClock
from barograph.model.items import (
    ArtifactLink,
    Entry,
    Relation,
    Verb,
    checked_name,
    checked_tags,
    flattened,
    relation_from,
)
from barograph.model.manifest import EndState
from barograph.model.step import Mode
from barograph.runs.format.layout import MANIFEST
from barograph.runs.format.metadata import manifest_from_bytes
from barograph.runs.state.journal import JOURNAL_OF_RUN, Journal, links_in_journal
from barograph.store.base import Store

if TYPE_CHECKING:
    from barograph.model.manifest import Manifest


class Related(Protocol):
    """Anything that a run can be related to: a run, a component or an experiment."""

    @property
    def uid(self) -> str:
        """Unique ID."""
        ...


class ActiveRun(Exhibiting[None]):
    """A run that this process writes. `with` and `close` end it, unless it belongs to a recorded training."""

    _known: Manifest | None = None
    _journal: Journal | None = None
    _clock: Clock = SystemClock()

    @property
    @abstractmethod
    def store(self) -> Store:
        """Store of the run."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the run is closed."""

    @property
    def manifest(self) -> Manifest:
        """Name, ID and settings of the run."""
        if self._known is None:
            self._known = manifest_from_bytes(self.store.get(MANIFEST), MANIFEST)
        return self._known

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.manifest.name

    @property
    def uid(self) -> str:
        """Unique ID."""
        return self.manifest.run_id

    @property
    def url(self) -> str:
        """URL of the run, accepted by `barograph show` and `barograph.open`."""
        return self.store.url

    @abstractmethod
    def log_metric(
        self, name: str, value: float, step: int | None = None, *, mode: str = "train", time_unix: float | None = None
    ) -> None:
        """Record one value of a metric.

        Args:
            name: Name of the metric.
            value: A number; NaN and infinities are kept.
            step: None: one after the last step of this metric, or 0.
            mode: "train", "eval" or "predict".
            time_unix: Seconds since 1970 UTC; None: now.

        Raises:
            SessionClosed: The run is closed.
            SettingsError: The value is not a number, or the mode is unknown.
        """

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Record several metrics by name; a nested dictionary joins names, as in `val.accuracy`.

        Raises:
            SessionClosed, SettingsError: As in `log_metric`.
        """
        for name, value in flattened(values).items():
            if value is not None:
                self.log_metric(name, value, step)

    def log_metrics(self, values: Mapping[str, float], step: int | None = None, *, mode: str = "train") -> None:
        """Record several metrics at one step; arguments and errors as in `log_metric`."""
        for name, value in values.items():
            self.log_metric(name, value, step, mode=mode)

    def tag(self, **tags: str | None) -> None:
        """Set tags; None removes one."""
        self._tell(Verb.TAG, checked_tags(tags))

    def note(self, text: str) -> None:
        """Add a note, in Markdown."""
        self._tell(Verb.NOTE, {"text": str(text)})

    def relate(self, relation: Relation | str, other: Related) -> None:
        """Relate the run to another run, component or artifact; relations and errors as in `Component.relate`."""
        self._tell(Verb.RELATE, {"relation": str(relation_from(relation)), "target": other.uid})

    @abstractmethod
    def close(self, state: str = "finished", reason: str = "") -> None:
        """End the run and publish everything. Later calls do nothing.

        Args:
            state: "finished", "failed" or "stopped".
            reason: Free text.

        Raises:
            SettingsError: The state is unknown; the run stays open.
        """

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the run; an exception makes it failed."""

    @property
    def _root(self) -> Store:
        return root_of(self.store)

    @property
    def _artifact_clock(self) -> Clock:
        return self._clock

    def _links(self) -> Sequence[ArtifactLink]:
        return links_in_journal(self.store, self.uid)

    def _tell(self, verb: Verb, data: Mapping[str, Any]) -> None:
        self._check_open()
        if data:
            entry = Entry(self.uid, verb, data, self._clock.unix())
            refuse_senseless([entry])
            if self._journal is None:
                # One object for the whole run: it keeps entries of the same clock tick in order.
                self._journal = Journal(self.store, JOURNAL_OF_RUN)
            self._journal.write([entry])

    def _check_open(self) -> None:
        if self.closed:
            raise SessionClosed(f"This run is closed and records nothing more ({self.url}).")


def checked_step(name: str, step: Any) -> int:
    """Return a step as an `int`; it may be an integer of another type, such as NumPy's.

    Raises:
        SettingsError: It is not a 64-bit integer.
    """
    try:
        whole = int(step)
        if whole == step and abs(whole) < 2**63:
            return whole
    except (TypeError, ValueError, OverflowError):
        pass
    raise SettingsError(f'Metric "{name}" has step {step!r}; a step must be a 64-bit integer.')


def check_ending(state: str) -> None:
    """Check the end state of a run.

    Raises:
        SettingsError: The state is unknown.
    """
    if state not in tuple(EndState):
        raise SettingsError(f'"{state}" is not an end state; use one of {", ".join(EndState)}.')


def check_series(name: object, mode: str) -> None:
    """Check the name and the mode of a metric.

    Raises:
        SettingsError: The name is invalid, or the mode is unknown.
    """
    checked_name("a metric", name)
    if mode not in tuple(Mode):
        raise SettingsError(f'"{mode}" is not a mode; use one of {", ".join(Mode)}.')
