"""The options that command-line parsers produced, including defaults.

Supports `argparse`, `click` and libraries based on it (`typer`), `absl.flags` and Hydra: the function that returns
their results is wrapped. Only results from this process's own command line count. They are not changed.
"""

from __future__ import annotations

import enum
import functools
import math
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from barograph.capture.imports import after_import, forget
from barograph.capture.parsers import of_absl, of_argparse, of_click, of_hydra
from barograph.model.origin import Option, Parameter

_MOST_OPTIONS = 1000
_LONGEST_TEXT = 10_000
_MOST_VALUES = 1000


class Parsed:
    """Records parsed options, until `stop`.

    Attributes:
        options: Options by the parser's name.
    """

    def __init__(self) -> None:
        self.options: dict[str, Option] = {}
        self._listens = True
        self._undo: list[Callable[[], None]] = []
        self._waiting: list[Callable[[], None]] = []
        for module, wrap in (("argparse", self._observe_argparse), ("click.core", self._observe_click),
                             ("typer._click.core", self._observe_click), ("absl.flags._flagvalues", self._observe_absl),
                             ("hydra.core.utils", self._observe_hydra)):
            action = functools.partial(wrap, module)
            self._waiting.append(action)
            after_import(module, action)

    def stop(self) -> None:
        """Remove the wrappers. If another wrapper was installed over ours, ours stays but does nothing."""
        self._listens = False
        while self._waiting:
            forget(self._waiting.pop())
        while self._undo:
            self._undo.pop()()

    def _observe_argparse(self, module: str) -> None:
        parser = sys.modules[module].ArgumentParser
        original = parser.parse_known_args

        @functools.wraps(original)
        def parse_known_args(self_: Any, args: Any = None, namespace: Any = None) -> Any:
            found = original(self_, args, namespace)
            if self._listens and (args is None or (isinstance(args, list) and args == sys.argv[1:])):
                self._note(lambda: of_argparse(self_, found[0]))
            return found

        self._put(parser, "parse_known_args", parse_known_args)

    def _observe_click(self, module: str) -> None:
        context = sys.modules[module].Context
        original = context.invoke

        @functools.wraps(original)
        def invoke(self_: Any, callback: Any, /, *args: Any, **kwargs: Any) -> Any:
            if self._listens and callback is getattr(self_.command, "callback", None):
                self._note(lambda: of_click(self_))
            return original(self_, callback, *args, **kwargs)

        self._put(context, "invoke", invoke)

    def _observe_absl(self, module: str) -> None:
        values = sys.modules[module].FlagValues
        original = values.__call__

        @functools.wraps(original)
        def call(self_: Any, argv: Any, *args: Any, **kwargs: Any) -> Any:
            is_own = list(argv) == sys.argv  # before parsing, which may change it
            found = original(self_, argv, *args, **kwargs)
            if self._listens and is_own:
                self._note(lambda: of_absl(self_))
            return found

        self._put(values, "__call__", call)

    def _observe_hydra(self, module: str) -> None:
        utils = sys.modules[module]
        original = utils.run_job

        @functools.wraps(original)
        def run_job(task_function: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
            if self._listens:
                self._note(lambda: of_hydra(config))
            return original(task_function, config, *args, **kwargs)

        self._put(utils, "run_job", run_job)

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
        except Exception:  # noqa: BLE001 - a custom parser may raise anything; its options are not recorded
            self._listens = False


def plain_value(value: Any) -> Parameter | None:
    """Return the value of an option as it is stored; None if it is None or not a plain value.

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
