"""smdebug's `Trial`: reads a run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, KeysView
from enum import Enum

from barograph.debugger.catalog import Array, Catalog
from barograph.debugger.collection import PYTORCH, Collection, CollectionKeys
from barograph.debugger.exceptions import (
    NoMoreData,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailable,
)
from barograph.debugger.modes import ModeKeys
from barograph.debugger.tensor import Tensor
from barograph.errors import StoreUnavailable
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.roster import Standing

_LOOK_SECS = 0.5
_OVER = (Standing.FINISHED, Standing.STOPPED, Standing.FAILED, Standing.KILLED)


class StepState(Enum):
    """The availability of a step."""

    UNAVAILABLE = 0
    AVAILABLE = 1
    NOT_YET_AVAILABLE = 2


class Trial:
    """Reads the tensors of a run, during or after the training.

    Args:
        run: The run.
        name: Of the trial.
        range_steps: Only global steps from the first on, and before the second; None: no such limit.
        wait: Lets some seconds pass, where a step is waited for.

    Attributes:
        catalog: What there is.
        dynamic_refresh: Look for more whenever something is asked.
        loaded_all_steps: The training is over, and all that it saved was seen.
    """

    def __init__(
        self, run: RunReader, *, name: str = "", range_steps: tuple[int | None, int | None] | None = None,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._run = run
        self._wait = wait
        self._range = range_steps or (None, None)
        self.name = name or run.manifest.name
        self.path = run.url
        self.dynamic_refresh = True
        self.loaded_all_steps = False
        self.catalog = Catalog(run)
        self._made = self._collections()
        self.refresh()

    def __repr__(self) -> str:
        return f"<Trial {self.name} at {self.path}>"

    def refresh(self) -> None:
        """Load what was saved since."""
        if self.loaded_all_steps:
            return
        # First whether it is over: what it saved last was there before.
        over = self._is_over()
        self._run.refresh()
        self.catalog = Catalog(self._run)
        self._made = self._collections()
        self.loaded_all_steps = over

    def maybe_refresh(self, name: str | None = None) -> None:
        """Load what was saved since, unless refreshing is disabled."""
        if self.dynamic_refresh:
            self.refresh()

    # Tensors

    def tensor(self, tname: str) -> Tensor:
        """Return a tensor.

        Raises:
            TensorUnavailable: None of that name was saved.
        """
        if not self.has_tensor(tname):
            raise TensorUnavailable(tname)
        return Tensor(tname, self)

    def has_tensor(self, tname: str) -> bool:
        """Return whether a tensor of that name was saved."""
        if tname not in self.catalog.tensors:
            self.maybe_refresh()
        return tname in self.catalog.tensors

    def tensor_names(
        self, show_prefixed_tensors: bool = False, *, step: int | None = None, mode: ModeKeys = ModeKeys.GLOBAL,
        regex: str | list[str] | None = None, collection: str | Collection | None = None,
    ) -> list[str]:
        """Return the names of tensors, sorted.

        Args:
            show_prefixed_tensors: Taken and not used, as by smdebug.
            step: Only those saved at this step, as counted in the mode.
            mode: Only those saved in this mode.
            regex: Only those in which one of these patterns is found.
            collection: Only those of this collection.

        Raises:
            ValueError: Both patterns and a collection are given.
        """
        if regex is not None and collection is not None:
            raise ValueError("tensor_names takes a regex or a collection, not both.")
        self.maybe_refresh()
        names = set(self._names_at(step, mode))
        if regex is not None:
            patterns = [regex] if isinstance(regex, str) else regex
            names = {name for name in names if any(re.search(pattern, name) for pattern in patterns)}
        if collection is not None:
            members = self.collection(collection if isinstance(collection, str) else collection.name)
            names = {name for name in names if members.has(name)}
        return sorted(names)

    def inputs(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> list[Array]:
        """Return the tensors of the collection "inputs" at a global step."""
        return self._values_of(self.tensor_names(step=step, mode=mode, collection=CollectionKeys.INPUTS), step)

    def labels(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> list[Array]:
        """Return the tensors named labels at a global step."""
        return self._values_of(self.tensor_names(step=step, mode=mode, regex="labels*"), step)

    def predictions(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> list[Array]:
        """Return the tensors named predictions at a global step."""
        return self._values_of(self.tensor_names(step=step, mode=mode, regex="predictions*"), step)

    # Steps, modes, workers

    def steps(self, mode: ModeKeys = ModeKeys.GLOBAL, show_incomplete_steps: bool = False) -> list[int]:
        """Return the saved steps, ascending, counted in a mode.

        Args:
            mode: Which; GLOBAL: all, as counted over all modes.
            show_incomplete_steps: Those too that not every worker has saved yet.
        """
        self.maybe_refresh()
        return sorted({
            counted for step in self.catalog.modes
            if (counted := self.step_in_mode(step, mode)) is not None
            and (show_incomplete_steps or self._is_complete(step))
        })

    def modes(self) -> KeysView[ModeKeys]:
        """Return the modes that the script has set."""
        return dict.fromkeys(mode for mode, _ in self.catalog.modes.values() if mode is not ModeKeys.GLOBAL).keys()

    def workers(self) -> list[str]:
        """Return the workers, sorted."""
        self.maybe_refresh()
        return list(self.catalog.workers)

    @property
    def num_workers(self) -> int:
        """The number of workers."""
        return self.catalog.book.num_workers if self.catalog.book else max(1, len(self.catalog.workers))

    def global_step(self, mode: ModeKeys, mode_step: int) -> int | None:
        """Return the global step of a step in a mode; None if it was not saved."""
        if mode is ModeKeys.GLOBAL:
            return mode_step
        return self.catalog.global_steps.get((mode, mode_step))

    def mode_modestep(self, global_step: int) -> tuple[ModeKeys | None, int | None]:
        """Return mode and step of a global step; (None, None) if it was not saved."""
        return self.catalog.modes.get(global_step, (None, None))

    def mode(self, global_step: int) -> ModeKeys | None:
        """Return the mode of a global step."""
        return self.mode_modestep(global_step)[0]

    def mode_step(self, global_step: int) -> int | None:
        """Return the step in its mode of a global step."""
        return self.mode_modestep(global_step)[1]

    def step_in_mode(self, global_step: int, mode: ModeKeys) -> int | None:
        """Return a global step as counted in a mode; None where it is of another, or outside what was asked for."""
        start, stop = self._range
        if (start is not None and global_step < start) or (stop is not None and global_step >= stop):
            return None
        own, counted = self.catalog.modes.get(global_step, (None, None))
        if mode is ModeKeys.GLOBAL:
            return global_step if own else None
        return counted if own is mode else None

    # Collections

    def collections(self) -> dict[str, Collection]:
        """Return the collections by name."""
        return self._made

    def collection(self, coll_name: str) -> Collection:
        """Return a collection; a missing one is created empty."""
        return self._made.setdefault(coll_name, Collection(coll_name))

    # Waiting

    def has_passed_step(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> StepState:
        """Return whether a step is available, may still come, or will not."""
        if step in self.steps(mode):
            return StepState.AVAILABLE
        there = self.steps(mode, show_incomplete_steps=True)
        later = [known for known in self.steps(mode) if known > step]
        if self.loaded_all_steps or (step not in there and later):
            return StepState.UNAVAILABLE
        return StepState.NOT_YET_AVAILABLE

    def wait_for_steps(self, required_steps: Iterable[int], mode: ModeKeys = ModeKeys.GLOBAL) -> None:
        """Wait until all of these steps are available.

        Raises:
            StepUnavailable: One was not saved, and will not be.
            NoMoreData: The training is over, and did not come to one.
        """
        before, self.dynamic_refresh = self.dynamic_refresh, True
        try:
            for step in required_steps:
                while (state := self.has_passed_step(step, mode)) is not StepState.AVAILABLE:
                    if state is StepState.UNAVAILABLE:
                        raise self._absence(step, mode)
                    self._wait(_LOOK_SECS)
        finally:
            self.dynamic_refresh = before

    def check_step(self, step: int, mode: ModeKeys) -> None:
        """Return where a step is there.

        Raises:
            StepUnavailable: It is not, and will not be.
            StepNotYetAvailable: It may come.
        """
        state = self.has_passed_step(step, mode)
        if state is StepState.UNAVAILABLE:
            raise StepUnavailable(step, mode)
        if state is StepState.NOT_YET_AVAILABLE:
            raise StepNotYetAvailable(step, mode)

    def _absence(self, step: int, mode: ModeKeys) -> StepUnavailable | NoMoreData:
        last = max(self.steps(mode, show_incomplete_steps=True), default=-1)
        return NoMoreData(step, mode, last) if self.loaded_all_steps and step > last else StepUnavailable(step, mode)

    def _names_at(self, step: int | None, mode: ModeKeys) -> Iterable[str]:
        for name, table in self.catalog.tensors.items():
            if step is not None:
                if self.global_step(mode, step) in table.steps:
                    yield name
            elif mode is ModeKeys.GLOBAL or any(self.step_in_mode(at, mode) is not None for at in table.steps):
                yield name

    def _values_of(self, names: list[str], step: int) -> list[Array]:
        def number(name: str) -> int:
            match = re.search(r"_(\d+)$", name)
            return int(match[1]) if match else 0

        return [self.tensor(name).value(step) for name in sorted(names, key=number)]

    def _is_complete(self, step: int) -> bool:
        return self.loaded_all_steps or len(self.catalog.written_by.get(step, ())) >= self.num_workers

    def _is_over(self) -> bool:
        try:
            workers = self._run.workers
        except StoreUnavailable:
            return False
        return bool(workers) and all(state.standing in _OVER for state in workers)

    def _collections(self) -> dict[str, Collection]:
        book = self.catalog.book
        if book is None:
            return {name: Collection(name, patterns) for name, patterns in PYTORCH.items()}
        return {name: Collection.from_dict({**entry, "name": name}) for name, entry in book.collections.items()}
