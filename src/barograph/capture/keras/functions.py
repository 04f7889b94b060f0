"""Variants of a Keras model's step function, with more or fewer additional results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barograph.capture.keras.collector import Collector, Reads, Seen, Wanted
from barograph.capture.keras.merging import merged
from barograph.capture.keras.modes import Modes
from barograph.capture.keras.replicas import SharedSteps

if TYPE_CHECKING:
    from barograph.capture.keras.backends import Backend
    from barograph.capture.keras.names import KerasNames
    from barograph.capture.verdict import Verdict

Collecting = Callable[[Collector], Any]


class Functions:
    """Creates each variant on first use; which one is called can change from step to step.

    Under a compiler, each variant is a separate program, compiled at its first call. A step that only needs its loss
    runs the program that Keras would have made, with one more result.

    Args:
        make: Keras's unbound method that makes the function of a model.
        model: The model.
        what: "train" or "test".
        backend: Backend of Keras.
        collecting: Returns the context in which all wrappers report to a collector.
        say: Called with an error of ours.

    Attributes:
        replicas: Number of devices that share each step.
        is_seen: Variants can be called. They cannot if replicas that share a step cannot be observed separately: Keras
            would average their results, including gradients, batches and outputs.
        plain: The function as Keras made it.
        training: Whether the step is a training step.
        called: Variants called so far, which are compiled if anything is.
        lost: Paths of layers whose inputs and outputs cannot be recorded.
        paths: Paths of the variables whose gradients a gate checks, in order.
        verdict: Why the last step was withheld, if the step itself cannot report the reason.
        modes: Modes in which a step called the trained models; None: unknown. For a compiled step, at tracing.
    """

    def __init__(self, make: Callable[..., Any], model: Any, what: str, backend: Backend,
                 collecting: Collecting, say: Callable[[Exception], None]) -> None:
        self.training = what == "train"
        self._make = make
        self._model = model
        self._step_name, self._function_name = f"{what}_step", f"{what}_function"
        self._backend = backend
        self._collecting = collecting
        self._say = say
        self._reads: Reads | None = None
        self._is_broken = False
        self.replicas = backend.replicas(model)
        self._is_mirrored = backend.is_mirrored(model)
        self.is_seen = self._is_mirrored or self.replicas == 1
        self.plain: Callable[..., Any] = getattr(model, self._function_name)
        self._made: dict[Wanted, tuple[Callable[..., Any], Callable[..., Any]]] = {}
        self.called: set[Wanted] = set()
        self.lost: set[str] = set()
        self.paths: list[str] = []
        self.verdict: Verdict | None = None
        self.modes: Modes | None = None

    @property
    def gives_out(self) -> bool:
        """Whether variants can be called, as far as known."""
        return self.is_seen and not self._is_broken

    def call(self, names: KerasNames, wanted: Wanted, args: tuple[Any, ...],
             reads: Reads | None = None) -> tuple[Any, Seen, Any]:
        """Call a variant; return the logs, the collected values, and further values for Keras.

        Args:
            names: Names of the model.
            wanted: Determines the variant.
            args: Arguments of the function.
            reads: Reads values as soon as they exist; None: they are kept. Readings of a failed call are discarded.

        If the first call of a variant fails, and Keras's own function works, the fault is ours: it is reported, and
        from then on the latter is called.

        Raises:
            Exception: The script's own step raised it.
        """
        if self.gives_out:
            try:
                return self._call(names, wanted, args, reads)
            except StopIteration:
                raise
            except Exception as error:
                if wanted in self.called:
                    raise
                found = self._backend.parts(self.plain(*args))
                self._is_broken = True
                self._say(error)
        else:
            found = self._backend.parts(self.plain(*args))
        return found[0], {}, found[1]

    def _call(self, names: KerasNames, wanted: Wanted, args: tuple[Any, ...],
              reads: Reads | None) -> tuple[Any, Seen, Any]:
        if wanted not in self._made:
            self._made[wanted] = self._variant(names, wanted)
        function, step = self._made[wanted]
        # Keras may look up the step when the function is made, or each time that it is called or traced.
        self._reads = reads
        try:
            with self._in_place_of_step(step):
                found, given = self._backend.parts(function(*args))
        finally:
            self._reads = None
        self.called.add(wanted)
        left = found["seen"]
        return found["logs"], merged(left, self.paths) if self._is_mirrored else self._backend.seen_in(left), given

    def _variant(self, names: KerasNames, wanted: Wanted) -> tuple[Callable[..., Any], Callable[..., Any]]:
        model = self._model
        original = getattr(model, self._step_name)

        def of_replica(*args: Any, **kwargs: Any) -> Any:
            shared, collector = steps.mine()
            with self._collecting(collector):
                result = self._backend.step(model, original, collector, args, training=self.training)
            if not self.training:
                collector.evaluated(model)
            # If one replica fails, none gets here.
            result["seen"] = shared.gathered()
            self.paths, self.verdict = shared.whole.paths or self.paths, shared.whole.verdict
            self.lost |= shared.whole.lost
            self.modes = shared.whole.modes or self.modes
            return result

        def alone(*args: Any, **kwargs: Any) -> Any:
            collector = Collector(names, wanted, self._backend.reach(args), reads=self._reads)
            with self._collecting(collector):
                try:
                    result = self._backend.step(model, original, collector, args, training=self.training)
                    if not self.training:
                        collector.evaluated(model)
                    return result
                finally:
                    self.lost |= collector.lost
                    self.paths, self.verdict = collector.paths or self.paths, collector.verdict
                    self.modes = collector.modes or self.modes
                    if collector.failed is not None:
                        self._say(collector.failed)

        steps = SharedSteps(lambda: Collector(names, wanted, self._backend.reach(())))
        step = of_replica if self._is_mirrored else alone
        before = getattr(model, self._function_name)
        with self._in_place_of_step(step):
            try:
                self._make(model, True)
                return getattr(model, self._function_name), step
            finally:
                setattr(model, self._function_name, before)

    @contextmanager
    def _in_place_of_step(self, step: Callable[..., Any]) -> Iterator[None]:
        own = vars(self._model)
        # A step that the script has put into the object itself stays there.
        before = own.get(self._step_name)
        own[self._step_name] = step
        try:
            yield
        finally:
            if before is None:
                del own[self._step_name]
            else:
                own[self._step_name] = before
