"""Writes one operation as a standalone program for a bug report: a script, or a notebook next to its capsule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LEAST_LITERAL = 32
"""Maximum number of elements of a tensor written as literals in the script; larger ones go to a file next to it."""

_READING = '''
start = 8 + int.from_bytes(data[:8], "little")
header = json.loads(data[8:start])


def tensor(name, dtype):
    first, end = header[name]["data_offsets"]
    return torch.frombuffer(bytearray(data[start + first:start + end]), dtype=dtype)

'''.splitlines()
"""Source code that reads a safetensors file with torch alone, for the script."""


@dataclass(frozen=True, slots=True)
class TensorText:
    """A tensor argument of an operation, as text.

    Attributes:
        name: Name of the variable.
        dtype: Torch's name of the type, without "torch.".
        shape: Shape.
        elements: Elements as Python literals, in order; None: they are in the file next to the script.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: tuple[str, ...] | None = None

    @property
    def line(self) -> str:
        """The line of the script that creates it.

        Example:
            >>> TensorText("x0", "float32", (2, 1), ("0.0", "1.5")).line
            'x0 = torch.tensor([0.0, 1.5], dtype=torch.float32).reshape(2, 1)'
        """
        if self.elements is None:
            return f'{self.name} = tensor("{self.name}", torch.{self.dtype}).reshape({self.shape})'
        shape = ", ".join(map(str, self.shape))
        reshaped = f".reshape({shape})" if len(self.shape) != 1 else ""
        if not self.shape:
            reshaped = ".reshape(())"
        return f"{self.name} = torch.tensor([{', '.join(self.elements)}], dtype=torch.{self.dtype}){reshaped}"


@dataclass(frozen=True, slots=True)
class OperationText:
    """A call of an operation, as text.

    Attributes:
        call: The expression, such as `torch.ops.aten.log.default(x0)`.
        tensors: Tensors that its names refer to.
        where: Sentences about where it was found.
        parts: The call uses only a part of the original arguments.
    """

    call: str
    tensors: tuple[TensorText, ...]
    where: tuple[str, ...]
    parts: bool = False

    @property
    def beside(self) -> bool:
        """Whether tensors are in a file next to the script."""
        return any(tensor.elements is None for tensor in self.tensors)


def script_of(operation: OperationText, tensors_file: str) -> str:
    """Return a script that calls the operation, prints inputs and outputs, and reports whether the output is finite.

    Args:
        operation: The call.
        tensors_file: Name of the tensor file, if there is one.
    """
    return "\n".join([
        f'"""{_doc(operation)}"""', "", *_imports(operation), "",
        *_body(operation, f"Path(__file__).with_name({tensors_file!r})"), "",
        *(f'print("{tensor.name}:", {tensor.name})' for tensor in operation.tensors),
        'print("result:", result)',
        "values = [result] if isinstance(result, torch.Tensor) else result",
        'print("finite:", all(bool(torch.isfinite(item).all()) for item in values if isinstance(item, torch.Tensor)))',
        "",
    ])


def notebook_of(operation: OperationText, tensors_file: str, capsule: str, tensors_of_capsule: str) -> str:
    """Return a notebook (format 4.5, as JSON) that opens the capsule and calls the operation.

    Args:
        operation: The call.
        tensors_file: Name of the tensor file, if there is one.
        capsule: Path of the capsule's folder.
        tensors_of_capsule: Name of the capsule's tensor file.
    """
    opened = [
        "import json", "from pathlib import Path", "", "from safetensors.torch import load_file", "",
        f"capsule = Path({capsule!r})",
        'about = json.loads((capsule / "capsule.json").read_text(encoding="utf-8"))',
        f"held = load_file(capsule / {tensors_of_capsule!r})", 'print(about["head"]["text"])',
        "for name, tensor in held.items():", '    print(f"{name:60} {str(tensor.dtype):16} {tuple(tensor.shape)}")',
    ]
    cells = [
        _cell("markdown", "doc", _doc(operation).splitlines()),
        _cell("markdown", "held", ["Everything the step needs: weights, optimizer, batches, random states."]),
        _cell("code", "capsule", opened),
        _cell("markdown", "called", ["The operation on its own."]),
        _cell("code", "operation", [*_imports(operation), "",
                                          *_body(operation, f"Path({tensors_file!r})"), "result"]),
    ]
    return json.dumps({
        "cells": cells, "nbformat": 4, "nbformat_minor": 5,
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                     "language_info": {"name": "python"}},
    }, indent=1) + "\n"


def _doc(operation: OperationText) -> str:
    parts = ["It is called with the smallest part of its inputs that shows the fault."] if operation.parts else []
    # Escape strings from a script and its paths: none may terminate the literal around it.
    return "\n\n".join((*operation.where, *parts)).replace("\\", "/").replace('"""', "'''")


def _imports(operation: OperationText) -> list[str]:
    return [*(["import json", "from pathlib import Path", ""] if operation.beside else []), "import torch"]


def _body(operation: OperationText, tensors_file: str) -> list[str]:
    reading = [f"data = {tensors_file}.read_bytes()", *_READING] if operation.beside else []
    return [*reading, *(tensor.line for tensor in operation.tensors), f"result = {operation.call}"]


def _cell(kind: str, name: str, lines: Sequence[str]) -> dict[str, Any]:
    source = [f"{line}\n" for line in lines[:-1]] + list(lines[-1:])
    cell: dict[str, Any] = {"cell_type": kind, "id": name, "metadata": {}, "source": source}
    return {**cell, "execution_count": None, "outputs": []} if kind == "code" else cell
