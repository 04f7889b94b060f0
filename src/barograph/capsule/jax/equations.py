"""Finds the first equation of a traced JAX function that made non-finite values from finite ones.

The search goes back from non-finite results through their non-finite inputs. So an infinity that a mask writes and that
does not reach a result is not blamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend import core

from barograph.capsule.jax.flags import NAN, POSITIVE, flags_of, literal_flags, values_around
from barograph.capture.frames import is_of_script
from barograph.capture.jax.calls import scanned

_MOST_TURNS = 10_000
"""Maximum number of loop iterations checked one by one."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The equation that made values non-finite.

    Attributes:
        argument: Index of an argument that was already non-finite; -1: none.
        name: JAX's name of the operation.
        line: Line of the user's code, "train.py:12"; "" if unknown.
        scopes: Named scopes around it: for Flax, the layers.
        backward: It is in the backward pass.
        inputs, outputs: Its inputs and outputs.
    """

    argument: int = -1
    name: str = ""
    line: str = ""
    scopes: str = ""
    backward: bool = False
    inputs: Sequence[Any] = ()
    outputs: Sequence[Any] = ()


def culprit(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], bad: Sequence[int], *,
            carried: frozenset[int] = frozenset()) -> Culprit | None:
    """Return the cause of non-finite results; None if it is not in the function.

    Args:
        jaxpr: The traced function.
        consts: Arrays that it closes over.
        args: Its arguments.
        bad: Indices of the non-finite results.
        carried: Indices of arguments such as weights, in which an infinity is not a mask.
    """
    flags = flags_of(jaxpr, consts, args)
    numbers, arguments = _behind(jaxpr, flags, bad)
    spoilt = [number for number in sorted(arguments)
              if flags[jaxpr.invars[number]] & (NAN | POSITIVE) or number in carried]
    if spoilt:
        return Culprit(argument=spoilt[0])
    makes = [number for number in numbers if _makes(jaxpr.eqns[number], flags)] or [
        number for number in numbers if _makes_nan(jaxpr.eqns[number], flags)]
    if makes:
        return _within(jaxpr, consts, args, makes[0])
    return Culprit(argument=min(arguments)) if arguments else None


def _behind(jaxpr: Any, flags: Mapping[Any, int], bad: Sequence[int]) -> tuple[list[int], set[int]]:
    """Return the equations and arguments that results depend on through non-finite values."""
    made_by = {variable: number for number, eqn in enumerate(jaxpr.eqns) for variable in eqn.outvars}
    given = {variable: number for number, variable in enumerate(jaxpr.invars)}
    asked = [jaxpr.outvars[number] for number in bad]
    numbers, arguments = set[int](), set[int]()
    while asked:
        atom = asked.pop()
        if isinstance(atom, core.Literal) or not flags.get(atom):
            continue
        if atom in given:
            arguments.add(given[atom])
        elif atom in made_by and made_by[atom] not in numbers:
            numbers.add(made_by[atom])
            asked += jaxpr.eqns[made_by[atom]].invars
    return sorted(numbers), arguments


def _inputs(eqn: Any, flags: Mapping[Any, int]) -> Iterator[int]:
    return (literal_flags(atom) if isinstance(atom, core.Literal) else flags.get(atom, 0) for atom in eqn.invars)


def _makes(eqn: Any, flags: Mapping[Any, int]) -> bool:
    return not any(_inputs(eqn, flags)) and any(flags.get(variable) for variable in eqn.outvars)


def _makes_nan(eqn: Any, flags: Mapping[Any, int]) -> bool:
    return not any(flag & NAN for flag in _inputs(eqn, flags)) and any(
        flags.get(variable, 0) & NAN for variable in eqn.outvars)


def _within(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], number: int) -> Culprit:
    """Return the equation with that index, or the equation inside it that is the cause."""
    eqn = jaxpr.eqns[number]
    inputs, outputs = values_around(jaxpr, consts, args, number)
    own = Culprit(-1, eqn.primitive.name, _line(eqn), _scopes(eqn), "transpose(" in str(eqn.source_info.name_stack),
                  inputs, outputs)
    bad = [place for place, value in enumerate(outputs) if _is_bad(value)]
    inside = _INTO.get(eqn.primitive.name)
    found = inside(eqn, inputs, bad) if inside is not None else None
    if found is None or found.argument >= 0:
        return own
    # A library's function was traced at its first call, so its inner lines may belong to another caller.
    line = found.line if found.line and _is_users(eqn) else own.line or found.line
    return Culprit(-1, found.name, line, found.scopes or own.scopes, own.backward or found.backward, found.inputs,
                   found.outputs)


def _into_call(eqn: Any, inputs: Sequence[Any], bad: Sequence[int]) -> Culprit | None:
    inner = _inner(eqn)
    return culprit(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs, bad)


def _into_scan(eqn: Any, inputs: Sequence[Any], bad: Sequence[int]) -> Culprit | None:
    """Search the iterations of a loop up to the first with non-finite results."""
    params, inner = eqn.params, eqn.params["jaxpr"]
    consts, carry = scanned(eqn)
    body = jax.jit(core.jaxpr_as_fun(inner))
    carried = list(inputs[consts:consts + carry])
    turns = range(params["length"])[::-1] if params["reverse"] else range(params["length"])
    for turn in turns[:_MOST_TURNS]:
        given = [*inputs[:consts], *carried, *(each[turn] for each in inputs[consts + carry:])]
        found = body(*given)
        wrong = [number for number, value in enumerate(found) if _is_bad(value)]
        if wrong:
            return culprit(inner.jaxpr, inner.consts, given, wrong)
        carried = list(found[:carry])
    return None


def _into_while(eqn: Any, inputs: Sequence[Any], bad: Sequence[int]) -> Culprit | None:
    params = eqn.params
    of_condition, of_body = params["cond_nconsts"], params["body_nconsts"]
    condition, body = jax.jit(core.jaxpr_as_fun(params["cond_jaxpr"])), jax.jit(core.jaxpr_as_fun(params["body_jaxpr"]))
    first, consts = inputs[:of_condition], inputs[of_condition:of_condition + of_body]
    carried = list(inputs[of_condition + of_body:])
    for _ in range(_MOST_TURNS):
        if not bool(condition(*first, *carried)[0]):
            return None
        given = [*consts, *carried]
        carried = list(body(*given))
        wrong = [number for number, value in enumerate(carried) if _is_bad(value)]
        if wrong:
            return culprit(params["body_jaxpr"].jaxpr, params["body_jaxpr"].consts, given, wrong)
    return None


def _into_branch(eqn: Any, inputs: Sequence[Any], bad: Sequence[int]) -> Culprit | None:
    branches = eqn.params["branches"]
    taken = branches[min(max(int(inputs[0]), 0), len(branches) - 1)]
    return culprit(taken.jaxpr, taken.consts, inputs[1:], bad)


_INTO: Mapping[str, Callable[[Any, Sequence[Any], Sequence[int]], Culprit | None]] = {
    "scan": _into_scan, "while": _into_while, "cond": _into_branch,
    **dict.fromkeys(("jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "custom_jvp_call",
                     "custom_vjp_call"), _into_call),
}
"""Equations with a body to search; others, such as a user's kernel, are named as a whole."""


def _inner(eqn: Any) -> Any:
    return next(eqn.params[name] for name in ("jaxpr", "call_jaxpr", "fun_jaxpr") if name in eqn.params)


def _is_bad(value: Any) -> bool:
    if not jax.numpy.issubdtype(getattr(value, "dtype", np.asarray(value).dtype), jax.numpy.inexact):
        return False
    return not bool(jax.numpy.isfinite(value).all())


def _line(eqn: Any) -> str:
    """Return the line of the user's code that an equation comes from."""
    trace = eqn.source_info.traceback
    found = next((frame for frame in (trace.frames if trace else ()) if is_of_script(frame.file_name)), None)
    return f"{found.file_name}:{found.line_num}" if found else ""


def _is_users(eqn: Any) -> bool:
    """Return whether the function that an equation calls, if any, was written by the user."""
    inner = _inner(eqn) if any(name in eqn.params for name in ("jaxpr", "call_jaxpr", "fun_jaxpr")) else None
    info = getattr(getattr(inner, "jaxpr", inner), "debug_info", None)
    file = getattr(info, "func_filename", None)
    return inner is None or (isinstance(file, str) and is_of_script(file))


def _scopes(eqn: Any) -> str:
    """Return the named scopes around an equation, without those of derivatives."""
    parts = [part.rpartition("(")[2].rstrip(")") for part in str(eqn.source_info.name_stack).split("/")]
    return ".".join(part for part in parts if part)
