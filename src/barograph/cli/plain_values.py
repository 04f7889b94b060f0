"""Options without a value, and strings, are taken as they are: Typer loads Pydantic to do the same, in 0.1 s."""

from __future__ import annotations

from typing import Any


class PlainValue:
    """Converts the value of one parameter as Typer does. It leaves to Typer all that is neither absent nor a string."""

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """Return the value of the annotated type.

        Args:
            value: From the command line.
            param: The parameter, of Typer.
            ctx: The command that is parsed.
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
    """Let a command take strings as they are. Nothing changes with a Typer that does not load Pydantic."""
    for parameter in command.get_params(ctx):
        if getattr(parameter, "_runtime_param", "") is None and hasattr(parameter, "get_runtime_param"):
            parameter._runtime_param = PlainValue()
