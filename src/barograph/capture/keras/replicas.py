"""A step of several replicas under `tf.distribute.MirroredStrategy`, each with its own collector.

Each replica processes its part of the batch in its own thread; the threads take turns. The strategy sums the gradients
before use, so they are checked once all replicas have arrived, for all of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol

import keras

from barograph.capture.keras.collector import Collector, Seen, norms_of
from barograph.capture.keras.leaving import leaving

_NARROW = "float16"
"""Gradients of that type may each be finite, and their sum overflow."""


_OTHER_NAMES = {"CollectiveAllReduceStrategy": "MultiWorkerMirroredStrategy"}
"""Public names of strategies whose classes have other names."""


class Judge(Protocol):
    """Decides whether to use gradients."""

    def may_pass(self, collector: Collector, fits: bool) -> bool:
        """Return whether gradients with known values may be used."""

    def values_unknown(self) -> None:
        """Note that a step is compiled, so gradients cannot be checked with Python code."""


class SharedStep:
    """One step, or one trace of it.

    Args:
        whole: Gets events that belong to no replica.

    Attributes:
        whole: See above.
        unseen: Class of a strategy whose replicas cannot be observed separately; "": none.
    """

    def __init__(self, whole: Collector) -> None:
        self.whole = whole
        self.unseen = ""
        self._tensorflow: Any = importlib.import_module("tensorflow")
        self._of_replica: dict[int, Collector] = {}
        self._waiting: dict[int, Callable[[], Any]] = {}
        self._is_applying = False

    def mine(self) -> Collector | None:
        """Return the collector of the replica of this thread; None: not a replica, or not observed."""
        context = self._tensorflow.distribute.get_replica_context()
        if self._is_applying or context is None or not self._tensorflow.distribute.has_strategy():
            return None
        if not is_mirrored(context.strategy):
            name = type(context.strategy).__name__
            self.unseen = _OTHER_NAMES.get(name, name)
            return None
        number = self._number()
        if number not in self._of_replica:
            self._of_replica[number] = self._new_collector()
        return self._of_replica[number]

    def has_begun(self) -> bool:
        """Return whether the replica of this thread has already made its part."""
        return self._number() in self._of_replica

    @property
    def collectors(self) -> list[Collector]:
        """Collectors of the replicas, in order; empty without replicas."""
        return [self._of_replica[number] for number in sorted(self._of_replica)]

    def leave(self) -> Seen:
        """Return the collected values in a form that can leave a graph; `merging.merged` joins them to one step."""
        whole, collectors = self.whole, self.collectors
        for collector in collectors:
            whole.paths = whole.paths or collector.paths
            whole.lost |= collector.lost
            whole.optimizer = whole.optimizer or collector.optimizer
            whole.modes = whole.modes or collector.modes
        parts = [collector.seen for collector in collectors]
        if parts and all("loss" in part for part in parts):
            whole.seen["loss"] = loss_of_all(parts)
        return {"whole": leaving(whole.seen), "replicas": tuple(leaving(collector.seen) for collector in collectors)}

    def gathered(self) -> Seen:
        """Return the values collected by all replicas, in each of them; every replica calls it.

        All get the same tensors, which the strategy passes on unchanged.
        """
        found: Seen = self._between(lambda strategy: self.leave())
        return found

    # The gate

    def apply(self, use: Callable[[], Any], judge: Judge) -> Any:
        """Use the gradients of this replica if those of all are acceptable; every replica calls it.

        Args:
            use: Makes the optimizer use this replica's gradients.
            judge: Decides if values are known.
        """
        self._waiting[self._number()] = use
        return use() if self._between(lambda strategy: self._decided(strategy, judge)) else None

    def _decided(self, strategy: Any, judge: Judge) -> bool:
        """Return whether a replica may use its gradients; otherwise the case is handled here."""
        fits = self._fits()
        if fits is None:
            return True
        self.whole.seen["withheld"] = keras.ops.logical_not(fits)
        if self.whole.reach.is_known(fits):
            return judge.may_pass(self.whole, bool(fits))
        judge.values_unknown()
        # Within a replica, collective operations must not be inside a branch.
        keras.ops.cond(fits, lambda: self._use_in_all(strategy), lambda: None)
        return False

    def _fits(self) -> Any:
        """Return whether the summed gradients are acceptable, as a tensor; None: an error of ours was reported.

        Sums of finite values are finite, so one number per replica is enough, unless the norm is checked, too.
        """
        collectors, ops, wanted = self.collectors, keras.ops, self.whole.wanted
        if any(collector.finite is None for collector in collectors):
            return None
        first = collectors[0].seen
        fits = ops.all(ops.stack([collector.finite for collector in collectors]))
        narrow = any(keras.backend.standardize_dtype(item.dtype) == _NARROW for item in first["given"].values())
        if narrow or wanted.norm_above is not None or self.whole.reach.is_known(fits):
            norms = self._norms()
            fits = ops.logical_and(fits, ops.all(ops.isfinite(norms)))
            if wanted.norm_above is not None:
                fits = ops.logical_and(fits, ops.sqrt(ops.sum(ops.square(norms))) <= wanted.norm_above)
            self.whole.seen["norms"], self.whole.paths = norms, collectors[0].paths
        losses = [collector.seen["loss"] for collector in collectors if "loss" in collector.seen]
        if losses:
            fits = ops.logical_and(fits, ops.all(ops.isfinite(ops.stack(losses))))
        if len(losses) == len(collectors):
            self.whole.seen["loss"] = loss_of_all([collector.seen for collector in collectors])
        # Keras's scaler only checks the first replica.
        skipped = collectors[0].skipped
        return fits if skipped is None else ops.logical_or(fits, skipped)

    def _norms(self) -> Any:
        groups = [collector.seen["given"] for collector in self.collectors]
        sums = [keras.ops.cast(self._tensorflow.add_n([group[path] for group in groups if path in group]), "float32")
                for path in groups[0]]
        return norms_of(sums, self.collectors[0].seen.get("scale"))

    def _use_in_all(self, strategy: Any) -> None:
        self._is_applying = True
        try:
            strategy.extended.call_for_each_replica(self._as_it_is(lambda: self._waiting[self._number()]()))
        finally:
            self._is_applying = False

    # Within

    def _new_collector(self) -> Collector:
        whole = self.whole
        collector = Collector(whole.names, whole.wanted, whole.reach, self)
        collector.of_loop = whole.of_loop
        return collector

    def _between(self, function: Callable[[Any], Any]) -> Any:
        """Call a function once all replicas have arrived; return its result in each."""
        return self._tensorflow.distribute.get_replica_context().merge_call(self._as_it_is(function))

    def _as_it_is(self, function: Callable[..., Any]) -> Callable[..., Any]:
        unconverted: Callable[..., Any] = self._tensorflow.autograph.experimental.do_not_convert(function)
        return unconverted

    def _number(self) -> int:
        # Not in the graph: an additional operation would change TensorFlow's seeds of later ones.
        with self._tensorflow.init_scope():
            return int(self._tensorflow.distribute.get_replica_context().replica_id_in_sync_group)


class CombinedStep(SharedStep):
    """A step whose replicas share one collector."""

    def _new_collector(self) -> Collector:
        return self.whole


class SharedSteps:
    """The consecutive steps of one function that replicas call.

    Args:
        whole: Makes the collector of a step.
    """

    def __init__(self, whole: Callable[[], Collector]) -> None:
        self._whole = whole
        self._last: SharedStep | None = None

    def mine(self) -> tuple[SharedStep, Collector]:
        """Return the step that this replica starts, and its collector."""
        if self._last is None or self._last.has_begun():
            self._last = SharedStep(self._whole())
        collector = self._last.mine()
        if collector is None:
            raise AssertionError("This was called inside a MirroredStrategy replica.")
        return self._last, collector


def is_mirrored(strategy: Any) -> bool:
    """Return whether all replicas of a strategy are in this process, each with a thread."""
    tensorflow: Any = importlib.import_module("tensorflow")
    return isinstance(strategy, tensorflow.distribute.MirroredStrategy)


def values_of(value: Any) -> tuple[Any, ...]:
    """Return the value in each replica; empty if it is not a per-replica value."""
    if keras.backend.backend() != "tensorflow":
        return ()
    tensorflow: Any = importlib.import_module("tensorflow")
    return tuple(value.values) if isinstance(value, tensorflow.distribute.DistributedValues) else ()


def loss_of_all(parts: list[Seen]) -> Any:
    """Return the loss of a step from those of its replicas: the one that their summed gradients minimize.

    Numbers are summed: under a strategy each replica divides by the total. For losses with one number per sample, it is
    the mean over all samples.

    Args:
        parts: Collected values of each replica; each has a loss.
    """
    ops = keras.ops
    losses = ops.stack([part["loss"] for part in parts])
    if not all("samples" in part for part in parts):
        return ops.sum(losses)
    samples = ops.stack([ops.cast(part["samples"], losses.dtype) for part in parts])
    # A replica may have no samples.
    return ops.sum(ops.where(samples > 0, losses * samples, 0)) / ops.sum(samples)
