"""A store in memory for each test, and small rules that judge one number."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import pytest

from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Selection
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.runs.view import StepView
from barograph.store.base import Store
from barograph.store.urls import store_from_url

LOSS = Key(Kind.LOSS, "total")


@pytest.fixture
def store() -> Store:
    return store_from_url(f"memory://watch-{secrets.token_hex(8)}")


@pytest.fixture
def high() -> type[Rule]:
    return High


@pytest.fixture
def raises() -> type[Rule]:
    return Raises


@dataclass(frozen=True, kw_only=True)
class High(Rule):
    """X901: The loss is high."""

    code: ClassVar[str] = "X901"
    name: ClassVar[str] = "high"
    severity: ClassVar[Severity] = Severity.COSTLY
    needs = (Selection(kinds=frozenset({Kind.LOSS})),)

    threshold: float = parameter(1.0, "Highest loss that is let pass.")

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        loss = view.scalar(LOSS)
        if loss is None:
            yield Unjudged("no total loss")
            return
        memory["seen"] = memory.get("seen", 0) + 1
        if loss > self.threshold:
            evidence = Evidence(LOSS, view.step.number, "value", loss, self.threshold, f"call {memory['seen']}")
            yield Symptom(f"The loss is {loss:g}.", "Lower it.", (evidence,))


class Raises(High):
    """X902: Raises at step 2."""

    code = "X902"
    name = "raises"
    severity = Severity.BREAKING

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.number == 2:
            raise ZeroDivisionError("by design")
        return super().judge(view, memory)
