"""JSON Schema of the responses, from their dataclasses."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

NUMBER: Mapping[str, Any] = {"$ref": "#/$defs/Value"}
"""A float: JSON has no NaN and no infinities, see `model.plain`."""

_VALUE: Mapping[str, Any] = {
    "description": 'A number: null is NaN or missing; "inf" and "-inf" are infinities.',
    "anyOf": [{"type": "number"}, {"type": "string", "enum": ["inf", "-inf"]}, {"type": "null"}],
}
Finite = NewType("Finite", float)
"""A float that is never NaN or infinite."""

_SIMPLE: Mapping[Any, Mapping[str, Any]] = {
    float: NUMBER, Finite: {"type": "number"}, int: {"type": "integer"}, bool: {"type": "boolean"},
    str: {"type": "string"}, type(None): {"type": "null"}, Any: {}, object: {},
}


@dataclass(frozen=True, slots=True)
class Shape:
    """A dataclass whose `to_json` does not write each field as it is.

    Attributes:
        of: The dataclass.
        changed: Types of the fields that are added or written otherwise, by name.
        left_out: Fields that are not written.
        optional: Fields that are written only if they are not empty.
    """

    of: type
    changed: Mapping[str, Any] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()


def schema_of(shapes: Mapping[str, type | Shape]) -> dict[str, Any]:
    """Return a JSON Schema that defines each of `shapes`, and every dataclass and enumeration in them, by name."""
    return _Definitions(shapes).whole()


class _Definitions:
    def __init__(self, shapes: Mapping[str, type | Shape]) -> None:
        self._shapes = {name: shape if isinstance(shape, Shape) else Shape(shape) for name, shape in shapes.items()}
        self._names: dict[Any, str] = {shape.of: name for name, shape in self._shapes.items()}
        self._found: dict[str, Any] = {"Value": _VALUE}

    def whole(self) -> dict[str, Any]:
        for shape in self._shapes.values():
            self._of(shape.of)
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": dict(sorted(self._found.items()))}

    def _of(self, kind: Any) -> Mapping[str, Any]:
        if kind in _SIMPLE:
            return _SIMPLE[kind]
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            kinds = [item for item in arguments if float not in arguments or item not in (int, type(None))]
            options = [self._of(item) for item in kinds]
            return options[0] if len(options) == 1 else {"anyOf": options}
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
            return {"type": "array", "prefixItems": [self._of(item) for item in arguments], "items": False,
                    "minItems": len(arguments)}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            one_of_few = isinstance(arguments[0], type) and issubclass(arguments[0], Enum)
            return {"type": "object", "additionalProperties": self._of(arguments[1]),
                    **({"propertyNames": self._of(arguments[0])} if one_of_few else {})}
        if isinstance(origin, type) and issubclass(origin, Iterable):
            return {"type": "array", "items": self._of(arguments[0])}
        return self._named(kind)

    def _named(self, kind: Any) -> Mapping[str, Any]:
        name = self._names.setdefault(kind, kind.__name__)
        if name not in self._found:
            self._found[name] = {}  # it may contain itself
            self._found[name] = self._definition(kind, self._shapes.get(name, Shape(kind)))
        return {"$ref": f"#/$defs/{name}"}

    def _definition(self, kind: Any, shape: Shape) -> dict[str, Any]:
        what = (kind.__doc__ or "").partition("\n")[0]
        if issubclass(kind, Enum):
            return {"description": what, "enum": [item.value for item in kind]}
        hints = get_type_hints(kind)
        parts = {item.name: hints[item.name] for item in fields(kind) if item.name not in shape.left_out}
        properties = {part: self._of(kind) for part, kind in {**parts, **shape.changed}.items()}
        required = [part for part in properties if part not in shape.optional]
        return {"description": what, "type": "object", "properties": properties, "required": required,
                "additionalProperties": False}
