"""`%barograph` and `%%barograph`: the command line in notebooks."""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from barograph.cli.command_list import COMMANDS
from barograph.cli.main import EXIT_ERROR, application, options_of
from barograph.cli.printing import in_notebook
from barograph.errors import BarographError
from barograph.jupyter.formatters import register
from barograph.processes.command import own_module
from barograph.processes.streamed_process import StreamedProcess

APART = frozenset({"run", "watch", "resume", "rerun", "replay"})
"""Commands that run scripts, or run for long: started in a subprocess, so that an interrupt ends only them."""

_LOOK_SECS = 1.0
"""Interval at which the end of a command is noticed while other processes keep its output open."""

LESSON = """\
%barograph COMMAND …     any command of barograph; see %barograph COMMAND --help
  %barograph runs                        runs below this directory
  %barograph show RUN                    one run: findings, metrics, layers
  %barograph search "metrics.loss.last < 0.3"
  %barograph compare RUN RUN             their differences
  %barograph rules                       all rules; rules explain CODE
%%barograph run [OPTIONS]                record, watch and draw what this cell trains
  --experiment NAME, --tag NAME=TEXT, --to PLACE, --budget 5%, …   options of barograph run
  --as NAME                              name of a variable with the run, in the cell
In Python: barograph.open("RUN"), barograph.tracking, barograph.notebook.watch("RUN").
{name} inserts a variable: %barograph show {run.url}
"""


class Magic:
    """The magics of one IPython shell.

    Args:
        shell: IPython shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    @property
    def in_notebook(self) -> bool:
        """Whether the shell is in a notebook; otherwise in a terminal."""
        return hasattr(self._shell, "kernel")

    def load(self) -> None:
        """Register both magics, their completion, and the HTML formatters."""
        self._shell.register_magic_function(self.both, "line_cell", "barograph")
        for name in ("%barograph", "%%barograph"):
            self._shell.set_hook("complete_command", self.complete, str_key=name)
        register(self._shell)

    def both(self, line: str, cell: str | None = None) -> None:
        """Run a command of Barograph, or record what a cell trains. Without arguments, print help."""
        __tracebackhide__ = True
        from IPython.core.error import UsageError

        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"{error}: %barograph {line}") from None
        try:
            if cell is not None:
                self._cell(words, cell)
            elif not words:
                print(LESSON, end="")
            elif words[0] in APART:
                self._apart(words)
            else:
                self._here(words)
        except BarographError as error:
            if cell is not None and not _is_ours(error):
                raise
            raise UsageError(str(error)) from None

    def complete(self, shell: Any, event: Any) -> list[str]:
        """Return completions: commands, then options."""
        words = str(event.line).split()
        typed = "" if str(event.line).endswith(" ") else words.pop()
        if len(words) <= 1:
            known = ("run",) if str(event.line).startswith("%%") else COMMANDS
            return [name for name in known if name.startswith(typed)]
        if words[1] not in COMMANDS:
            return []
        return [option for option in options_of(words[1]) if option.startswith(typed)]

    def _cell(self, words: Sequence[str], cell: str) -> None:
        __tracebackhide__ = True
        from IPython.core.error import UsageError

        # Imported here, because reading runs does not need the recorder.
        from barograph.jupyter.cell import RecordedCell

        if not words or words[0] != "run":
            raise UsageError("%%barograph only has the command run. Use a line magic for others: "
                             f"%barograph {' '.join(words) or 'runs'}")
        RecordedCell(self._shell, draws=self.in_notebook).run(words[1:], cell)

    def _here(self, words: Sequence[str]) -> None:
        named = [name for name in words[:1] if name in COMMANDS]
        with _printed_at_end() if self.in_notebook else contextlib.nullcontext():
            try:
                application(named or COMMANDS)(list(words), prog_name="barograph")
            except SystemExit as ended:
                self._ended(words, ended.code)

    def _apart(self, words: Sequence[str]) -> None:
        __tracebackhide__ = True
        # In a process group of its own: an interrupt is forwarded once, as in a terminal.
        self._ended(words, _printed(StreamedProcess(own_module("barograph", *words), merged=True)))

    def _ended(self, words: Sequence[str], code: object) -> None:
        from IPython.core.error import UsageError

        # As after a command with an exclamation mark.
        self._shell.user_ns["_exit_code"] = code if isinstance(code, int) else int(code is not None)
        if code == EXIT_ERROR:
            raise UsageError(f"barograph {words[0]} ended with exit code {EXIT_ERROR}.")


@contextlib.contextmanager
def _printed_at_end() -> Iterator[None]:
    """Print the output of this block at its end, because each line would be a message to the page."""
    output = io.StringIO()
    try:
        with in_notebook(), contextlib.redirect_stdout(output):
            yield
    finally:
        # Padding to the width of a terminal would wrap on a narrow page.
        print("\n".join(line.rstrip() for line in output.getvalue().splitlines()))


def _printed(process: StreamedProcess) -> int:
    """Forward the output of a command, and return its exit code.

    An interrupt goes to the command first; a second one kills it.
    """
    __tracebackhide__ = True
    interrupted: KeyboardInterrupt | None = None
    while True:
        try:
            code = process.poll()
            text = process.output(_LOOK_SECS if code is None else 0.0).out.decode("utf-8", "replace")
            if text:
                print(text, end="", flush=True)
            if code is not None:
                break
        except KeyboardInterrupt as interrupt:
            if interrupted is not None:
                process.kill()
                raise
            interrupted = interrupt
            process.interrupt()
    if interrupted is not None:
        raise interrupted
    return code


def _is_ours(error: BaseException) -> bool:
    """Return whether an error came before the cell began; errors of its code are shown with a traceback."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "_execute":
            return False
        trace = trace.tb_next
    return True

