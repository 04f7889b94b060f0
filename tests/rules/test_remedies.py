"""What rules that serve every framework tell people to do: in the words of one alone, it helps the users of one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import barograph.rules
from barograph.rules.frameworks import for_frameworks
from barograph.rules.words import CLIPPING

_SOURCES = sorted(Path(barograph.rules.__path__[0]).glob("*.py"))

_OF_PYTORCH = {
    "divergence.py": "nll_loss",  # a loss of that name is PyTorch's
    "exploding.py": "zero_grad",  # gradients that are kept are a fact of PyTorch
    "learning_rates.py": "Call scheduler.step() once per epoch, after the loop over batches.",  # so are steps of one
    "loop.py": "zero_grad",
    "loss_scale.py": "torch.autocast",  # its scaler is what the rule sees
    "parameters.py": "requires_grad_(False)",  # parameters outside of optimizers and models
    "script_errors.py": "",  # exceptions of PyTorch
}
"""Of what only PyTorch tells: by file, what such a text has in it."""

_ELSEWHERE = re.compile(r"Keras|[Oo]ptax|JAX|stop_gradient|he_normal|glorot_uniform")


def texts_of(source: str) -> Iterator[str]:
    """Yield each text of a module that is none of its docstrings, f-strings without what stands between the braces.

    What `either` gets for each framework is left out.
    """
    tree = ast.parse(source)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    docs |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
             and node.func.id == "either" for part in ast.walk(node)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in docs:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def speaks_pytorch(text: str) -> bool:
    return bool(re.search(r"\btorch\.\w|\bnn\.\w+\.\w|\.data\.\w+_\(|\bclip_grad_norm_|requires_grad_\(|zero_grad\("
                          r"|kaiming|xavier|(optimizer|scheduler)\.step\(", text))


@pytest.mark.parametrize("path", _SOURCES, ids=lambda path: path.name)
def test_no_remedy_is_in_the_words_of_pytorch_alone(path: Path) -> None:
    own = _OF_PYTORCH.get(path.name)
    alone = [text for text in texts_of(path.read_text(encoding="utf-8")) if speaks_pytorch(text)
             and not _ELSEWHERE.search(text) and (own is None or own not in text)]
    assert alone == []


def test_texts_are_found_wherever_they_stand() -> None:
    source = ('def f(x):\n    """torch.a in a docstring."""\n    return "torch.b", f"torch.c {x} on", {"k": "torch.d"}'
              '\nA = either(torch="torch.e")\n')
    assert sorted(text for text in texts_of(source) if speaks_pytorch(text)) == ["torch.b", "torch.c  on", "torch.d"]


def test_advice_is_that_for_the_framework_of_the_run() -> None:
    text = f"Clip gradients ({CLIPPING})."

    assert for_frameworks(text, {"torch", "numpy"}) == (
        "Clip gradients (torch.nn.utils.clip_grad_norm_ before optimizer.step).")
    assert for_frameworks(text, {"keras", "torch"}) == "Clip gradients (global_clipnorm of the optimizer)."
    assert for_frameworks(text, {"jax", "torch"}) == (
        "Clip gradients (torch.nn.utils.clip_grad_norm_ before optimizer.step (PyTorch) or optax.clip_by_global_norm "
        "(JAX)).")
    with_tensorboard = for_frameworks(text, {"torch", "tensorflow", "keras", "jax"})
    assert with_tensorboard == (
        "Clip gradients (torch.nn.utils.clip_grad_norm_ before optimizer.step (PyTorch) or global_clipnorm of the "
        "optimizer (Keras)).")
    assert for_frameworks(text, {"mxnet"}) == text
    assert "(Keras)" in text


@pytest.mark.parametrize("path", _SOURCES, ids=lambda path: path.name)
def test_no_remedy_names_a_framework(path: Path) -> None:
    named = re.compile(r"\b[Ii]n (Keras|JAX|torch|PyTorch|Optax)\b|\((Keras|Optax)")

    assert [text for text in texts_of(path.read_text(encoding="utf-8")) if named.search(text)] == []
