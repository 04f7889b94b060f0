"""A recording whose steps land in a list: the real session and integration, without a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from barograph.capture.session import Session
from barograph.capture.this_worker import Rank
from barograph.capture.torch.integration import TorchIntegration
from barograph.capture.torch.unpacking import Unpacker
from barograph.measures.summary import summary_from_row
from barograph.model.clock import Clock
from barograph.model.key import Key, key_from_text
from barograph.model.manifest import Coverage, EndState, Heartbeat
from barograph.model.recorder import RecorderSettings
from barograph.model.records import StepRecords, UnitSummaries
from barograph.model.selection import Selection
from barograph.model.settings import Settings
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.runs.format.tensors import array_from_raw
from capture_writer import ListWriter


class Tape:
    """What was recorded, for tests to read."""

    def __init__(self, session: Session, integration: TorchIntegration, writer: ListWriter) -> None:
        self.session, self.integration, self.writer = session, integration, writer

    def set_mode(self, mode: Mode | None) -> None:
        self.integration.mode_changes(mode)
        self.session.script.set_mode(mode)

    def close(self) -> None:
        self.session.close(EndState.FINISHED)
        self.integration.remove()

    def steps(self, mode: Mode = Mode.TRAIN, optimizer: str | None = None) -> list[StepRecords]:
        self.session.publish_collected()
        return [
            records for records in self.writer.steps
            if records.step.mode is mode and optimizer in (None, records.step.optimizer)
        ]

    def numbers(self, mode: Mode = Mode.TRAIN, optimizer: str | None = None) -> list[int]:
        return [records.step.number for records in self.steps(mode, optimizer)]

    def summaries(self, records: StepRecords) -> dict[str, Summary]:
        return {
            str(subject.key): summary_from_row(
                records.moments[row], None if records.exponents is None else records.exponents[row]
            )
            for row, subject in enumerate(records.subjects)
            if records.moments is not None and records.moments[row, 0]
        }

    def names(self, at: int = -1, mode: Mode = Mode.TRAIN, kind: str = "") -> list[str]:
        records = self.steps(mode)[at]
        names = [*self.summaries(records), *(str(key) for key in records.scalars)]
        return [name for name in names if name.startswith(kind)]

    def summary(self, key: str, at: int = -1, mode: Mode = Mode.TRAIN) -> Summary:
        return self.summaries(self.steps(mode)[at])[key]

    def units(self, key: str, at: int = -1) -> UnitSummaries:
        records = self.steps()[at]
        row = [str(subject.key) for subject in records.subjects].index(key)
        return records.units[row]

    def scalar(self, key: str, at: int = -1, mode: Mode = Mode.TRAIN) -> float:
        scalars: dict[Key, float] = dict(self.steps(mode)[at].scalars)
        return scalars[key_from_text(key)]

    @property
    def coverage(self) -> Coverage:
        return self.session.status().coverage


@pytest.fixture
def record() -> Iterator[Callable[..., Tape]]:
    """Start recordings that raise every error of ours; whatever is open at the end is taken out."""
    tapes: list[Tape] = []

    def start(
        *, needs: tuple[Selection, ...] = (), only: bool = False, explicit_steps: bool = False, installed: bool = True,
        clock: Clock | None = None, **settings: Any,
    ) -> Tape:
        writer = ListWriter()

        def open_writer(rank: Rank, status: Callable[[], Heartbeat]) -> Any:
            return writer

        wanted = Settings(**{"strict": True, "budget": None, "preset": "moments", **settings})
        session = Session(wanted, needs, open_writer, clock=clock)
        integration = TorchIntegration(session, only=only, explicit_steps=explicit_steps)
        if installed:
            integration.install()
        tapes.append(Tape(session, integration, writer))
        return tapes[-1]

    torch.manual_seed(0)
    yield start
    for tape in tapes:
        tape.close()


class Saved(list):
    """Capsules as they were handed over."""

    def write(self, head, content, tensors, pickled):
        self.append((head, content, {name: array_from_raw(item) for name, item in tensors.items()}, pickled))
        return "there"

    def value(self, *path, at=-1):
        _, content, tensors, _ = self[at]
        for part in path:
            content = content[part]
        return Unpacker(tensors, "capsule").unpack(content)


@pytest.fixture
def hold(record):
    def start(strict=True, **settings):
        tape = record(recorder=RecorderSettings(**settings), preset="moments", strict=strict)
        tape.saved = Saved()
        tape.session.worker.write_capsule = tape.saved.write
        return tape

    return start


@pytest.fixture
def unoptimized(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have JAX compile without optimizations, in a quarter of the time: for tests of what a program is found to do.

    Not for those that compare bits.
    """
    import jax
    from jax._src import compiler

    made = compiler.get_compile_options

    def options(*arguments: Any, **named: Any) -> Any:
        found = made(*arguments, **named)
        # The emitters of fused operations generate several times the code of the others.
        found.env_option_overrides = [*found.env_option_overrides, ("xla_cpu_use_fusion_emitters", False)]
        return found

    monkeypatch.setattr(compiler, "get_compile_options", options)
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def unoptimized_but_bits(request: pytest.FixtureRequest) -> None:
    """The same for the suite of every integration, except for its tests that compare the bits of two programs."""
    if not any(part in request.node.name for part in ("same_bits", "an_error_of_ours", "under_a_budget")):
        request.getfixturevalue("unoptimized")
        return
    import jax

    jax.clear_caches()  # a step of the module may have been compiled by another test
