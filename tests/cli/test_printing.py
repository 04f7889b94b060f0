"""Tables for a terminal and for a pipe, and strict JSON."""

from __future__ import annotations

import io
import math
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from barograph.cli.command_list import COMMANDS
from barograph.cli.figures import curve, sparkline
from barograph.cli.inspect.layers_table import print_layers
from barograph.cli.printing import Column, Printer
from barograph.cli.signs import layer_sign
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.queries.layers import layer_row
from barograph.runs.reading.layers import Layer, Trend
from barograph.watch.figures import share

Call = Callable[..., Any]
LONG = "transformer.blocks.11.attention[0].projection[red]"


def printed(show: Callable[[Printer], None], *, terminal: bool, width: int = 60) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, markup=False, emoji=False,
                      highlight=False, color_system=None)
    show(Printer(console))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def table(*columns: Column, rows: list[list[Any]]) -> Callable[[Printer], None]:
    return lambda printer: printer.table(columns, rows)


def test_in_a_pipe_each_row_is_one_line_with_a_tab_between_cells() -> None:
    show = table(Column("name", most=10), Column("steps", right=True, spare=1), rows=[["a\tb", "7"], [LONG, "1200"]])

    assert printed(show, terminal=False, width=20) == f"name\tsteps\na\\tb\t7\n{LONG}\t1200\n"


def test_in_a_pipe_an_empty_cell_is_a_dash() -> None:
    show = table(Column("a"), Column("b"), Column("c"), rows=[["1", "", "3"]])

    assert printed(show, terminal=False).splitlines()[1].split() == ["1", "-", "3"]


def test_on_a_terminal_a_long_name_goes_on_below_and_nothing_is_cut() -> None:
    show = table(Column("name"), Column("steps", right=True), rows=[[LONG, "1200"]])

    shown = printed(show, terminal=True, width=40)

    cells = [line[2:35].strip() for line in shown.splitlines()[2:]]
    assert "".join(cells) == LONG
    assert "…" not in shown


def test_on_a_terminal_that_is_too_narrow_what_can_be_spared_goes_first() -> None:
    columns = (Column("name"), Column("class", spare=1), Column("host", spare=2))
    show = table(*columns, rows=[["layer", "x" * 20, "y" * 20]])

    assert printed(show, terminal=True, width=60).split()[:3] == ["name", "class", "host"]
    assert printed(show, terminal=True, width=40).split()[:2] == ["name", "class"]
    assert printed(show, terminal=True, width=20).split()[:2] == ["name", "─" * 5]


def test_on_a_terminal_what_has_no_room_is_named() -> None:
    columns = (Column("name"), *(Column(name, spare=place + 1, called=f"params.{name}")
                                 for place, name in enumerate("abcde")))
    show = table(*columns, rows=[["layer", *("x" * 20 for _ in "abcde")]])

    assert printed(show, terminal=True, width=60).splitlines()[-1] == (
        "  3 more columns (params.c, params.d, params.e): --json")
    assert max(map(len, printed(show, terminal=True, width=60).splitlines())) <= 60
    assert "more column" not in printed(show, terminal=True, width=200)


def test_on_a_terminal_a_long_cell_is_cut_where_its_column_says_so() -> None:
    show = table(Column("name", most=10), Column("b\x1b[31m"), rows=[["a" * 18 + "-2", "x"], ["層" * 18, "x"]])

    assert [line.split() for line in printed(show, terminal=True).splitlines()[-2:]] == [
        ["a" * 6 + "…a-2", "x"], ["層" * 4, "…", "x"]]
    assert "b\\x1b[31m" in printed(show, terminal=True)
    assert "b\\x1b[31m" in printed(show, terminal=False)


def test_on_a_terminal_a_column_that_is_empty_is_left_out() -> None:
    show = table(Column("name"), Column("optimizer"), rows=[["a", ""], ["b", ""]])

    assert "optimizer" not in printed(show, terminal=True)
    assert "optimizer" in printed(show, terminal=False)


@pytest.mark.parametrize("terminal", [True, False])
def test_brackets_and_control_characters_in_names_are_shown_as_they_are(terminal: bool) -> None:
    show = table(Column("name"), rows=[["[bold]a[/bold] \x1b[31m\n:smile:"]])

    assert "[bold]a[/bold] \\x1b[31m\\n:smile:" in printed(show, terminal=terminal)


def test_json_has_neither_nan_nor_inf() -> None:
    def show(printer: Printer) -> None:
        printer.json({"a": math.nan, "b": [math.inf, -math.inf], "c": {Severity.COSTLY: Mode.TRAIN}})

    assert "".join(printed(show, terminal=False).split()) == '{"a":null,"b":["inf","-inf"],"c":{"costly":"train"}}'


def test_bars_show_what_is_zero_and_what_is_not_finite() -> None:
    assert sparkline([1.0, 0.0, math.nan, math.inf]) == "▅·!!"
    assert curve([1.0, math.nan, 3.0]) == "▁!█"
    assert curve([]) == ""
    assert curve([2.0**64, math.nan, 2.0**64, math.inf]) == "▅!▅!"
    assert curve([-1.7e308, 0.0, 1.7e308]) == "▁▅█"
    assert sparkline([]) == ""


def test_of_many_values_a_bar_shows_the_greatest() -> None:
    assert sparkline([1.0] * 50 + [1000.0] + [1.0] * 49, width=10) == "▁▁▁▁▁█▁▁▁▁"


def test_a_share_is_only_all_or_nothing_where_it_is() -> None:
    assert [share(value) for value in (1.0, 0.99999, 0.00001, 0.0)] == ["100%", "99.9%", "0.1%", "0%"]


def finding(severity: Severity, state: FindingState = FindingState.OPEN) -> Finding:
    return Finding("id", "X901", "x", severity, state, "m", "r", (), "", "p0", "", Mode.TRAIN, 0, 0, 0, None, 0.0)


@pytest.mark.parametrize(
    ("findings", "recorded", "judged", "sign"),
    [
        ([finding(Severity.BREAKING), finding(Severity.NOTE)], True, True, ("●", "bold red")),
        ([finding(Severity.COSTLY)], True, False, ("●", "bold yellow")),
        ([finding(Severity.COSTLY, FindingState.CLOSED)], True, True, ("●", "green")),
        ([], True, True, ("●", "green")),
        ([], True, False, ("○", "dim")),
        ([], False, True, ("○", "dim")),
    ],
)
def test_a_layer_is_green_only_where_it_was_looked_at_and_nothing_is_open(
    findings: list[Finding], recorded: bool, judged: bool, sign: tuple[str, str]
) -> None:
    figures = {Kind.WEIGHT: Summary(count=1)} if recorded else {}
    layer = Layer("fc", "Linear", figures, dict.fromkeys(figures, 3), Trend(), tuple(findings))

    text: Text = layer_sign(layer_row(layer, judged=judged))

    assert (text.plain, str(text.style)) == sign


def test_a_layer_whose_findings_are_gone_is_well_again() -> None:
    gone = finding(Severity.COSTLY, FindingState.CLOSED)
    layer = layer_row(Layer("fc", "Linear", {Kind.WEIGHT: Summary(count=1)}, {Kind.WEIGHT: 3}, Trend(), (gone,)),
                      judged=True)

    assert layer.health == "ok"
    assert printed(lambda printer: print_layers(printer, [layer]), terminal=False).endswith("\t-\n")
    assert "(X901)" in printed(lambda printer: print_layers(printer, [layer]), terminal=True)


# Real terminals and pipes


COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]")


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_on_a_terminal_there_is_colour_unless_it_is_not_wanted(
    on_terminal: Callable[..., str], copy: Path, call: Call, environment: dict[str, str], coloured: bool
) -> None:
    call("watch", copy)

    shown = on_terminal("show", copy, "--layers", **environment)

    assert "────" in shown
    assert "●" in shown
    assert bool(COLOUR.search(shown)) is coloured


def test_a_reader_that_has_seen_enough_ends_us_quietly(bin_folder: Path, healthy: Path) -> None:
    with subprocess.Popen(
        [bin_folder / "barograph", "keys", healthy], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        code = process.wait(600)

    assert (code, said) == (141, b"")


@pytest.mark.parametrize("command", ["keys", "show", "runs"])
def test_a_reader_of_json_that_has_seen_enough_ends_us_quietly(bin_folder: Path, healthy: Path, command: str) -> None:
    place = healthy.parent if command == "runs" else healthy
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [bin_folder / "barograph", command, place, "--json"], stdout=writing, stderr=subprocess.PIPE
    ) as process:
        os.close(writing)
        _, said = process.communicate(timeout=600)

    assert (process.returncode, said) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
def test_a_full_disk_is_named_in_one_line(bin_folder: Path, healthy: Path) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run([bin_folder / "barograph", "report", healthy, "--json"], stdout=full,
                               stderr=subprocess.PIPE, text=True, check=False, timeout=600)

    assert ended.stderr == "barograph: Cannot write output: No space left on device.\n"
    assert ended.returncode == 2


def test_letters_that_the_stream_cannot_show_are_no_error(bin_folder: Path, healthy: Path) -> None:
    done = subprocess.run(
        [bin_folder / "barograph", "show", healthy], capture_output=True, check=True, timeout=600,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )

    assert done.stdout.startswith(b"ein lauf \\xfc  finished")


@pytest.mark.parametrize("command", [{"import": "import smdebug", "spot": "spot simulate"}.get(command, command)
                                     for command in COMMANDS])
def test_the_help_of_every_command_teaches_with_examples(call: Call, command: str) -> None:
    said = call(*command.split(), "--help")

    assert said.code == 0
    assert "Examples:" in said.out
    assert said.out.count(f"  barograph {command}") >= 2
    assert "--json" in said.out


def test_help_loads_nothing_that_it_does_not_need(bin_folder: Path) -> None:
    code = (
        "import sys\n"
        "from barograph.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'pyarrow', 'obstore', 'torch'} & set(sys.modules)), file=sys.stderr)\n"
    )
    for command in ("watch", "runs", "show", "keys", "rules", "doctor"):
        done = subprocess.run(
            [bin_folder / "python", "-c", code, command, "--help"], capture_output=True, text=True, check=True
        )
        assert done.stderr == "[]\n", command


EVIL = "a\x1b]0;title\x07\x1b[2J\x9b1m\nb"


@pytest.mark.parametrize("on_terminal", [True, False])
def test_no_control_character_of_a_run_reaches_the_terminal(on_terminal: bool) -> None:
    sink = io.StringIO()
    printer = Printer(Console(file=sink, force_terminal=on_terminal, width=200, color_system=None, markup=False))
    printer.line(EVIL)
    printer.line(Text.assemble("before ", (EVIL, "bold")))
    printer.heading(EVIL, EVIL)
    printer.entries([(EVIL, EVIL), ("name", Text(EVIL))])
    printer.table([Column(EVIL), Column("right", right=True)], [[EVIL, Text(EVIL)]])
    printed = sink.getvalue()
    assert "\x07" not in printed
    assert "\x9b" not in printed
    assert not re.findall(r"\x1b(?!\[[0-9;]*m)", printed)
    assert printed.count("title") == 10


def test_no_control_character_of_an_error_reaches_the_terminal(call: Call) -> None:
    said = call("show", "no\x1b[2Jrun\x07")
    assert said.code == 2
    assert "\\x1b[2J" in said.err
    assert "\x1b" not in said.err
    assert "\x07" not in said.err
