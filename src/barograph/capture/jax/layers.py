"""Marks the outputs of Flax and Equinox layers while an observed step is traced.

Linen provides interceptors. For NNX and Equinox, the `__call__` of each layer class is wrapped; the path of a layer is
its location in the module that was called first.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax

from barograph.capture.jax.marks import Mark, mark, observing
from barograph.capture.jax.names import is_number_array
from barograph.model.key import Kind

_OURS = "_barograph_original"


class _Calls(threading.local):
    """The current calls of modules in this thread.

    Attributes:
        paths: Path of each module in the outermost called one; None: no call is running.
    """

    def __init__(self) -> None:
        self.paths: dict[int, str] | None = None


_calls = _Calls()


class LayerWrappers:
    """The installed wrappers of layer classes, and their removal."""

    def __init__(self) -> None:
        self._wrapped: list[tuple[type, Callable[..., Any]]] = []
        self._known: set[type] = set()

    def install(self) -> None:
        """Wrap classes defined since the last call."""
        nnx, equinox = sys.modules.get("flax.nnx"), sys.modules.get("equinox")
        for base in (getattr(nnx, "Module", None), getattr(equinox, "Module", None)):
            if base is not None:
                for kind in _below(base):
                    self._wrap(kind)

    def remove(self) -> None:
        """Remove all wrappers."""
        for kind, original in self._wrapped:
            type.__setattr__(kind, "__call__", original)
        self._wrapped.clear()
        self._known.clear()

    def _wrap(self, kind: type) -> None:
        if kind in self._known:
            return
        self._known.add(kind)
        original = vars(kind).get("__call__")
        if (original is not None and not kind.__module__.startswith(("flax.nnx.transforms", "equinox._"))) or (
                original is not None and kind.__module__.startswith("equinox.nn")):
            self._wrapped.append((kind, original))
            type.__setattr__(kind, "__call__", _watched(original))


def _below(base: type) -> Iterator[type]:
    kinds: list[type] = base.__subclasses__()
    for kind in kinds:
        yield kind
        yield from _below(kind)


def _watched(original: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = original.__get__(self, type(self)) if not hasattr(original, "__code__") else functools.partial(
            original, self)
        if not observing.depth:
            return call(*args, **kwargs)
        outermost = _calls.paths is None
        if outermost:
            _calls.paths = _paths_within(self)
        try:
            found = call(*args, **kwargs)
            path = (_calls.paths or {}).get(id(self), "")
            return mark_outputs(found, path, type(self).__name__) if path and not _has_layers(self) else found
        finally:
            if outermost:
                _calls.paths = None

    return called


def linen_interception() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which Linen's layers are marked; a null context without Linen."""
    linen = sys.modules.get("flax.linen")
    if linen is None or not hasattr(linen, "intercept_methods"):
        return contextlib.nullcontext()

    def intercept(following: Any, args: Any, kwargs: Any, context: Any) -> Any:
        found = following(*args, **kwargs)
        path = ".".join(context.module.path)
        if context.method_name != "__call__" or not path or _linen_layers(context.module):
            return found
        return mark_outputs(found, path, type(context.module).__name__)

    manager: contextlib.AbstractContextManager[Any] = linen.intercept_methods(intercept)
    return manager


def _linen_layers(module: Any) -> bool:
    """Return whether a Linen module has submodules, which are marked themselves."""
    linen = sys.modules["flax.linen"]
    return any(isinstance(child, linen.Module) for child in module._state.children.values())


def mark_outputs(found: Any, path: str, layer: str) -> Any:
    """Return the marked results of a layer; several arrays are named by position, as in `lstm[1][0]`."""

    def marked(keys: Any, leaf: Any) -> Any:
        if not is_number_array(leaf):
            return leaf
        place = "".join(f"[{getattr(key, 'idx', getattr(key, 'key', getattr(key, 'name', key)))}]" for key in keys)
        return mark(leaf, Mark(Kind.OUTPUT, path + place, layer))

    return jax.tree_util.tree_map_with_path(marked, found)


def _paths_within(module: Any, prefix: str = "", found: dict[int, str] | None = None) -> dict[int, str]:
    """Return the path of each module within one, by its identity."""
    found = {} if found is None else found
    if id(module) in found:
        return found
    found[id(module)] = prefix
    for name, child in _children(module):
        _paths_within(child, f"{prefix}.{name}" if prefix else name, found)
    return found


def _children(module: Any) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        yield from _modules_in(name, value)


def _modules_in(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if _is_module(value) and not _is_list(value):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _modules_in(f"{name}.{key}", item)
    elif isinstance(value, list | tuple) or _is_list(value):
        for number, item in enumerate(value):
            yield from _modules_in(f"{name}.{number}", item)


def _is_list(value: Any) -> bool:
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(value, getattr(nnx, "List", ()))


def _is_module(value: Any) -> bool:
    nnx, equinox = sys.modules.get("flax.nnx"), sys.modules.get("equinox")
    kinds = tuple(base for base in (getattr(nnx, "Module", None), getattr(equinox, "Module", None)) if base is not None)
    return isinstance(value, kinds)


def _has_layers(module: Any) -> bool:
    return next(_children(module), None) is not None
