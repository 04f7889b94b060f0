"""Handles steps whose update was withheld, for any framework: saves, counts, and stops or continues."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.capture.array_read import raw_array
from barograph.capture.integrations import versions
from barograph.capture.script import script_now
from barograph.capture.termination import finished_first
from barograph.capture.verdict import Verdict
from barograph.model.capsule import CapsuleHead
from barograph.model.recorder import STOP, RecorderSettings, function_name
from barograph.model.tensor import RawTensor

if TYPE_CHECKING:
    from barograph.capture.session import Session


@dataclass
class Packed:
    """A step as plain data: JSON, and the tensors it refers to."""

    content: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, RawTensor] = field(default_factory=dict)

    def put(self, group: str, arrays: Mapping[str, Any]) -> None:
        """Add arrays to a group of the content by their paths, with their tensors."""
        entries: dict[str, Any] = {}
        for path, value in arrays.items():
            name = f"{group}/{path}"
            self.tensors[name] = raw_array(np.ascontiguousarray(np.asarray(value)).reshape(np.shape(value)))
            entries[path] = {"array": name}
        self.content[group] = entries


class HeldSteps:
    """Counts and saves steps whose update was withheld.

    Args:
        session: Writes capsules and stops the training.
        settings: What to do with such steps.
    """

    def __init__(self, session: Session, settings: RecorderSettings) -> None:
        self.settings = settings
        self._session = session
        self._held = 0

    def hold(self, verdict: Verdict, step: int, write: Callable[[], str], *, could_not: str = "") -> None:
        """Save a step and report it; stop the training if configured. An error of ours never lets the update pass.

        Args:
            verdict: Why it was withheld.
            step: Its number.
            write: Saves it and returns its location as the end of a sentence: `saved` or `save`.
            could_not: Why its update could not be withheld; "": it was.
        """
        try:
            # Other workers may have stopped already, and their launcher then ends this one.
            with finished_first():
                place = write()
        except Exception as error:  # noqa: BLE001 - the update is withheld even if saving fails
            self._session.guard.caught(error, "saving a capsule")
            place = f"; saving a capsule failed: {type(error).__name__}: {error}"
        self._held += 1
        done = f"was applied: it could not be withheld ({could_not})" if could_not else "was withheld"
        text = f"{verdict.text} The update of step {step} {done}{place}"
        if self.settings.then == STOP or self._held > self.settings.at_most:
            # Always report a withheld step, so that the user knows of it.
            self._session.steering.request_stop(text, again=True)
        else:
            self._session.guard.report(text.removesuffix("."))

    def save(
        self, verdict: Verdict, step: int, packed: Packed, *, label: str = "", later: int = 0, withheld: bool = True
    ) -> str:
        """Save a step with the state of this process; return its location as the end of a sentence.

        Args:
            verdict: Why it was withheld.
            step: Its number.
            packed: Its content.
            label: Label of its optimizer.
            later: Number of earlier steps of the current call that are not reported yet.
            withheld: Its update was not made.
        """
        session = self._session
        index, size = session.worker.rank
        head = CapsuleHead(session.worker.attempt, "", session.counts.tick + later, step, label, verdict.held,
                           verdict.text, session.clock.unix(), withheld=withheld, numbers=verdict.numbers)
        content = {
            "versions": {"python": sys.version.split()[0], **versions()},
            "machine": {"rank": index, "world_size": size, "processor": platform.machine(), "devices": []},
            "when": None if self.settings.when is None else function_name(self.settings.when),
            **packed.content,
        }
        return saved(session, head, content, packed.tensors)


def saved(
    session: Session, head: CapsuleHead, content: Mapping[str, Any], tensors: Mapping[str, RawTensor],
    pickled: bytes | None = None,
) -> str:
    """Write a capsule with the current script; return its location as the end of a sentence.

    Args:
        session: The session.
        head: Its step, and the reason.
        content: Its content without the script.
        tensors: Tensors by their names in the content.
        pickled: Pickled objects.
    """
    if session.worker.write_capsule is None:
        return "; no capsule was saved: this framework's steps cannot be saved."
    place = session.worker.write_capsule(head, {**content, "script": script_now()}, tensors, pickled)
    return f". The capsule is in {place}."
