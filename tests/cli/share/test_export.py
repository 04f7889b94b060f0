"""`barograph export`: what it writes and sends, and what it says where it cannot."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from barograph.cli.main import EXIT_ERROR, main
from barograph.cli.share.export_page import AWAY_SECS, SEND_SECS, Handed, export_otel, follow_run
from barograph.errors import EndpointFailed
from barograph.export.readings import readings_of
from barograph.model.clock import ManualClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat, Manifest
from barograph.model.records import StepRecords
from barograph.model.settings import Settings
from barograph.model.step import Step
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.runs.writing.writer import RunWriter
from barograph.store.urls import store_from_url

LOSS, STEP = Key(Kind.LOSS, "total"), Key(Kind.TIME, "step")


class Machine:
    problem = ""

    def sample(self) -> dict[str, float]:
        return {"cpu": 50.0}

    def close(self) -> None:
        pass


class Training:
    """A run that is written step by step."""

    def __init__(self, place: Path) -> None:
        self.store, self.clock = store_from_url(place), ManualClock()
        manifest = Manifest("20260101T000000Z-abc", "example", self.clock.unix())
        attempt = claim_run(self.store, manifest, clock=self.clock).attempt
        worker = claim_worker(self.store, attempt=attempt, clock=self.clock)
        self.writer = RunWriter(
            self.store, worker, settings=Settings(), clock=self.clock, background=False, wait=self.clock.advance,
            status=lambda: Heartbeat(0, 0.0), sampler=lambda: Machine(),  # type: ignore[arg-type, return-value]
        )

    def step(self, number: int) -> None:
        step = Step(number, number, time_unix=self.clock.unix())
        self.writer.put(StepRecords(step, scalars={LOSS: 1.0 / (number + 1), STEP: 0.25}))
        self.clock.advance(1.0)
        self.writer.turn()

    def end(self) -> None:
        assert self.writer.close(EndState.FINISHED).complete


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path / "ein lauf ü")


@pytest.fixture
def place(training: Training, tmp_path: Path) -> str:
    for number in range(4):
        training.step(number)
    training.end()
    return str(tmp_path / "ein lauf ü")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert end.value.code == EXIT_ERROR
    return capsys.readouterr().err


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert end.value.code == 0
    return capsys.readouterr().out


def test_a_trace_is_written_and_named(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "trace.json"
    text = told(capsys, "export", "chrome", place, "-o", str(out))
    events = json.loads(out.read_text(encoding="utf-8"))["traceEvents"]
    assert f"Wrote {len(events)} events to {out}." in text
    assert {item["name"] for item in events} >= {"step 0", "step 3", "machine:cpu", "loss:total"}


def test_metrics_are_written_to_a_file(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    out = tmp_path / "metrics.jsonl"
    assert "Wrote 12 numbers to" in told(capsys, "export", "otel", place, "--json", str(out))
    (line,) = out.read_text(encoding="utf-8").splitlines()
    metrics = json.loads(line)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    assert {item["name"] for item in metrics} == {"barograph.loss", "barograph.step.duration", "system.cpu.utilization"}


def test_without_the_extra_it_is_named(place: str, monkeypatch: pytest.MonkeyPatch,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry.exporter")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    assert "pip install 'barograph[otel]'" in refused(capsys, "export", "otel", place, "--endpoint", "http://a")


@pytest.mark.parametrize("what", [["chrome"], ["otel", "--json", "m.jsonl"]])
def test_where_there_is_no_run_it_says_so(what: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    monkeypatch.chdir(tmp_path)
    assert "No run at nowhere" in refused(capsys, "export", what[0], "nowhere", *what[1:])
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_numbers_is_named(training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    training.end()
    assert "has no losses, times or machine metrics" in refused(capsys, "export", "chrome", "ein lauf ü")


def test_a_file_that_cannot_be_written_is_named(place: str, tmp_path: Path,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "no such folder" / "trace.json"
    assert f"Cannot write {out}: No such file or directory." in refused(
        capsys, "export", "chrome", place, "-o", str(out))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
@pytest.mark.parametrize("what", [["chrome", "-o"], ["otel", "--json"]])
def test_a_disk_that_is_full_is_named(place: str, what: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    assert "Cannot write /dev/full: No space left on device." in refused(
        capsys, "export", what[0], place, what[1], "/dev/full")


def test_without_an_address_it_says_where_one_may_be_set(place: str, monkeypatch: pytest.MonkeyPatch,
                                                         capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", raising=False)
    assert "set OTEL_EXPORTER_OTLP_ENDPOINT" in refused(capsys, "export", "otel", place)


class Destination:
    """Takes what it is sent, unless it refuses."""

    def __init__(self) -> None:
        self.points = 0
        self.sent = 0
        self.refuses = False

    def send(self, metrics: Any) -> None:
        if self.refuses:
            raise EndpointFailed("full")
        self.sent += 1
        self.points += sum(len(metric.data.data_points) for resource in metrics.resource_metrics
                           for scope in resource.scope_metrics for metric in scope.metrics)


def followed(training: Training, destination: Destination, script: list[Any]) -> Handed:
    """Follow the run while the script goes on: one of its entries at each wait."""
    clock = ManualClock()

    def wait(secs: float) -> None:
        clock.advance(SEND_SECS)
        training.clock.advance(secs)
        if script:
            script.pop(0)()

    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    run = RunReader(training.store, clock=training.clock)
    return follow_run(run, destination, monotonic=clock.monotonic, wait=wait)


def test_a_run_is_followed_to_its_end_and_every_number_comes_once(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barograph.export.otel_metrics.BATCH_POINTS", 2)
    destination = Destination()
    handed = followed(training, destination, [
        lambda: training.step(0), lambda: training.step(1), lambda: training.step(2), training.end,
    ])
    assert handed == (destination.points, False)
    assert destination.points == len(readings_of(RunReader(training.store)))
    assert destination.sent >= 3


def test_what_an_endpoint_refused_comes_again_once_it_is_back(training: Training) -> None:
    destination = Destination()

    def refuse(refuses: bool) -> None:
        destination.refuses = refuses
        training.step(training_steps.pop(0))

    training_steps = [0, 1, 2]
    handed = followed(training, destination, [
        lambda: refuse(True), lambda: refuse(True), lambda: refuse(False), training.end,
    ])
    assert handed == (destination.points, False)
    assert destination.points == len(readings_of(RunReader(training.store)))


def test_an_endpoint_that_stays_away_ends_it(training: Training) -> None:
    destination = Destination()
    destination.refuses = True
    steps = [lambda number=number: training.step(number) for number in range(2 * int(AWAY_SECS))]
    with pytest.raises(EndpointFailed, match="full"):
        followed(training, destination, steps)
    assert len(steps) >= AWAY_SECS - 3


def test_an_interrupt_ends_it_and_what_was_handed_on_is_told(
    training: Training, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

    def interrupt(secs: float) -> None:
        raise KeyboardInterrupt

    for number in range(9):
        training.step(number)
    out = tmp_path / "metrics.jsonl"
    assert export_otel(str(tmp_path / "ein lauf ü"), None, out, follow=True, wait=interrupt)
    said = capsys.readouterr().out
    assert "Ctrl-C stops the export, not the training." in said
    assert f"Wrote 24 numbers to {out}.\nInterrupted before the run ended. Running the command again" in said
    assert len(out.read_text(encoding="utf-8").splitlines()) == 1
    training.end()
    assert not export_otel(str(tmp_path / "ein lauf ü"), None, out, follow=True, wait=interrupt)
    assert "Interrupted" not in capsys.readouterr().out


def test_an_interrupt_in_the_middle_of_a_batch_waits_for_its_end(training: Training) -> None:
    class Interrupted(Destination):
        def send(self, metrics: Any) -> None:
            signal.raise_signal(signal.SIGINT)
            super().send(metrics)

    destination = Interrupted()
    handed = followed(training, destination, [lambda number=number: training.step(number) for number in range(9)])
    assert handed.interrupted
    assert handed.numbers == destination.points > 0


def test_an_interrupt_is_not_lost_where_the_batch_is_refused(training: Training) -> None:
    class Refusing(Destination):
        def send(self, metrics: Any) -> None:
            self.sent += 1
            signal.raise_signal(signal.SIGINT)
            raise EndpointFailed("away")

    destination = Refusing()
    handed = followed(training, destination, [lambda number=number: training.step(number) for number in range(9)])
    assert handed == (0, True)
    # Nor is it sent once more, to an endpoint that has just refused it.
    assert destination.sent == 1
