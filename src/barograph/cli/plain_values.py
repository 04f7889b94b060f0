"""Converts absent options and strings without Typer's converter, which takes 0.1 s to load Pydantic."""

from __future__ import annotations

from typing import Any


class PlainValue:
    """Converts the value of one parameter as Typer does. Leaves values other than None and strings to Typer."""

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """Return the value converted to the annotated type.

        Args:
            value: Value from the command line.
            param: Typer's parameter.
            ctx: Context of the command.
        """
        kind = param.type_descriptor.annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if param.type_descriptor.parameter_info.parser is None:
            if kind is str and isinstance(value, str):
                return value
            if kind == list[str] and isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
                return list(value)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def take_plain_values(command: Any, ctx: Any) -> None:
    """Use plain conversion for a command. No effect with a Typer version that does not load Pydantic."""
    for parameter in command.get_params(ctx):
        if getattr(parameter, "_runtime_param", "") is None and hasattr(parameter, "get_runtime_param"):
            parameter._runtime_param = PlainValue()
