"""What people and files are told of a finding."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from barograph.errors import StoreUnavailable
from barograph.judging.progress import RateJump
from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Finding, FindingState, Severity
from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.queries.problems import problems_of
from barograph.queries.wording import when
from barograph.watch.file_notifier import FileNotifier
from barograph.watch.lasting_stream import LastingStream
from barograph.watch.notices import Event, Notice
from barograph.watch.terminal import TerminalNotifier, text_of
from barograph.watch.wording import finding_lines

FINDING = Finding(
    id="G101-40-000000000000", code="G101", rule="vanishing-gradient", severity=Severity.COSTLY,
    state=FindingState.OPEN, message="The gradient of [fc1] vanishes.", remedy="Use ReLU.",
    evidence=(Evidence(Key(Kind.GRADIENT, "fc1.weight"), 41, "mean_abs", 1e-9, 1e-7, "mean |g| is 1e-9"),),
    subject="", worker="p0", optimizer="", mode=Mode.TRAIN, since_step=40, opened_step=41, last_step=41,
    closed_step=None, opened_unix=0.0,
)
OPENED = Notice(Event.OPENED, finding=FINDING)
CLOSED = Notice(Event.CLOSED, finding=replace(FINDING, state=FindingState.CLOSED, last_step=60, closed_step=63))


def test_an_opened_finding_says_what_where_since_when_and_what_to_do() -> None:
    assert text_of(OPENED).plain == (
        "costly    G101 vanishing-gradient since step 40: The gradient of [fc1] vanishes.\n"
        "          · gradient:fc1.weight at step 41: mean |g| is 1e-9 (threshold 1e-7)\n"
        "          fix: Use ReLU."
    )


def test_a_closed_finding_takes_one_line() -> None:
    assert text_of(CLOSED).plain == "gone      G101 vanishing-gradient: not seen since step 60"


def test_of_several_processes_or_optimizers_the_one_is_named() -> None:
    other = replace(FINDING, worker="p1", optimizer="generator")

    assert text_of(Notice(Event.OPENED, finding=other)).plain.startswith(
        "costly    G101 vanishing-gradient (p1, optimizer generator) since step 40: "
    )


def test_a_finding_that_lasted_says_how_long_and_one_that_is_gone_says_no_remedy() -> None:
    assert when(replace(FINDING, last_step=90)) == "since step 40, last seen in step 90"
    gone = finding_lines(replace(FINDING, state=FindingState.CLOSED, last_step=60, closed_step=63))

    assert [line.plain.partition(": ")[0] for line in gone] == [
        "costly    G101 vanishing-gradient steps 40 to 60, gone", "· gradient:fc1.weight at step 41",
    ]


def test_a_name_that_would_move_the_cursor_is_shown_as_it_is_written() -> None:
    lines = finding_lines(replace(FINDING, message="layer \x1b[2J\nfc"))

    assert lines[0].plain.endswith(": layer \\x1b[2J\\nfc")


def test_a_problem_or_an_action_is_told_in_its_own_words() -> None:
    assert text_of(Notice(Event.PROBLEM, "The store is away.")).plain == "barograph: The store is away."
    assert text_of(Notice(Event.ACTION, "asked to stop", FINDING)).plain == "barograph: asked to stop"


def test_the_terminal_shows_brackets_as_they_are_and_breaks_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    long = Notice(Event.OPENED, finding=replace(FINDING, remedy="x" * 300))

    TerminalNotifier(Console(width=40)).notify(long)

    out = capsys.readouterr().out
    assert "[fc1]" in out
    assert "x" * 300 in out


def test_a_file_gets_one_line_of_json_for_each_event(tmp_path: Path) -> None:
    path = tmp_path / "näw folder" / "findings.jsonl"
    notifier = FileNotifier(path)

    for notice in (OPENED, CLOSED, Notice(Event.PROBLEM, "The store is away.")):
        notifier.notify(notice)

    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line["event"] for line in lines] == ["opened", "closed", "problem"]
    assert lines[0]["finding"]["evidence"][0]["value"] == 1e-9


def test_a_terminal_that_nobody_reads_ends_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as stream:
        notifier = TerminalNotifier(Console(file=LastingStream(stream)))  # type: ignore[arg-type]

        notifier.notify(OPENED)
        notifier.notify(CLOSED)
        stream.flush()  # into the void: nothing of it may fail once more when the process ends


def test_a_stream_is_written_to_as_long_as_somebody_reads_it() -> None:
    stream = LastingStream(io.StringIO())
    assert not stream.gone
    assert stream.write("heard") == 5
    assert not stream.isatty()

    nowhere = LastingStream(None)
    nowhere.flush()

    assert nowhere.gone
    assert nowhere.write("unheard") == 7
    with pytest.raises(OSError, match="nobody reads"):
        nowhere.fileno()


def test_several_runs_are_told_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "findings.jsonl"

    for run in ("runs/a", "runs/b", "runs/a"):
        FileNotifier(path, run).notify(OPENED)

    assert [json.loads(line)["run"] for line in path.read_text().splitlines()] == ["runs/a", "runs/b"]


def test_a_file_gets_no_event_twice_over_restarts_either(tmp_path: Path) -> None:
    path = tmp_path / "findings.jsonl"

    for _ in range(2):
        notifier = FileNotifier(path)
        notifier.notify(OPENED)
        notifier.notify(OPENED)

    assert len(path.read_text().splitlines()) == 1


def test_a_line_that_a_crash_cut_short_swallows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "findings.jsonl"
    path.write_text('{"event": "opened", "id": "G1')

    FileNotifier(path).notify(OPENED)

    assert [line["id"] for line in FileNotifier(path)._lines()] == [FINDING.id]


def test_a_file_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreUnavailable, match="The file of findings cannot be written"):
        FileNotifier(tmp_path / "file" / "findings.jsonl").notify(OPENED)


def told_of(*notices: Notice, name: str = "", without: Collection[str] = ()) -> list[str]:
    written = io.StringIO()
    notifier = TerminalNotifier(Console(file=written, width=80), name=name, without=without)
    for notice in notices:
        notifier.notify(notice)
    return written.getvalue().splitlines()


DEAD = replace(FINDING, id="A101-9", code="A101", rule="dead-relu", opened_step=30,
               causes=(Suspicion(Cause.DEAD_RELU, 0.9, "the biases are -10", "Initialize biases to 0."),))
LATER = replace(FINDING, id="L108-9", code="L108", rule="underfit", opened_step=229,
                causes=(Suspicion(Cause.LABELS_UNRELATED, 0.6),))


def test_on_a_terminal_a_problem_takes_two_lines_when_it_opens() -> None:
    assert told_of(Notice(Event.OPENED, finding=DEAD)) == [
        "costly    ReLU units are dead (since step 40, A101)",
        "          fix: Initialize biases to 0."]


def test_the_name_of_a_run_precedes_its_problem() -> None:
    assert told_of(Notice(Event.OPENED, finding=DEAD), Notice(Event.OPENED, finding=LATER), name="team/first") == [
        "team/first: costly    ReLU units are dead (since step 40, A101)",
        "          fix: Initialize biases to 0."]


def test_rules_can_be_left_out_on_a_terminal() -> None:
    assert told_of(Notice(Event.OPENED, finding=DEAD), without={"A101"}) == []
    assert len(told_of(Notice(Event.OPENED, finding=DEAD), without={"L108"})) == 2


def test_what_only_follows_from_a_problem_is_not_told_as_it_opens() -> None:
    assert len(told_of(Notice(Event.OPENED, finding=DEAD), Notice(Event.OPENED, finding=LATER))) == 2


def test_a_problem_is_told_as_gone_once_all_its_findings_are() -> None:
    gone, later_gone = (replace(item, state=FindingState.CLOSED, last_step=60) for item in (DEAD, LATER))
    opened = [Notice(Event.OPENED, finding=item) for item in (DEAD, LATER)]

    assert len(told_of(*opened, Notice(Event.CLOSED, finding=gone))) == 2
    assert told_of(*opened, Notice(Event.CLOSED, finding=gone), Notice(Event.CLOSED, finding=later_gone))[2:] == [
        "gone      ReLU units are dead: not seen since step 60"]


def test_a_finding_that_opens_and_closes_again_and_again_is_told_once() -> None:
    gone = replace(DEAD, state=FindingState.CLOSED, last_step=60)
    turns = [Notice(Event.OPENED, finding=DEAD), Notice(Event.CLOSED, finding=gone)] * 7

    assert len(told_of(*turns)) == 3


def test_a_jump_of_the_learning_rate_is_named_as_it_happens() -> None:
    written = io.StringIO()
    notifier = TerminalNotifier(Console(file=written, width=80))
    spike = replace(FINDING, code="L104", rule="loss-spike")
    notifier.found = lambda: problems_of([spike], [RateJump("p0", 35, 0.05, 30.0, 34)])
    notifier.notify(Notice(Event.OPENED, finding=spike))

    assert written.getvalue().startswith("costly    The learning rate jumped from 0.05 to 30 at step 35 (L104)\n")
