"""The number of parameters and modules of a training, and which of them were recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from barograph.capture.session import Session
from barograph.capture.torch.names import COMPILED_REASON, ModelNames, ParameterName, is_compiled
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.model.key import Key, Kind

_NAMED_IN_A_REASON = 3


class ParameterCoverage:
    """Keeps the coverage of a session up to date.

    Args:
        session: Has the coverage.
        names: The models.
        optimizers: Optimizers of the script.
    """

    def __init__(self, session: Session, names: ModelNames, optimizers: OptimizerBook) -> None:
        self._session = session
        self._names = names
        self._optimizers = optimizers
        self._counted = (0, 0, 0, 0)

    def _trained_roots(self) -> set[int]:
        """Return the models with parameters in an optimizer, which excludes a teacher or an average."""
        names = (self._names.parameter(slot.parameter) for entry in self._optimizers for slot in entry.slots)
        return {id(name.root) for name in names if name is not None}

    def trainable(self) -> Iterator[tuple[torch.Tensor, ParameterName]]:
        """Yield the trainable parameters of the models that are trained; without optimizers, of all."""
        roots = self._trained_roots()
        return (item for item in self._names.trainable() if not roots or id(item[1].root) in roots)

    def update(self) -> None:
        """Update the coverage: the numbers of trainable parameters and leaf modules.

        Only after a change: visiting all names at every step would cost more than reading tensors.
        """
        seen = self._session.seen
        now = (len(seen.weights), len(seen.gradients), len(seen.outputs), len(self._names.roots))
        if now == self._counted:
            return
        self._counted = now
        trainable = {self._names.path(name.root, name.path): name.layer for _, name in self.trainable()}
        for entry in self._optimizers:
            trainable.update((slot.path, slot.layer) for slot in entry.slots if slot.parameter.requires_grad)
        # Parameters without elements on this worker are recorded by the others.
        for slot in (slot for entry in self._optimizers for slot in entry.slots if slot.is_elsewhere):
            trainable.pop(slot.path, None)
        seen.count_parameters(len(trainable.keys() | seen.weights))
        self._name_those_without_gradient(trainable)
        roots = self._trained_roots()
        leaves = {
            self._names.path(name.root, name.path) or "model"
            for name in self._names.leaves()
            if not roots or id(name.root) in roots
        }
        seen.count_modules(len(leaves | seen.outputs))
        missing = sorted(leaves - seen.outputs)
        if any(is_compiled(module) for root in self._names.roots if (module := root.module()) is not None):
            seen.reasons["compiled"] = COMPILED_REASON
        elif missing and self._session.plan.asks(Kind.OUTPUT):
            seen.reasons["not called"] = (
                f"{len(missing)} of {len(leaves)} leaf modules never ran in training: {_some(missing)}"
            )
        else:
            seen.reasons.pop("not called", None)

    def _name_those_without_gradient(self, trainable: Mapping[str, str]) -> None:
        """Add trainable parameters to the coverage that never had a gradient although others had one.

        Args:
            trainable: Path to the class of the module that contains it.
        """
        session, everything = self._session, self._session.plan.everything()
        paths = sorted(
            path for path in (trainable.keys() & session.seen.weights) - session.seen.gradients
            if session.plan.taking(everything, Key(Kind.GRADIENT, path), trainable[path]) is not None
        )
        if paths and session.seen.gradients:
            which = "1 trainable parameter" if len(paths) == 1 else f"{len(paths)} trainable parameters"
            session.seen.reasons["no gradient"] = f"no gradient for {which}: {_some(paths)}"
        else:
            session.seen.reasons.pop("no gradient", None)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED_IN_A_REASON]) + (", …" if len(names) > _NAMED_IN_A_REASON else "")
