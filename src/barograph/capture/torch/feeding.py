"""Tracks the data of a training (loaders, and loops that count their own steps) for its followers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from barograph.capture.steps import Steps, StepsIterator
from barograph.capture.torch.entry_point import HookState, entry_point
from barograph.capture.torch.loaders import LoaderRecorder
from barograph.capture.torch.names import ModelNames
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.model.checkpoints import CheckpointSettings

if TYPE_CHECKING:
    from barograph.capture.torch.checkpointer import Checkpointer
    from barograph.capture.torch.loader_pass import Dealt, Traced
    from barograph.capture.torch.passes import Pass
    from barograph.capture.torch.recorder import TorchRecorder
    from barograph.capture.torch.resuming import Resuming
    from barograph.capture.torch.sources import Source
    from barograph.capture.torch.trace import LoaderTrace


class Came(NamedTuple):
    """A batch from a loader.

    Attributes:
        iterator: Iterator of the pass.
        batch: The batch as the script gets it.
        traced: Its samples; None if unknown.
    """

    iterator: Any
    batch: Any
    traced: Traced | None


class Feeding:
    """Tracks passes over data, from the first draw to the last batch.

    Args:
        hooks: State shared by the hooks. The settings of its session determine the followers: data trace, checkpointer.
        names: Names of the models.
        optimizers: Optimizers of the script.
        loaders: Measures how long training waits for each loader.
        recorder: Keeps the batches of the current step; None: off.

    Attributes:
        hooks: See above.
        checkpointer: Saves checkpoints between two batches; None: off.
        resuming: Resumes the script from a checkpoint; None: the training is not resumed.
    """

    def __init__(
        self, hooks: HookState, names: ModelNames, optimizers: OptimizerBook, loaders: LoaderRecorder,
        recorder: TorchRecorder | None,
    ) -> None:
        self.hooks = hooks
        self.checkpointer: Checkpointer | None = None
        self.resuming: Resuming | None = None
        self._names = names
        self._optimizers = optimizers
        self._loaders = loaders
        self._recorder = recorder
        self._trace = self._begin_trace()
        self._ahead: list[Came] | None = None
        if hooks.session.settings.checkpoints is not None:
            self.begin_checkpointer()

    @property
    def traces(self) -> bool:
        """Whether draws of loaders are traced."""
        return self._trace is not None

    def _begin_trace(self) -> LoaderTrace | None:
        session = self.hooks.session
        if not session.settings.trace:
            return None
        # Imported on use, as below.
        from barograph.capture.torch.trace import LoaderTrace

        trace = LoaderTrace()
        session.output.follow_feeding(trace.end_step)
        return trace

    def begin_checkpointer(self) -> Checkpointer:
        """Return the checkpointer, created if necessary; without settings it only saves requested checkpoints."""
        if self.checkpointer is not None:
            return self.checkpointer
        from barograph.capture.torch.checkpointer import Checkpointer
        from barograph.capture.torch.passes import LoaderNames
        from barograph.store.urls import store_from_url

        wanted = self.hooks.session.settings
        settings = wanted.checkpoints or CheckpointSettings(on_sigterm=False)
        self.checkpointer = Checkpointer(self.hooks, self._names, self._optimizers, settings, loaders=LoaderNames(),
                                         store=lambda: store_from_url(wanted.to))
        return self.checkpointer

    def resume(self, resuming: Resuming) -> None:
        """Resume loaders from a checkpoint first."""
        self.resuming = resuming

    def name_samples(self, source: Source) -> None:
        """Set the user's function that names samples in the data trace."""
        if self._trace is not None:
            self._trace.name_samples(source)

    def dealt_by(self, dealt: Callable[[Any], Dealt | None]) -> None:
        """Let the data trace get the sample order that another library has drawn."""
        if self._trace is not None:
            self._trace.dealt_by(dealt)

    # A pass

    def loader_will_begin(self, loader: Any) -> None:
        """Save the state before a pass, if checkpoints are saved."""
        if self.checkpointer is not None:
            self.checkpointer.will_begin(loader)

    @entry_point("starting a pass over the data")
    def loader_begins(self, loader: Any, iterator: Any, secs: float) -> None:
        """Note the start of a pass over a data loader."""
        if self.checkpointer is not None:
            self.checkpointer.passes.begins(iterator)
        self._loaders.begins(loader, iterator, secs)
        if self._trace is not None:
            self._trace.note_workers(iterator)

    def steps_begin(self, steps: Steps) -> Any:
        """Return an iterator over the steps of a loop."""
        steps.follow(self)
        if self.resuming is not None and not self.resuming.over:
            return self.resuming.begins(steps)
        checkpointer = self.begin_checkpointer()
        checkpointer.will_begin(steps)
        iterator = StepsIterator(steps)
        checkpointer.passes.begins(iterator)
        return iterator

    def pass_goes_on(self, iterator: Any, known: Pass) -> None:
        """Note a pass that a resumed training continues."""
        if self.checkpointer is not None:
            self.checkpointer.passes.adopt(iterator, known)
        loader = known.loader()
        if not isinstance(iterator, StepsIterator) and loader is not None:
            self._loaders.goes_on(loader, iterator, known.name.begun)

    def pass_is_passed_over(self, iterator: Any, draw: Callable[[Any], Any]) -> Any:
        """Return the draws of a skipped part of a pass in a resumed training, and add them to the data trace."""
        trace = self._trace
        if trace is None:
            return draw(iterator)
        if trace.begins_pass(iterator):
            self._noted(lambda: trace.begin_pass(iterator))
        drawn = draw(iterator)
        self._noted(lambda: trace.drew(iterator, drawn))
        return drawn

    def batch_is_passed_over(self, iterator: Any, give: Callable[[Any], Any]) -> Any:
        """Return a skipped batch: it was used before, so only its position in the pass counts."""
        trace = self._trace
        if trace is None:
            return give(iterator)
        self._noted(lambda: trace.note_workers(iterator))
        batch = give(iterator)
        self._noted(lambda: trace.passed_over(iterator, batch))
        return batch

    def _noted(self, note: Callable[[], None]) -> None:
        try:
            note()
        except Exception as error:  # noqa: BLE001 - the guard handles all our errors
            self.hooks.session.guard.caught(error, "noting what a resumed training skips")

    def loader_ended(self, iterator: Any) -> None:
        """Note that a pass over the data gave its last batch."""
        if self.checkpointer is not None:
            self.checkpointer.ended(iterator)
        if self._trace is not None:
            self._trace.ended(iterator)

    # Draws

    def loader_draws(self, iterator: Any) -> None:
        """Note that a loader is about to draw the samples of a batch."""
        if self._trace is not None and self._trace.begins_pass(iterator):
            self._begin_pass(iterator)

    @entry_point("drawing the first batch of a pass over the data")
    def _begin_pass(self, iterator: Any) -> None:
        if self._trace is not None:
            self._trace.begin_pass(iterator)

    def loader_drew(self, iterator: Any, drawn: Any) -> None:
        """Note the samples of a batch; with its own guard, since `entry_point` takes longer than the work."""
        session = self.hooks.session
        if self._trace is not None and not session.closed:
            try:
                self._trace.drew(iterator, drawn)
            except Exception as error:  # noqa: BLE001 - the guard handles all our errors
                session.guard.caught(error, "noting which samples were drawn")

    # Batches

    def loader_asked(self, iterator: Any) -> None:
        """Save a checkpoint if due: the script has finished its step."""
        if self.checkpointer is not None:
            self.checkpointer.asked(iterator)

    @entry_point("waiting for a batch")
    def loader_gave(self, iterator: Any, secs: float, *batch: Any) -> None:
        """Note the waiting time of a batch, and its samples; without a batch, the pass has ended."""
        self._loaders.gave(iterator, secs, ended=not batch)
        if self._trace is not None and batch:
            self._trace.gave(iterator, *batch)

    def batch_came(self, iterator: Any, batch: Any) -> None:
        """Keep a batch, if steps are kept, and its samples."""
        came = Came(iterator, batch, None if self._trace is None else self._trace.take())
        if self._ahead is None:
            self.feeds(came)
        else:
            self._ahead.append(came)

    @contextlib.contextmanager
    def drawing_ahead(self) -> Iterator[list[Came]]:
        """Assign batches from loaders in a `with` block to no step yet: `feeds` is called when the script gets them."""
        before, self._ahead = self._ahead, []
        try:
            yield self._ahead
        finally:
            self._ahead = before

    def feeds(self, came: Came) -> None:
        """Note that the script has a batch: it belongs to the next step."""
        if self.checkpointer is not None:
            self.checkpointer.gave(came.iterator, came.batch)
        if self._trace is not None and came.traced is not None:
            self._trace.feeds(came.traced)
        if self._recorder is not None:
            self._recorder.batch_came(came.batch, None if came.traced is None else came.traced.made)
