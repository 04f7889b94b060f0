"""The types of the answers: what the page was compiled with is what the server sends."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from answer_types import SCHEMA, problems_of
from barograph.model.cause import Suspicion
from barograph.model.finding import Evidence
from barograph.model.key import key_from_text
from barograph.model.plain import plain
from barograph.queries.problems import problems_of as grouped
from barograph.web.questions import QUESTIONS
from barograph.web.schema import Shape, schema_of

LISTS = {"curves": "Line", "layers": "Layer", "output": "Output", "numbers": "Number"}
NAMES = {"run": "Run", "heat": "Heat", "step": "StepAround", "distributions": "Distributions", "time": "Time",
         "data": "Data", "origin": "RunOrigin"}


def page_types() -> Any:
    place = Path(__file__).resolve().parents[2] / "building" / "page_types.py"
    spec = importlib.util.spec_from_file_location("page_types", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_types_of_the_page_are_those_of_the_dataclasses() -> None:
    module = page_types()

    assert module.FILE.read_text(encoding="utf-8") == module.types_of(SCHEMA), "run: python building/page_types.py"


@pytest.mark.parametrize("question", sorted({*NAMES, *LISTS} & set(QUESTIONS)))
def test_an_answer_is_what_its_type_says(client: Any, question: str) -> None:
    answer = client.get(f"/api/{question}?run=0/group/second&step=1&name=loss").json
    parts = answer if question in LISTS else [answer]

    assert [problems_of(part, {**NAMES, **LISTS}[question]) for part in parts] == [[] for _ in parts]


@pytest.mark.parametrize(("address", "name"), [
    ("roots", "Roots"), ("search?q=", "Search"),
    ("bands?run=0/first&group=0&name=loss", "Bands"), ("grouping?run=0/first&by=trial", "Grouping"),
])
def test_a_list_is_what_its_type_says(client: Any, address: str, name: str) -> None:
    assert problems_of(client.get(f"/api/{address}").json, name) == []


def test_problems_and_findings_are_what_their_types_say(finding: Callable[..., Any]) -> None:
    evidence = Evidence(key_from_text("gradient:fc.weight"), 3, "norm", math.inf, math.nan)
    found = finding(evidence=(evidence,), causes=(Suspicion("learning-rate-too-high", 0.9),),
                    remedy="Lower the learning rate from 30 to 3.")

    assert problems_of(plain(found.to_json()), "Finding") == []
    assert [problems_of(plain(item.to_json()), "Problem") for item in grouped([found])] == [[]]


def test_the_schema_of_the_answers_can_be_asked_for(client: Any) -> None:
    answer = client.get("/api/schema").json

    Draft202012Validator.check_schema(answer)
    assert answer["$defs"]["Line"]["properties"]["steps"] == {"type": "array", "items": {"type": "integer"}}


@dataclass(frozen=True)
class Inner:
    """An inner value."""

    size: float | None


@dataclass(frozen=True)
class Outer:
    """An outer value."""

    inner: Inner
    pair: tuple[int, str]
    by_name: Mapping[str, tuple[Inner, ...]]
    hidden: bytes = b""


def test_a_field_that_is_written_otherwise_is_described_as_it_is_written() -> None:
    schema = schema_of({"Whole": Shape(Outer, {"extra": str}, frozenset({"hidden"}))})

    assert schema["$defs"]["Whole"]["required"] == ["inner", "pair", "by_name", "extra"]
    assert page_types().types_of(schema).endswith(
        "/** An outer value. */\nexport type Whole = {\n  inner: Inner;\n  pair: [number, string];\n"
        "  by_name: Record<string, Inner[]>;\n  extra: string;\n};\n")
