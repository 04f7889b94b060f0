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
        iterator: Of the pass.
        batch: As the script gets it.
        traced: What it was made of; None where that is not known.
    """

    iterator: Any
    batch: Any
    traced: Traced | None


class Feeding:
    """Tracks passes over data, from the first draw to the last batch.

    Args:
        hooks: State shared by the hooks. Its session's settings say who follows: the data trace, the checkpointer.
        names: The models.
        optimizers: Of the script.
        loaders: Knows how long training waits for each loader.
        recorder: Keeps the batches of the step under way; None: nobody does.

    Attributes:
        hooks: See above.
        checkpointer: Saves checkpoints between two batches; None: nobody asked for any.
        resuming: Takes the script to a checkpoint; None: the training is not resumed.
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
        """Whether it is followed what loaders draw."""
        return self._trace is not None

    def _begin_trace(self) -> LoaderTrace | None:
        session = self.hooks.session
        if not session.settings.trace:
            return None
        # Here alone, as below: what nobody asked for is not loaded.
        from barograph.capture.torch.trace import LoaderTrace

        trace = LoaderTrace()
        session.output.follow_feeding(trace.end_step)
        return trace

    def begin_checkpointer(self) -> Checkpointer:
        """Return what saves checkpoints, begun where that was not; without settings it saves none that is not asked."""
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
        """Let loaders be taken to a checkpoint first."""
        self.resuming = resuming

    def name_samples(self, source: Source) -> None:
        """Have samples named by a function of the user's, in the data trace."""
        if self._trace is not None:
            self._trace.name_samples(source)

    def dealt_by(self, dealt: Callable[[Any], Dealt | None]) -> None:
        """Have the data trace ask for the order that another library has drawn for itself."""
        if self._trace is not None:
            self._trace.dealt_by(dealt)

    # A pass

    def loader_will_begin(self, loader: Any) -> None:
        """Note how everything stands before a pass, where checkpoints are saved."""
        if self.checkpointer is not None:
            self.checkpointer.will_begin(loader)

    @entry_point("starting a pass over the data")
    def loader_begins(self, loader: Any, iterator: Any, secs: float) -> None:
        """Note that a data loader begins a pass."""
        if self.checkpointer is not None:
            self.checkpointer.passes.begins(iterator)
        self._loaders.begins(loader, iterator, secs)
        if self._trace is not None:
            self._trace.note_workers(iterator)

    def steps_begin(self, steps: Steps) -> Any:
        """Return what counts the steps of a loop."""
        steps.follow(self)
        if self.resuming is not None and not self.resuming.over:
            return self.resuming.begins(steps)
        checkpointer = self.begin_checkpointer()
        checkpointer.will_begin(steps)
        iterator = StepsIterator(steps)
        checkpointer.passes.begins(iterator)
        return iterator

    def pass_goes_on(self, iterator: Any, known: Pass) -> None:
        """Note a pass that a resumed training goes on with."""
        if self.checkpointer is not None:
            self.checkpointer.passes.adopt(iterator, known)
        loader = known.loader()
        if not isinstance(iterator, StepsIterator) and loader is not None:
            self._loaders.goes_on(loader, iterator, known.name.begun)

    def pass_is_passed_over(self, iterator: Any, draw: Callable[[Any], Any]) -> Any:
        """Return what is drawn from a pass that a resumed training is taken through, and note it for the data trace."""
        trace = self._trace
        if trace is None:
            return draw(iterator)
        if trace.begins_pass(iterator):
            self._noted(lambda: trace.begin_pass(iterator))
        drawn = draw(iterator)
        self._noted(lambda: trace.drew(iterator, drawn))
        return drawn

    def batch_is_passed_over(self, iterator: Any, give: Callable[[Any], Any]) -> Any:
        """Return a batch of such a pass: it was fed before, so only its place in the pass counts."""
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
        except Exception as error:  # noqa: BLE001 - the guard is where all errors of ours end
            self.hooks.session.guard.caught(error, "noting what a resumed training skips")

    def loader_ended(self, iterator: Any) -> None:
        """Note that a pass over the data gave its last batch."""
        if self.checkpointer is not None:
            self.checkpointer.ended(iterator)
        if self._trace is not None:
            self._trace.ended(iterator)

    # What is drawn

    def loader_draws(self, iterator: Any) -> None:
        """Note that a loader is about to draw the samples of a batch."""
        if self._trace is not None and self._trace.begins_pass(iterator):
            self._begin_pass(iterator)

    @entry_point("drawing the first batch of a pass over the data")
    def _begin_pass(self, iterator: Any) -> None:
        if self._trace is not None:
            self._trace.begin_pass(iterator)

    def loader_drew(self, iterator: Any, drawn: Any) -> None:
        """Note the samples of a batch; guarded by itself, since `entry_point` takes longer than the work."""
        session = self.hooks.session
        if self._trace is not None and not session.closed:
            try:
                self._trace.drew(iterator, drawn)
            except Exception as error:  # noqa: BLE001 - the guard is where all errors of ours end
                session.guard.caught(error, "noting which samples were drawn")

    # What comes

    def loader_asked(self, iterator: Any) -> None:
        """Save a checkpoint where one is due: the script has done all that belongs to the step."""
        if self.checkpointer is not None:
            self.checkpointer.asked(iterator)

    @entry_point("waiting for a batch")
    def loader_gave(self, iterator: Any, secs: float, *batch: Any) -> None:
        """Note how long a batch was waited for, and what it was made of; no batch: there was none."""
        self._loaders.gave(iterator, secs)
        if self._trace is not None and batch:
            self._trace.gave(iterator, *batch)

    def batch_came(self, iterator: Any, batch: Any) -> None:
        """Keep what a loader gave, where steps are kept, and what it was made of."""
        came = Came(iterator, batch, None if self._trace is None else self._trace.take())
        if self._ahead is None:
            self.feeds(came)
        else:
            self._ahead.append(came)

    @contextlib.contextmanager
    def drawing_ahead(self) -> Iterator[list[Came]]:
        """Have what loaders give in a `with` block belong to no step yet: `feeds` is to be told when it does."""
        before, self._ahead = self._ahead, []
        try:
            yield self._ahead
        finally:
            self._ahead = before

    def feeds(self, came: Came) -> None:
        """Note that a batch is in the hands of the script: it feeds the step that comes."""
        if self.checkpointer is not None:
            self.checkpointer.gave(came.iterator, came.batch)
        if self._trace is not None and came.traced is not None:
            self._trace.feeds(came.traced)
        if self._recorder is not None:
            self._recorder.batch_came(came.batch, None if came.traced is None else came.traced.made)
