"""What `barograph replay` does and prints."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from barograph import capsule as room
from barograph.capsule.order import (
    REPLAY_VARIABLE,
    BadOperation,
    Grade,
    ReplayOrder,
    ReplayResult,
    TensorSeen,
    result_from_text,
)
from barograph.cli.child import Child, check_command
from barograph.cli.opening import store_at
from barograph.cli.printing import Column, Printer
from barograph.errors import ReplayFailed, SettingsError
from barograph.model.capsule import CapsuleHead
from barograph.runs.capsules import read_capsule
from barograph.watch.figures import figure
from barograph.watch.wording import shown

_REPLAYING = Path(room.__path__[0]) / "inject"
_MOST_GRADIENTS = 12
_GRADIENTS = (Column("gradient"), Column("norm then", right=True), Column("norm now", right=True))


def replay(place: str, command: Sequence[str], *, opens_pickle: bool, as_json: bool) -> bool:
    """Make the step again and print how far it was the same; return whether it was, or its event happened again.

    Raises:
        UnknownName, NewerFormat, DamagedChunk, StoreError: The capsule cannot be read.
        SettingsError: The script cannot be run here.
        ReplayFailed: The step could not be made again.
    """
    store = store_at(place)
    held = read_capsule(store)
    words = list(command) or _as_it_was(held.content)
    check_command(words)
    printer = Printer()
    with tempfile.TemporaryDirectory(prefix="barograph-replay-") as folder:
        file = Path(folder, "result.json")
        order = ReplayOrder(store.url, "", str(file), opens_pickle)
        with Child(words, {REPLAY_VARIABLE: order.to_text()}, _REPLAYING) as child:
            child.wait()
        if not file.is_file():
            raise ReplayFailed(f"The script ended with exit code {child.exit_code} before its training began a step.")
        result = result_from_text(file.read_text(encoding="utf-8"))
    if result.failure:
        raise ReplayFailed(result.failure)
    changed = _changed(held.content)
    if as_json:
        printer.json({"capsule": held.where, **json.loads(result.to_text()), "changed": changed})
    else:
        _print(printer, held.head, result, changed)
    return result.grade is not Grade.NOT_REPRODUCED


def _blamed(bad: BadOperation) -> Iterable[str]:
    if bad.handed_in:
        yield f"{shown(bad.module)} is not finite already: {_tensor(bad.inputs[0])}"
        return
    where = f" in {shown(bad.module)}" if bad.module else ""
    of = f" (of {bad.of}'s derivative)" if bad.of else ""
    line = f", {shown(os.path.relpath(bad.line))}" if bad.line else ""
    yield f"{bad.name}, {bad.phase}{of}{where}{line}"
    yield from (f"in   {_tensor(item)}" for item in bad.inputs)
    yield from (f"out  {_tensor(item)}" for item in bad.outputs)


def _tensor(seen: TensorSeen) -> str:
    bad = ", ".join(f"{times} {word}" for times, word in ((seen.nan, "NaN"), (seen.infinite, "infinite"),
                                                           (seen.zeros, "zero")) if times)
    return f"{seen.dtype} {list(seen.shape)}, {figure(seen.low)} to {figure(seen.high)}{f'; {bad}' if bad else ''}"


def _as_it_was(content: Mapping[str, Any]) -> list[str]:
    argv = [str(word) for word in content["script"]["argv"]]
    if not argv or not os.path.isfile(argv[0]):
        name = Path(argv[0]).name if argv else "train.py"
        raise SettingsError(f"There is no {name} in this directory. Go to the folder of the script, or name it: "
                            f"barograph replay CAPSULE {name}")
    return argv


def _changed(content: Mapping[str, Any]) -> list[str]:
    """Return the files of the script that are others than when the step was held."""
    return [name for name, text in content["script"]["sources"].items()
            if Path(name).is_file() and Path(name).read_text(encoding="utf-8", errors="replace") != text]


def _print(printer: Printer, head: CapsuleHead, result: ReplayResult, changed: Sequence[str]) -> None:
    printer.line(f"step {head.step}  {shown(head.text)}")
    printer.entries([
        (result.grade.value, result.text),
        *(("loss", f"{figure(then)} then, {figure(now)} now") for then, now in result.losses),
        *(("note", note) for note in result.notes),
        *((("first bad", line) for line in _blamed(result.bad_operation)) if result.bad_operation else ()),
        *((("changed since", shown(", ".join(changed))),) if changed else ()),
    ])
    different = [item for item in result.gradients if not item.equal]
    if different:
        printer.table(_GRADIENTS, [[shown(item.path), figure(item.norm_then), figure(item.norm_now)]
                                   for item in different[:_MOST_GRADIENTS]])
        if len(different) > _MOST_GRADIENTS:
            printer.line(f"and {len(different) - _MOST_GRADIENTS} more", indent=2)
