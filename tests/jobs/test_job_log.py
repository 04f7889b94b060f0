from __future__ import annotations

import pytest

from barograph.errors import NotARun, ObjectExists, StoreUnavailable
from barograph.jobs.instance_log import InstanceLog, LogReader
from barograph.jobs.job_log import SPEC, EventLog, NotLeading
from barograph.jobs.last_error import last_error
from barograph.jobs.spec import spec_from_options
from barograph.jobs.submission import Submission, read_submission, write_submission
from barograph.jobs.uploads import CheckpointSync
from barograph.provenance.secrets import Secrets
from barograph.runs.format.metadata import sealed, unsealed
from barograph.store.urls import store_from_url


@pytest.fixture
def store(tmp_path):
    return store_from_url(str(tmp_path / "job"))


def test_events_are_read_in_order_and_once(store) -> None:
    log, reader = EventLog(store, "job/events", clock=lambda: 5.0), EventLog(store, "job/events")
    log.append("submitted")
    log.append("starting", attempt=0)
    assert [(event.kind, event.time_unix, event.data) for event in reader.new()] == [
        ("submitted", 5.0, {}), ("starting", 5.0, {"attempt": 0})]
    assert reader.new() == []


def test_events_that_were_read_before_the_store_failed_are_not_lost(store) -> None:
    log, reader = EventLog(store, "job/events"), EventLog(store, "job/events")
    for kind in ("submitted", "starting", "started"):
        log.append(kind)
    get, failing = store.get, ["job/events/00000001.json"] * 2

    def flaky(name: str):
        if name in failing:
            failing.remove(name)
            raise StoreUnavailable("The store cannot be reached.")
        return get(name)

    store.get = flaky
    assert [event.kind for event in reader.new()] == ["submitted"]
    with pytest.raises(StoreUnavailable):
        reader.new()
    assert [event.kind for event in reader.new()] == ["starting", "started"]


def test_of_two_controllers_only_one_decides(store) -> None:
    first, second = EventLog(store, "job/events"), EventLog(store, "job/events")
    first.append("starting", attempt=0)
    with pytest.raises(NotLeading):
        second.append("starting", attempt=0)
    assert [event.kind for event in second.new()] == ["starting"]
    second.append("started")


class LostResponses:
    """A store that writes, but whose first response is lost."""

    def __init__(self, store) -> None:
        self.store, self.lost = store, False

    def create(self, name, data) -> None:
        self.store.create(name, data)
        if not self.lost:
            self.lost = True
            raise StoreUnavailable("The response was lost.")

    def get(self, name):
        return self.store.get(name)


def test_an_event_whose_response_was_lost_is_found_again(store) -> None:
    log = EventLog(LostResponses(store), "job/events")
    with pytest.raises(StoreUnavailable):
        log.append("ready")
    log.append("ready")
    log.append("training")
    assert [event.kind for event in EventLog(store, "job/events").new()] == ["ready", "training"]


def test_another_event_after_a_lost_response_does_not_take_the_number_of_the_first(store) -> None:
    log = EventLog(LostResponses(store), "job/events", reads=False)
    with pytest.raises(StoreUnavailable):
        log.append("notice", reason="spot")
    log.append("training")
    assert [event.kind for event in EventLog(store, "job/events").new()] == ["notice", "training"]


def test_a_controller_reads_its_event_with_a_lost_response_before_it_decides_something_else(store) -> None:
    log = EventLog(LostResponses(store), "job/events")
    with pytest.raises(StoreUnavailable):
        log.append("starting", attempt=0)
    with pytest.raises(NotLeading):
        log.append("over", phase="stopped")
    assert [event.kind for event in log.new()] == ["starting"]
    log.append("over", phase="stopped")
    assert [event.kind for event in EventLog(store, "job/events").new()] == ["starting", "over"]


def test_events_of_one_kind_with_other_data_are_two(store) -> None:
    log = EventLog(LostResponses(store), "job/events", reads=False)
    with pytest.raises(StoreUnavailable):
        log.append("notice", deadlines=(5.0,))
    log.append("notice", deadlines=(3.0,))
    assert [event.data for event in EventLog(store, "job/events").new()] == [
        {"deadlines": [5.0]}, {"deadlines": [3.0]}]


def test_a_damaged_event_keeps_its_number(store) -> None:
    EventLog(store, "job/events").append("submitted")
    store.put("job/events/00000000.json", b"{")
    assert [event.kind for event in EventLog(store, "job/events").new()] == ["damaged"]


def test_a_submission_is_written_once(store) -> None:
    with pytest.raises(NotARun):
        read_submission(store)
    submission = Submission("digits", spec_from_options({"command": ["train.py"], "price": 2.0}), "{}", "/here", "ab")
    write_submission(store, submission)
    read = read_submission(store)
    assert (read.name, read.directory, read.code, read.spec.to_json()) == (
        "digits", "/here", "ab", submission.spec.to_json())
    with pytest.raises(ObjectExists):
        write_submission(store, submission)


def test_a_submission_of_another_version_is_read(store) -> None:
    write_submission(store, Submission("digits", spec_from_options({"command": ["train.py"]})))
    store.put(SPEC, sealed({**unsealed(store.get(SPEC), SPEC), "zone": "b"}))
    assert read_submission(store).name == "digits"


def test_output_is_read_as_it_comes_without_secrets(store) -> None:
    now = [0.0]
    log = InstanceLog(store, 0, 1, secrets=Secrets({"API_TOKEN": "hunter2hunter2"}), clock=lambda: now[0])
    reader = LogReader(store, 0, 1)
    log.add(b"one\n")
    log.write()
    log.add(b"the token is hunter2hunter2\n")
    log.write()
    assert list(reader.new()) == ["one\n"]
    now[0] = 1.0
    log.write()
    assert list(reader.new()) == ["the token is ***\n"]


def test_of_too_much_output_the_beginning_and_the_end_are_kept(store) -> None:
    log = InstanceLog(store, 0, 0, secrets=Secrets(), most_bytes=100)
    log.add(b"begin\n")
    for number in range(3):
        log.add(f"{number}".encode() * 2**20 + b"\n")
    log.add(b"end\n")
    log.write(last=True)
    text = "".join(LogReader(store, 0, 0).new())
    assert text.startswith("begin\n[barograph: of output above 100 bytes only the end is stored]\n"
                           "[barograph: 2,097,154 bytes of output were left out]\n2222")
    assert text.endswith("2\nend\n")


def test_output_waits_for_a_store_that_is_unreachable_and_comes_in_parts(store) -> None:
    log = InstanceLog(store, 0, 0, secrets=Secrets(), clock=lambda: 0.0)
    for number in range(5):
        log.add(f"{number}".encode() * 2**19 + b"\n")
    put, store.put = store.put, None
    with pytest.raises(TypeError):
        log.write()
    store.put = put
    log.write()
    assert "".join(LogReader(store, 0, 0).new()) == "0" * 2**19 + "\n"
    log.write()
    log.write(last=True)
    text = "".join(LogReader(store, 0, 0).new())
    assert text == "".join(f"{number}" * 2**19 + "\n" for number in range(5))


def test_checkpoints_of_a_script_are_there_again(store, tmp_path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    sync = CheckpointSync(store, first, 0)
    (first / "deep").mkdir()
    (first / "deep" / "epoch-1.pt").write_bytes(b"1")
    (first / "old.pt").write_bytes(b"0")
    sync.upload()
    (first / "old.pt").unlink()
    (first / "deep" / "epoch-2.pt").write_bytes(b"2")
    sync.upload()
    assert CheckpointSync(store, second, 0).download() == 2
    assert {path.name: path.read_bytes() for path in second.rglob("*.pt")} == {"epoch-1.pt": b"1", "epoch-2.pt": b"2"}
    assert not any("old.pt" in item.name for item in store.list("job/checkpoints"))


@pytest.mark.parametrize(("output", "wanted"), [
    ("Traceback (most recent call last):\n  File x\n    y\nKeyError: 'lr'\n", "KeyError: 'lr'"),
    ("Traceback (most recent call last):\n  File x\ntorch.cuda.OutOfMemoryError: CUDA\nlater\n",
     "torch.cuda.OutOfMemoryError: CUDA"),
    ("one\nfit.sh: line 3: foo: command not found\n\n", "fit.sh: line 3: foo: command not found"),
    ("dd: error writing 'big': No space left on device\n30+0 records out\n31 MB copied, 0.2 s\n",
     "dd: error writing 'big': No space left on device"),
    ("dd: No space left on device\nTraceback (most recent call last):\n  File x\nKeyError: 'lr'\n", "KeyError: 'lr'"),
    ("", ""),
])
def test_the_last_error_is_the_reason(output: str, wanted: str) -> None:
    assert last_error(output) == wanted
