"""Whether an answer is what its type says."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator

from barograph.web.schema import schema_of
from barograph.web.shapes import SHAPES

SCHEMA = schema_of(SHAPES)


def problems_of(answer: Any, name: str) -> list[str]:
    validator = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(answer)]
