"""The flight recorder: keeps the step under way, looks at it before the update, and holds and saves one that fails."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import torch

from barograph.capture.session import Session
from barograph.capture.torch_capsule import content_of
from barograph.capture.torch_gate import Gate, Verdict
from barograph.capture.torch_kept import Keeper
from barograph.capture.torch_names import ModelNames, Root
from barograph.capture.torch_optimizers import Entry, OptimizerBook
from barograph.capture.torch_packing import Packer
from barograph.model.capsule import CapsuleHead
from barograph.model.recorder import STOP, RecorderSettings


class TorchRecorder:
    """Holds the update of a step that fails.

    Args:
        session: Whose training; it writes capsules and is asked to stop.
        names: The models.
        optimizers: Of the script.
        settings: What is held, and what is done then.
    """

    def __init__(
        self, session: Session, names: ModelNames, optimizers: OptimizerBook, settings: RecorderSettings
    ) -> None:
        self._session = session
        self._names = names
        self._optimizers = optimizers
        self._settings = settings
        self._gate = Gate(settings)
        self._held = 0
        self.keeper = Keeper(names)

    def forward_begins(self, root: Root) -> None:
        """Keep how everything stands before a model is called in training."""
        self.keeper.forward_begins(root)

    def backward_begins(self, tensors: Any) -> None:
        """Keep what a backward pass starts from."""
        self.keeper.backward_begins(tensors, (parameter for parameter, _ in self._names.trainable()))

    def before_update(
        self, entry: Entry, optimizer: Any, *, closure: bool, scaler: Any, schedulers: Iterable[Any]
    ) -> bool:
        """Look at the gradients that an optimizer is about to use; save the step where they are not fit.

        Args:
            entry: Of the optimizer.
            optimizer: It.
            closure: It computes its gradients within its step.
            scaler: Of gradients; None where there is none.
            schedulers: Those that have stepped.

        Returns:
            Whether the update is to be withheld.
        """
        if closure:
            self._session.guard.note("The flight recorder cannot look at gradients that are computed within the "
                                     "optimizer's step (a closure) before they are used.")
            return False
        if self._scaler_skips(optimizer):
            return False
        losses = [float(root.double().mean()) for root in self.keeper.kept.roots if root.device.type == "cpu"]
        verdict = self._gate.looks(entry.slots, losses)
        if verdict is None:
            return False
        place = self._save(verdict, entry, scaler, schedulers)
        self._held += 1
        text = f"{verdict.text} The update of step {self._session.made(entry.label)} was withheld{place}"
        if self._settings.then == STOP or self._held > self._settings.at_most:
            self._session.request_stop(text)
        else:
            self._session.guard.report(text.removesuffix("."))
        return True

    def step_ended(self) -> None:
        """Let go of the step."""
        self.keeper.step_ended()

    @staticmethod
    def _scaler_skips(optimizer: Any) -> bool:
        """Return whether a gradient scaler has left it to a fused optimizer to skip this step: that is no failure."""
        found_inf = getattr(optimizer, "found_inf", None)
        return found_inf is not None and bool(found_inf)

    def _save(self, verdict: Verdict, entry: Entry, scaler: Any, schedulers: Iterable[Any]) -> str:
        """Write a capsule; return where, as the end of a sentence. An error of ours never lets the update pass."""
        session = self._session
        if session.write_capsule is None:
            return "; no capsule was saved: nothing here knows how."
        packer = Packer(keeps_apart=True, takes_shards=True)
        try:
            with torch.no_grad():
                content = content_of(self.keeper.kept, self._names, self._optimizers, entry, packer, scaler=scaler,
                                     schedulers=list(schedulers), rank=session.rank)
            pickled = pickle.dumps(packer.apart) if packer.apart and self._settings.pickle else None
            head = CapsuleHead(
                session.attempt, "", session.tick, session.made(entry.label), entry.label, verdict.held, verdict.text,
                session.clock.unix(), numbers=verdict.numbers,
            )
            place = session.write_capsule(head, content, packer.tensors, pickled)
        except Exception as error:  # noqa: BLE001 - a batch may be anything; what cannot be saved is withheld all the same
            session.guard.caught(error, "saving a capsule")
            return f"; no capsule could be saved: {type(error).__name__}: {error}"
        return f". All that it was made of is in {place}."
