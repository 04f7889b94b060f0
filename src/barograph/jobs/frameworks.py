"""The framework of a script, found in the imports of the script and of the modules beside it."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

_MOST_FILES = 200
_LARGEST_BYTES = 2 * 2**20


class Framework(StrEnum):
    """A framework with a launcher of its own for several processes."""

    TORCH = "torch"
    TENSORFLOW = "tensorflow"
    JAX = "jax"
    NONE = ""


_OF_MODULES = {
    "torch": Framework.TORCH, "lightning": Framework.TORCH, "pytorch_lightning": Framework.TORCH,
    "transformers": Framework.TORCH, "accelerate": Framework.TORCH, "ignite": Framework.TORCH,
    "fastai": Framework.TORCH, "torchvision": Framework.TORCH, "tensorflow": Framework.TENSORFLOW,
    "jax": Framework.JAX, "flax": Framework.JAX, "optax": Framework.JAX, "equinox": Framework.JAX,
}
_KERAS = "keras"
_BACKEND_VARIABLE = "KERAS_BACKEND"
_DEFAULT_BACKEND = "tensorflow"


def framework_of(script: Path, *, environment: Mapping[str, str] | None = None) -> Framework:
    """Return the framework that a script trains with; `NONE` if it imports none or cannot be read.

    Modules in the folder of the script are followed. What is imported nearest to the script decides; of several
    frameworks there, the first. Keras counts as its backend.

    Args:
        script: A Python file.
        environment: Environment of the script, which may name the backend of Keras.
    """
    found, is_keras, backend = Framework.NONE, False, (environment or {}).get(_BACKEND_VARIABLE, "")
    for tree in _trees(script):
        backend = backend or _backend_in(tree)
        for name in _imported(tree):
            top = name.partition(".")[0]
            if top in _OF_MODULES and not found:
                found = _OF_MODULES[top]
            is_keras = is_keras or top == _KERAS
        if found or is_keras:
            break
    if is_keras and (backend or not found):
        return _OF_MODULES.get(backend or _DEFAULT_BACKEND, Framework.NONE)
    return found


def _trees(script: Path) -> Iterator[ast.Module]:
    """Yield the syntax tree of a script, then those of the modules beside it that it imports, nearest first."""
    waiting, seen = [script], {script}
    while waiting and len(seen) <= _MOST_FILES:
        tree = _parsed(waiting.pop(0))
        if tree is None:
            continue
        yield tree
        for name in _imported(tree):
            for path in _beside(script.parent, name):
                if path not in seen:
                    seen.add(path)
                    waiting.append(path)


def _parsed(path: Path) -> ast.Module | None:
    try:
        return None if path.stat().st_size > _LARGEST_BYTES else ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # the script says what is wrong with it when it runs


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _beside(folder: Path, module: str) -> Iterator[Path]:
    parts = [part for part in module.split(".") if part]
    if parts and os.path.isdir(folder):
        path = folder.joinpath(*parts)
        for candidate in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            if candidate.is_file():
                yield candidate


def _backend_in(tree: ast.Module) -> str:
    """Return the backend that a script assigns to the variable; "" if it does not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) \
                        and target.slice.value == _BACKEND_VARIABLE:
                    return str(node.value.value)
        elif isinstance(node, ast.Call) and len(node.args) == 2 and [
                item.value for item in node.args[:1] if isinstance(item, ast.Constant)] == [_BACKEND_VARIABLE] \
                and isinstance(node.args[1], ast.Constant):
            return str(node.args[1].value)
    return ""
