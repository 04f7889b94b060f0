"""Parses parameters of TensorBoard's hyperparameters plugin."""

from __future__ import annotations

from barograph.wire.protobuf import Field, bytes_of, fields_of, real_of, text_of, whole_of

Parameter = float | str | bool | None
"""A parameter as plain JSON data."""

START_TAG = "_hparams_/session_start_info"

_START_INFO, _PARAMETERS = 3, 1
_NUMBER, _TEXT, _FLAG = 2, 3, 4


def parameters_from_content(content: bytes) -> dict[str, Parameter]:
    """Return the parameters of a session; empty if the content is something else.

    Args:
        content: Metadata content of the value with tag `START_TAG`.

    Raises:
        DamagedSource: It is not such a message.
    """
    found: dict[str, Parameter] = {}
    for part in fields_of(memoryview(content)):
        if part.number == _START_INFO:
            for item in fields_of(bytes_of(part)):
                if item.number == _PARAMETERS:
                    name, value = _entry(item)
                    found[name] = value
    return found


def _entry(item: Field) -> tuple[str, Parameter]:
    name, value = "", None
    for part in fields_of(bytes_of(item)):
        if part.number == 1:
            name = text_of(part)
        elif part.number == 2:
            value = _value(bytes_of(part))
    return name, value


def _value(message: memoryview) -> Parameter:
    value: Parameter = None
    for part in fields_of(message):
        if part.number == _NUMBER:
            value = real_of(part)
        elif part.number == _TEXT:
            value = text_of(part)
        elif part.number == _FLAG:
            value = bool(whole_of(part))
    return value
