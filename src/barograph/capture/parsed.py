"""What parsers of command lines made of the script's: every option with its value, the defaults that nobody typed too.

Heard are `argparse`, and `click` with what is built on it (`typer`): the method by which they hand over what they have
parsed is called by one of ours. Only what comes of this process's own command line counts. Nothing is changed in it.
"""

from __future__ import annotations

import enum
import functools
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from barograph.capture.imports import after_import, forget
from barograph.model.origin import Option, Parameter

_MOST_OPTIONS = 1000
_LONGEST_TEXT = 10_000
_MOST_VALUES = 1000


class Parsed:
    """Hears of what is parsed, until `stop`.

    Attributes:
        options: Name to option, as the parser calls it.
    """

    def __init__(self) -> None:
        self.options: dict[str, Option] = {}
        self._listens = True
        self._undo: list[Callable[[], None]] = []
        self._waiting: list[Callable[[], None]] = []
        for module, wrap in (("argparse", self._hear_argparse), ("click.core", self._hear_click),
                             ("typer._click.core", self._hear_click)):
            action = functools.partial(wrap, module)
            self._waiting.append(action)
            after_import(module, action)

    def stop(self) -> None:
        """Leave nothing behind. Where somebody has put something on top of ours, ours stays as a plain passage."""
        self._listens = False
        while self._waiting:
            forget(self._waiting.pop())
        while self._undo:
            self._undo.pop()()

    def _hear_argparse(self, module: str) -> None:
        parser = sys.modules[module].ArgumentParser
        original = parser.parse_known_args

        @functools.wraps(original)
        def parse_known_args(self_: Any, args: Any = None, namespace: Any = None) -> Any:
            found = original(self_, args, namespace)
            if self._listens and (args is None or (isinstance(args, list) and args == sys.argv[1:])):
                self._note(lambda: _of_argparse(self_, found[0]))
            return found

        self._put(parser, "parse_known_args", parse_known_args)

    def _hear_click(self, module: str) -> None:
        context = sys.modules[module].Context
        original = context.invoke

        @functools.wraps(original)
        def invoke(self_: Any, callback: Any, /, *args: Any, **kwargs: Any) -> Any:
            if self._listens and callback is getattr(self_.command, "callback", None):
                self._note(lambda: _of_click(self_))
            return original(self_, callback, *args, **kwargs)

        self._put(context, "invoke", invoke)

    def _put(self, owner: Any, name: str, ours: Callable[..., Any]) -> None:
        original = vars(owner)[name]
        setattr(owner, name, ours)

        def put_back() -> None:
            if vars(owner).get(name) is ours:
                setattr(owner, name, original)

        self._undo.append(put_back)

    def _note(self, look: Callable[[], Iterable[tuple[str, Any, Iterable[str]]]]) -> None:
        try:
            for name, value, flags in look():
                plain = plain_value(value)
                if plain is not None and (name in self.options or len(self.options) < _MOST_OPTIONS):
                    self.options[name] = Option(plain, tuple(flags))
        except Exception:  # noqa: BLE001 - a parser of somebody's own may be anything; what it said is handed over
            self._listens = False


def plain_value(value: Any) -> Parameter | None:
    """Return the value of an option as it is kept; None where it is nothing, or no plain value.

    Example:
        >>> [plain_value(value) for value in (0.1, ("a", 2), None, object(), float("inf"))]
        [0.1, ['a', 2], None, None, 'inf']
    """
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str(value)[:_LONGEST_TEXT]
    if isinstance(value, list | tuple) and len(value) <= _MOST_VALUES:
        values = [plain_value(item) for item in value]
        return None if any(item is None for item in values) else values
    return None


def _of_argparse(parser: Any, namespace: Any) -> Iterator[tuple[str, Any, list[str]]]:
    flags = dict(_flags_of_argparse(parser))
    for name, value in vars(namespace).items():
        yield name, value, flags.get(name, [])


def _flags_of_argparse(parser: Any) -> Iterator[tuple[str, list[str]]]:
    for action in parser._actions:
        if isinstance(action.choices, Mapping):  # commands below it, each with a parser of its own
            for below in action.choices.values():
                if hasattr(below, "_actions"):
                    yield from _flags_of_argparse(below)
        yield action.dest, list(action.option_strings)


def _of_click(context: Any) -> Iterator[tuple[str, Any, list[str]]]:
    flags = {item.name: [*item.opts, *item.secondary_opts] if item.param_type_name == "option" else []
             for item in context.command.params}
    for name, value in context.params.items():
        yield name, value, flags.get(name, [])
