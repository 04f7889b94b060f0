"""Actions of `barograph replay` at the bad operation: open the debugger, write a script or a notebook."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from barograph.capsule.order import DEBUGGER, NOTEBOOK, SCRIPT, BadOperation, ReplayResult, StopAt
from barograph.cli.replay.replay_files import file_name
from barograph.errors import ReplayFailed, SettingsError
from barograph.runs.state.capsules import Capsule


@dataclass(frozen=True, slots=True)
class Afterwards:
    """Actions at the bad operation.

    Attributes:
        debugger: Open the debugger there.
        script, notebook: Files to write; None: do not write.
    """

    debugger: bool = False
    script: str | None = None
    notebook: str | None = None

    def named(self, held: Capsule) -> Afterwards:
        """Return a copy with the default names of files filled in."""
        step = held.head.step
        return replace(self, script=file_name(self.script, step, ".py"),
                       notebook=file_name(self.notebook, step, ".ipynb"))

    def check(self, held: Capsule, *, as_json: bool) -> None:
        """Check that this works with the capsule.

        Raises:
            SettingsError: A file cannot be written, or the debugger would write into JSON.
        """
        if self.debugger and as_json:
            raise SettingsError("--pdb and --json cannot be combined: the debugger would write into the JSON.")
        if self.notebook is not None and not Path(held.where).is_dir():
            raise SettingsError(f"--notebook needs the capsule in a local directory. Copy it first ({held.where}).")
        for _, file in self._files():
            if Path(file).is_dir() or not Path(file).resolve().parent.is_dir():
                raise SettingsError(f"Cannot write {file}: it is a directory, or its directory does not exist.")

    def stops(self, bad: BadOperation, held: Capsule, where: tuple[str, ...]) -> Iterable[StopAt]:
        """Yield what to do, the debugger last."""
        for what, file in self._files():
            yield StopAt(bad.number, what, _in_its_folder(file), where, held.where, held.files["tensors"])
        if self.debugger:
            yield StopAt(bad.number, DEBUGGER)

    def _files(self) -> Iterable[tuple[str, str]]:
        named = ((SCRIPT, self.script), (NOTEBOOK, self.notebook))
        return ((what, file) for what, file in named if file is not None)


def _in_its_folder(file: str) -> str:
    # The folder may be a link. A file that is a link is replaced: its name may come from an untrusted capsule.
    return str(Path(file).parent.resolve() / Path(file).name)


def do(afterwards: Afterwards, result: ReplayResult, held: Capsule, make: Callable[[StopAt], object]) -> list[str]:
    """Do what was requested; return the files that were written.

    Args:
        afterwards: What to do.
        result: Result of the replay.
        held: Capsule that was replayed.
        make: Replays the step once more and does one thing at its bad operation.

    Raises:
        ReplayFailed: No operation is bad.
    """
    if afterwards == Afterwards():
        return []
    bad = result.bad_operation
    if bad is None:
        raise ReplayFailed("No operation produced NaN or infinity, so there is nowhere to stop.")
    written = []
    for stop in afterwards.stops(bad, held, _where(bad, held, result)):
        make(stop)
        written += [stop.file] if stop.file and Path(stop.file).is_file() else []
    return written


def _where(bad: BadOperation, held: Capsule, result: ReplayResult) -> tuple[str, ...]:
    """Return comments that describe the operation to a reader of the file."""
    if bad.handed_in:
        what = f"{bad.module} was not finite when it was passed in; this is the first operation that read it."
    else:
        part = f"{bad.phase} pass" + (f" (the derivative of {bad.of})" if bad.of else "")
        within = f" in {bad.module}" if bad.module else ""
        at = f", {os.path.relpath(bad.line)}" if bad.line else ""
        what = f"{bad.name} produced NaN or infinity from finite inputs, in the {part}{within}{at}."
    versions = ", ".join(f"{name} {version}" for name, version in held.content["versions"].items())
    return (what, f"Step {held.head.step} of a training. {held.head.text}",
            f"Saved with {versions}, on {held.content['machine']['processor']}. Replay: {result.grade.value}.")
