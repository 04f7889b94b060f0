"""`%%barograph run`: the training of one cell, recorded from its first line to its last and drawn below it."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from barograph.attached import AttachedRun
from barograph.attaching import begun
from barograph.capture import recording
from barograph.cli.main import parsed
from barograph.cli.options import DEFAULT_CONFIG, replaced
from barograph.cli.record.run import settings_of
from barograph.errors import SettingsError
from barograph.experiments.artifacts import artifact_from_bytes, root_of
from barograph.jupyter.display import CellDisplay, Display
from barograph.jupyter.live import LiveView
from barograph.model.clock import Clock, SystemClock
from barograph.model.items import Entry, Verb
from barograph.processes.local_process import DEVNULL
from barograph.provenance.secrets import Secrets
from barograph.runs.reading.reader import open as open_run
from barograph.runs.state.journal import JOURNAL_OF_RUN, Journal
from barograph.runs.state.places import new_place

_NAMED = "--as"
_HELP = """
In a notebook the cell stands in the place of COMMAND, and there is also:
  --as NAME                   The run under that name, in the cell."""
_STANDS_FOR_A_COMMAND = "cell"


class RecordedCell:
    """A cell of a notebook, run while what it trains is recorded.

    Args:
        shell: Of IPython, whose names the cell uses.
        executor: Draw the run below the cell; else findings are told on standard error, as in a terminal.
        make_display: Where it is drawn.
        clock: Time.
    """

    def __init__(
        self,
        shell: Any,
        *,
        executor: bool,
        make_display: Callable[[], Display] = CellDisplay,
        clock: Clock | None = None,
    ) -> None:
        self._shell = shell
        self._executor = executor
        self._make_display = make_display
        self._clock = clock or SystemClock()

    def run(self, words: Sequence[str], cell: str) -> None:
        """Run a cell.

        Args:
            words: Options of `barograph run`, and `--as NAME`.
            cell: Its text.

        Raises:
            SettingsError: The words are not understood.
            AlreadyAttached: The process is being recorded already.
            Exception: Whatever the cell raises.
        """
        __tracebackhide__ = True
        name, options = _taken_out(words)
        typed = parsed("run", [*options, _STANDS_FOR_A_COMMAND])
        if typed is None:
            print(_HELP)
            return
        _check(typed)
        if recording.launched() is not None:
            print("This notebook runs under barograph run, which records all of it; so it records this cell, too.")
            self._execute(cell)
            return
        attached, kept = self._begun(typed, options)
        with _Lent(self._shell.user_ns, name, attached):
            self._recorded(attached, cell, live=bool(typed["live"]) and self._executor, kept=kept)

    def _begun(self, typed: Mapping[str, Any], options: Sequence[str]) -> tuple[AttachedRun, bool]:
        """Begin to record, and return what does with whether what made it is kept."""
        settings = settings_of(typed)
        if settings.to.startswith("memory:"):
            raise SettingsError("A run in memory has no watcher; give --to a directory or bucket.")
        settings = replaced(settings, to=settings.to or new_place(notebook_name()))
        config = typed["config"] or (DEFAULT_CONFIG if os.path.isfile(DEFAULT_CONFIG) else None)
        # What the executor draws need not be told a second time.
        attached = begun(settings, config=config, command=("%%barograph", "run", *options),
                         words_to=DEVNULL if self._executor else None)
        return attached, settings.origin

    def _keep(self, attached: AttachedRun, cell: str) -> None:
        """Keep the text of the cell, without secrets: it is what the run was made of."""
        run = open_run(attached.url)
        text = Secrets(os.environ).hide(cell)
        link = artifact_from_bytes(root_of(run.store), text.encode(), "cell.py", "text/x-python")
        entry = Entry(run.manifest.run_id, Verb.INPUT, asdict(link), self._clock.unix())
        Journal(run.store, JOURNAL_OF_RUN).write([entry])

    def _recorded(self, attached: AttachedRun, cell: str, *, live: bool, kept: bool) -> None:
        __tracebackhide__ = True
        view: LiveView | None = None
        try:
            with attached:
                if kept:
                    self._keep(attached, cell)
                if self._executor:
                    view = LiveView(open_run(attached.url), display=self._make_display(), clock=self._clock)
                    if live:
                        view.start()
                self._execute(cell)
        finally:
            if view is not None:
                view.stop()
                # Once more, since its watcher has had its last word now.
                view.update()
            else:
                print(f"The run: {attached.url}")

    def _execute(self, cell: str) -> None:
        """Run code as a cell: its names are the notebook's, and its last line is shown where it is a value."""
        __tracebackhide__ = True
        shell = self._shell
        text = shell.transform_cell(cell)
        name = shell.compile.cache(text, shell.execution_count, raw_code=cell)
        tree = shell.compile.ast_parse(text, filename=name)
        tree = shell.transform_ast(tree)
        shown: list[ast.stmt] = []
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            shown = [tree.body.pop()]
        exec(shell.compile(tree, name, "exec"), shell.user_ns)
        if shown:
            exec(shell.compile(ast.Interactive(shown), name, "single"), shell.user_ns)


def notebook_name() -> str:
    """Return what the notebook is called, where its server says so; else "notebook"."""
    return Path(os.environ.get("JPY_SESSION_NAME", "")).stem or "notebook"


class _Lent:
    """Puts the run among the names of the notebook while its cell runs, and what was there before back."""

    def __init__(self, names: MutableMapping[str, Any], name: str, attached: AttachedRun) -> None:
        self._names, self._name, self._attached = names, name, attached
        self._before = names.get(name)
        self._was_there = name in names

    def __enter__(self) -> None:
        if self._name:
            self._names[self._name] = self._attached

    def __exit__(self, *_: object) -> None:
        # The cell may have given the name to something of its own.
        if self._name and self._names.get(self._name) is self._attached:
            if self._was_there:
                self._names[self._name] = self._before
            else:
                del self._names[self._name]


def _taken_out(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the name that `--as` says, "" for none, and the other words."""
    left, name = list(words), ""
    if _NAMED in left:
        at = left.index(_NAMED)
        name = left[at + 1] if at + 1 < len(left) else ""
        if not name.isidentifier():
            raise SettingsError(f"{_NAMED} is followed by a name for the run in the cell, as in {_NAMED} run.")
        del left[at:at + 2]
    return name, left


def _check(typed: Mapping[str, Any]) -> None:
    if list(typed["command"]) != [_STANDS_FOR_A_COMMAND]:
        raise SettingsError(f"%%barograph run runs the cell below it; {typed['command'][0]!r} is too much. A script is "
                            "run by a line: %barograph run train.py.")
    if typed["as_json"]:
        raise SettingsError("%%barograph run draws the run below the cell; --json is for the command line.")
