"""A run that goes on, as event files that grow: each step once, whoever writes and however the one before ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import barograph
from barograph.cli.share.tensorboard_page import follow_and_print
from barograph.errors import ExportError, StoreUnavailable
from barograph.export.tensorboard import export_tensorboard
from barograph.export.tensorboard_following import TensorboardFollower
from barograph.measures.summary import row_from_summary, summarize
from barograph.model.clock import ManualClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat, Manifest
from barograph.model.records import StepRecords, Subject
from barograph.model.settings import Settings
from barograph.model.step import Mode, Step
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.runs.writing.writer import RunWriter
from barograph.store.urls import store_from_url
from barograph.wire.events import event_from_message
from barograph.wire.framing import Record, records_in

LOSS, WEIGHT = Key(Kind.LOSS, "total"), Key(Kind.WEIGHT, "fc.weight")
MOMENTS, EXPONENTS = row_from_summary(summarize(np.array([-3.0, 0.0, 1.5])))


class Training:
    """A run that is written step by step, and may be resumed."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.store, self.clock = store_from_url(place), ManualClock(unix=1e9)
        self.begin()

    def begin(self) -> None:
        manifest = Manifest("20260101T000000Z-abc", "example", 1e9)
        attempt = claim_run(self.store, manifest, clock=self.clock).attempt
        self.writer = RunWriter(
            self.store, claim_worker(self.store, attempt=attempt, clock=self.clock), settings=Settings(),
            clock=self.clock, background=False, wait=self.clock.advance, status=lambda: Heartbeat(0, 0.0),
        )

    def step(self, number: int, mode: Mode = Mode.TRAIN, optimizer: str = "") -> None:
        step = Step(number, number, optimizer, mode, time_unix=self.clock.unix())
        of_tensors = (Subject(WEIGHT),), MOMENTS[None], EXPONENTS[None]
        records = StepRecords(step, *(of_tensors if mode is Mode.TRAIN else ()), scalars={LOSS: 1.0 / (number + 1)})
        self.write(self.writer, records)

    def write(self, writer: RunWriter, records: StepRecords) -> None:
        writer.put(records)
        writer.turn()
        self.clock.advance(10.0)
        writer.turn()

    def end(self, state: EndState = EndState.FINISHED) -> None:
        assert self.writer.close(state).complete

    def follower(self, out: Path) -> TensorboardFollower:
        return TensorboardFollower(RunReader(self.store, clock=self.clock), out, clock=self.clock)

    def follow(self, out: Path) -> bool:
        """Follow it by another process, once; return whether it has ended."""
        follower = self.follower(out)
        try:
            turn = follower.turn()
            while turn.more:
                turn = follower.turn()
            return turn.ended
        finally:
            follower.close()


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path / "run")


def steps_of(folder: Path, tag: str = "loss/total") -> list[int | str]:
    """Steps of a tag in the order of the file; "from 3" where it says that a resumed training goes on from there."""
    (path,) = folder.glob("*tfevents*")
    found: list[int | str] = []
    for record in records_in(memoryview(path.read_bytes())):
        assert isinstance(record, Record)
        event = event_from_message(record.payload)
        found += [f"from {event.step}"] if event.restarts and event.step else []
        found += [event.step for value in event.values if value.tag == tag]
    return found


def values_in(folder: Path) -> list[bytes]:
    (path,) = folder.glob("*tfevents*")
    records = [record.payload for record in records_in(memoryview(path.read_bytes())) if isinstance(record, Record)]
    return [bytes(payload) for payload in records if event_from_message(payload).values]


def files_in(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*tfevents*")}


def test_what_is_new_is_added_until_the_run_has_ended(training: Training, tmp_path: Path) -> None:
    follower, out = training.follower(tmp_path / "out"), tmp_path / "out"
    training.step(0)
    assert not follower.turn().ended
    assert steps_of(out / "train") == [0]
    training.step(1)
    training.step(1, Mode.EVAL)
    assert follower.turn().step == 1
    assert steps_of(out / "train") == [0, 1]
    training.end()
    assert follower.turn().ended
    assert steps_of(out / "eval") == [1]


def test_a_run_that_was_followed_is_as_one_that_was_exported(training: Training, tmp_path: Path) -> None:
    for number in range(3):
        training.step(number)
        training.follow(tmp_path / "out")
    training.step(2, Mode.EVAL)
    training.end()
    assert training.follow(tmp_path / "out")
    follower = training.follower(tmp_path / "out")
    exported = export_tensorboard(barograph.open(training.place), tmp_path / "exported")
    assert follower.exported.folders == exported.folders
    assert (follower.exported.scalars, follower.exported.histograms) == (exported.scalars, exported.histograms)
    for folder in ("train", "eval"):  # laid out by steps, where an export is laid out by kinds
        assert sorted(values_in(tmp_path / "out" / folder)) == sorted(values_in(tmp_path / "exported" / folder))


def test_what_was_killed_in_the_middle_of_writing_is_gone_on_from(training: Training, tmp_path: Path) -> None:
    out = tmp_path / "out"
    training.step(0)
    training.follow(out)
    training.follow(tmp_path / "whole")
    metadata_file = next(out.glob(".*.json")).read_bytes()
    training.step(1)
    training.step(1, Mode.EVAL)
    training.follow(out)
    training.follow(tmp_path / "whole")
    # As a process leaves it that was killed before its last line: one file half written, another begun.
    next(out.glob(".*.json")).write_bytes(metadata_file)
    (path,) = (out / "train").iterdir()
    os.truncate(path, path.stat().st_size - 7)
    training.step(2)
    training.follow(out)
    training.follow(tmp_path / "whole")
    assert files_in(out) == files_in(tmp_path / "whole")
    assert steps_of(out / "train") == [0, 1, 2]


@pytest.mark.parametrize(
    "damage",
    [
        lambda metadata_file, events: metadata_file.write_text("not ours"),
        lambda metadata_file, events: metadata_file.write_text(
            metadata_file.read_text("utf-8").replace('"step": 1', '"step": 7'), "utf-8"
        ),
        lambda metadata_file, events: metadata_file.unlink(),
        lambda metadata_file, events: events.write_bytes(b""),
        lambda metadata_file, events: events.unlink(),
    ],
    ids=["no paper of ours", "a changed paper", "no paper", "an empty file", "no file"],
)
def test_where_there_is_nothing_to_go_on_from_all_is_written_anew(
    training: Training, tmp_path: Path, damage: object
) -> None:
    out = tmp_path / "out"
    training.step(0)
    training.step(1)
    training.follow(out)
    damage(next(out.glob(".*.json")), next((out / "train").iterdir()))  # type: ignore[operator]
    training.step(2)
    training.follow(out)
    assert steps_of(out / "train") == [0, 1, 2]
    assert steps_of(out / "train", "weight/fc.weight/l2") == [0, 1, 2]


def test_an_export_and_a_following_may_take_turns(training: Training, tmp_path: Path) -> None:
    out = tmp_path / "out"
    training.step(0)
    export_tensorboard(barograph.open(training.place), out)
    training.step(1)
    training.follow(out)
    training.step(2)
    training.follow(out)
    assert steps_of(out / "train") == [0, 1, 2]
    export_tensorboard(barograph.open(training.place), out)
    training.step(3)
    training.follow(out)
    assert steps_of(out / "train") == [0, 1, 2, 3]


def test_steps_that_a_resumed_training_makes_again_supersede_those_before(training: Training, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for number in range(4):
        training.step(number)
    training.step(2, Mode.EVAL)
    training.follow(out)
    training.end(EndState.FAILED)
    training.begin()
    training.step(2)
    training.step(3)
    training.end()
    training.follow(out)
    assert steps_of(out / "train") == [0, 1, 2, 3, "from 2", 2, 3]
    # The evaluation before step 2 is made again only where it was lost.
    assert steps_of(out / "eval") == [2, "from 3"]


CRITIC, ACTOR = "loss/total (critic)", "loss/total (actor)"


BEGINS = {"critic": 100, "actor": 20}


def two_optimizers_resumed(training: Training, look: Callable[[], object], order: tuple[str, str]) -> None:
    """Make steps of a critic from 100 on and of an actor from 20 on, and some of them again in that order."""
    for number in range(4):
        training.step(100 + number, optimizer="critic")
        training.step(20 + number, optimizer="actor")
        training.step(100 + number, Mode.EVAL)
    look()
    training.end(EndState.FAILED)
    training.begin()
    for number in range(2, 5):
        for optimizer in order:
            training.step(BEGINS[optimizer] + number, optimizer=optimizer)
            look()
    training.end()
    look()


@pytest.mark.parametrize("order", [("critic", "actor"), ("actor", "critic")], ids=["critic first", "actor first"])
@pytest.mark.parametrize("looks", [lambda look: look, lambda look: lambda: None], ids=["at each step", "at the end"])
def test_tensorboard_itself_shows_each_step_of_optimizers_that_count_differently_once(
    training: Training, tmp_path: Path, looks: Callable[[Callable[[], object]], Callable[[], object]],
    order: tuple[str, str],
) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    module = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_accumulator",
                                 reason="tensorboard cannot be loaded")
    out = tmp_path / "out"
    two_optimizers_resumed(training, looks(lambda: training.follow(out)), order)
    assert training.follow(out)
    shown = module.EventAccumulator(str(out / "train"), tensor_size_guidance={"scalars": 0}).Reload()
    assert [item.step for item in shown.Tensors(CRITIC)] == [100, 101, 102, 103, 104]
    assert [item.step for item in shown.Tensors(ACTOR)] == [20, 21, 22, 23, 24]
    assert [item.step for item in shown.Tensors("weight/fc.weight (critic)/l2")] == [100, 101, 102, 103, 104]
    evaluated = module.EventAccumulator(str(out / "eval"), tensor_size_guidance={"scalars": 0}).Reload()
    # The evaluation after 102 steps of the critic is not made again, that after 103 was lost.
    assert [item.step for item in evaluated.Tensors("loss/total")] == [100, 101, 102]


def test_an_evaluation_made_before_the_last_optimizer_begins_again_stands_once(
    training: Training, tmp_path: Path
) -> None:
    module = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_accumulator",
                                 reason="tensorboard cannot be loaded")
    out = tmp_path / "out"
    for number in range(100, 104):
        training.step(number, optimizer="critic")
        training.step(number + 1, Mode.EVAL)
    training.step(20, optimizer="actor")
    training.end(EndState.FAILED)
    training.begin()
    for step in (
        lambda: training.step(102, optimizer="critic"), lambda: training.step(103, Mode.EVAL),
        lambda: training.step(20, optimizer="actor"), training.end,
    ):
        step()
        training.follow(out)
    evaluated = module.EventAccumulator(str(out / "eval"), tensor_size_guidance={"scalars": 0}).Reload()
    shown = evaluated.Tensors("loss/total")
    assert [item.step for item in shown] == [101, 102, 103]
    # That of the resumed training, not the one it supersedes.
    assert [item.wall_time for item in shown] == sorted(item.wall_time for item in shown)
    assert shown[-1].wall_time > 1e9 + 90


def test_two_cannot_follow_a_run_into_one_folder(training: Training, tmp_path: Path) -> None:
    follower = training.follower(tmp_path / "out")
    with pytest.raises(ExportError, match=r"Another process already follows this run into .*out"):
        training.follower(tmp_path / "out")
    follower.close()
    training.follower(tmp_path / "out").close()


def test_files_that_something_else_changes_meanwhile_are_named(training: Training, tmp_path: Path) -> None:
    follower = training.follower(tmp_path / "out")
    training.step(0)
    follower.turn()
    (path,) = (tmp_path / "out" / "train").iterdir()
    path.unlink()
    training.step(1)
    with pytest.raises(ExportError, match=r"Another program changed an event file .*tfevents"):
        follower.turn()
    follower.close()
    training.follow(tmp_path / "out")
    assert steps_of(tmp_path / "out" / "train") == [0, 1]


def test_a_folder_with_other_events_is_refused(training: Training, tmp_path: Path) -> None:
    other = tmp_path / "out" / "events.out.tfevents.1.host"
    other.parent.mkdir()
    other.write_bytes(b"theirs")
    with pytest.raises(ExportError, match=r"has events of something else"):
        training.follower(tmp_path / "out")
    assert [path.read_bytes() for path in (tmp_path / "out").iterdir()] == [b"theirs"]


def test_a_second_process_has_folders_of_its_own(training: Training, tmp_path: Path) -> None:
    training.step(0)
    training.follow(tmp_path / "out")
    second = RunWriter(
        training.store, claim_worker(training.store, attempt=0, clock=training.clock), settings=Settings(),
        clock=training.clock, background=False, wait=training.clock.advance, status=lambda: Heartbeat(0, 0.0),
    )
    training.write(second, StepRecords(Step(5, 5, time_unix=1e9), scalars={LOSS: 0.5}))
    training.step(1)
    training.follow(tmp_path / "out")
    assert steps_of(tmp_path / "out" / "train") == [0, 1]
    assert steps_of(tmp_path / "out" / "p1" / "train") == [5]


# The command, with the clock and the waits passed in


def test_the_command_looks_as_often_as_it_is_told_until_the_end(
    training: Training, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waits: list[float] = []

    def wait(secs: float) -> None:
        waits.append(secs)
        training.step(len(waits) - 1) if len(waits) < 4 else training.end()

    interrupted = follow_and_print(
        str(training.place), tmp_path / "out", every_secs=2.5, as_json=False, wait=wait, clock=training.clock)
    assert not interrupted
    assert waits == [2.5] * 4
    assert steps_of(tmp_path / "out" / "train") == [0, 1, 2]
    assert "written: 27 scalars, 3 histograms, 0 findings." in capsys.readouterr().out


def test_an_interrupt_ends_it_and_the_same_command_goes_on(
    training: Training, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(secs: float) -> None:
        raise KeyboardInterrupt

    training.step(0)
    assert follow_and_print(
        str(training.place), tmp_path / "out", every_secs=1, as_json=False, wait=interrupt, clock=training.clock)
    assert "Interrupted before the run ended. Run the command again to continue" in capsys.readouterr().out
    training.step(1)
    training.end()
    assert not follow_and_print(
        str(training.place), tmp_path / "out", every_secs=1, as_json=True, wait=interrupt, clock=training.clock)
    assert '"interrupted": false' in capsys.readouterr().out
    assert steps_of(tmp_path / "out" / "train") == [0, 1]


def test_a_store_that_is_away_for_a_while_loses_nothing(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    training.step(0)
    training.end()
    poll, answers = TensorboardFollower.turn, [StoreUnavailable("away"), StoreUnavailable("away")]

    def sometimes(follower: TensorboardFollower) -> object:
        if answers:
            raise answers.pop()
        return poll(follower)

    monkeypatch.setattr(TensorboardFollower, "turn", sometimes)
    assert not follow_and_print(str(training.place), tmp_path / "out", every_secs=1, as_json=False,
                               wait=training.clock.advance, clock=training.clock)
    assert steps_of(tmp_path / "out" / "train") == [0]

    monkeypatch.setattr(TensorboardFollower, "turn", lambda follower: (_ for _ in ()).throw(StoreUnavailable("gone")))
    with pytest.raises(StoreUnavailable, match="gone"):
        follow_and_print(str(training.place), tmp_path / "out", every_secs=100, as_json=False,
                        wait=training.clock.advance, clock=training.clock)


def test_an_interrupt_is_not_lost_while_the_store_is_away(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def away(follower: TensorboardFollower) -> object:
        signal.raise_signal(signal.SIGINT)
        raise StoreUnavailable("away")

    training.step(0)
    training.follow(tmp_path / "out")
    monkeypatch.setattr(TensorboardFollower, "turn", away)
    assert follow_and_print(str(training.place), tmp_path / "out", every_secs=1, as_json=False, wait=waits.append,
                           clock=training.clock)
    assert waits == []


def test_tensorboard_itself_shows_each_step_once_after_a_restart(training: Training, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    module = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_accumulator",
                                 reason="tensorboard cannot be loaded")
    out = tmp_path / "out"
    for number in range(4):
        training.step(number)
    training.follow(out)
    reader = module.EventAccumulator(str(out / "train"), tensor_size_guidance={"scalars": 0}).Reload()
    assert [item.step for item in reader.Tensors("loss/total")] == [0, 1, 2, 3]
    training.end(EndState.FAILED)
    training.begin()
    training.step(2)
    training.end()
    training.follow(out)
    assert [item.step for item in reader.Reload().Tensors("loss/total")] == [0, 1, 2]
