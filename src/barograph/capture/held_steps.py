"""What is done about steps whose update was withheld, whatever the framework: saved, counted, and stopped or passed."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.capture.array_read import raw_array
from barograph.capture.doors import versions
from barograph.capture.script import script_now
from barograph.capture.verdict import Verdict
from barograph.model.capsule import CapsuleHead
from barograph.model.recorder import STOP, RecorderSettings
from barograph.model.tensor import RawTensor

if TYPE_CHECKING:
    from barograph.capture.session import Session


@dataclass
class Packed:
    """A step in plain data: JSON, and the tensors that it names."""

    content: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, RawTensor] = field(default_factory=dict)

    def put(self, group: str, arrays: Mapping[str, Any]) -> None:
        """Put arrays under their paths into a group of the content, and themselves beside it."""
        said: dict[str, Any] = {}
        for path, value in arrays.items():
            name = f"{group}/{path}"
            self.tensors[name] = raw_array(np.ascontiguousarray(np.asarray(value)).reshape(np.shape(value)))
            said[path] = {"array": name}
        self.content[group] = said


class HeldSteps:
    """Counts them, and has them saved.

    Args:
        session: Writes capsules, and is asked to stop.
        settings: What is done.
    """

    def __init__(self, session: Session, settings: RecorderSettings) -> None:
        self.settings = settings
        self._session = session
        self._held = 0

    def hold(self, verdict: Verdict, label: str, step: int, pack: Callable[[], Packed]) -> None:
        """Save a step and say so; ask the training to stop where that is set. An error of ours lets nothing pass.

        Args:
            verdict: Why it was held.
            label: Of its optimizer.
            step: Its number.
            pack: Returns what it was made of.
        """
        try:
            place = self._write(verdict, label, step, pack())
        except Exception as error:  # noqa: BLE001 - a batch may be anything; what cannot be saved is withheld all the same
            self._session.guard.caught(error, "saving a capsule")
            place = f"; no capsule could be saved: {type(error).__name__}: {error}"
        self._held += 1
        text = f"{verdict.text} The update of step {step} was withheld{place}"
        if self.settings.then == STOP or self._held > self.settings.at_most:
            self._session.request_stop(text)
        else:
            self._session.guard.report(text.removesuffix("."))

    def _write(self, verdict: Verdict, label: str, step: int, packed: Packed) -> str:
        session = self._session
        if session.write_capsule is None:
            return "; no capsule was saved: nothing here knows how."
        index, size = session.rank
        head = CapsuleHead(session.attempt, "", session.tick, step, label, verdict.held, verdict.text,
                           session.clock.unix(), numbers=verdict.numbers)
        content = {
            **packed.content, "script": script_now(),
            "versions": {"python": sys.version.split()[0], **versions()},
            "machine": {"rank": index, "world_size": size, "processor": platform.machine(), "devices": []},
        }
        return f". All that it was made of is in {session.write_capsule(head, content, packed.tensors, None)}."
