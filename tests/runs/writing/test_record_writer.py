"""Every writer does all that the recording of a process calls."""

from __future__ import annotations

import inspect

import pytest

from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState
from barograph.model.step import Mode, Step
from barograph.runs.writing.record_writer import RecordWriter
from barograph.runs.writing.writer import RunWriter
from barograph.runs.writing.writer_client import WriterClient
from benchmarks.null_writer import NullWriter
from capture_writer import ListWriter

METHODS = ("put", "put_numbers", "channel", "put_batches", "flush", "close", "after_fork_in_child")


def test_the_interface_is_what_is_checked_here() -> None:
    methods = {name for name, member in vars(RecordWriter).items() if inspect.isfunction(member)}
    assert {name for name in methods if not name.startswith("_")} == set(METHODS)
    assert RecordWriter.__abstractmethods__ == set(METHODS)  # type: ignore[attr-defined]


@pytest.mark.parametrize("writer", [RunWriter, WriterClient, NullWriter, ListWriter])
@pytest.mark.parametrize("method", METHODS)
def test_every_writer_takes_what_the_interface_says(writer: type[RecordWriter], method: str) -> None:
    assert RecordWriter in writer.__mro__
    wanted, found = (inspect.signature(getattr(one, method)) for one in (RecordWriter, writer))
    assert [item.name for item in found.parameters.values()] == [item.name for item in wanted.parameters.values()]


def test_a_writer_that_lacks_a_method_cannot_be_created() -> None:
    class Deaf(NullWriter):
        channel = RecordWriter.channel  # type: ignore[assignment]

    with pytest.raises(TypeError, match="abstract"):
        Deaf()


@pytest.mark.parametrize("writer", [NullWriter, ListWriter])
def test_a_writer_without_a_run_takes_everything(writer: type[RecordWriter]) -> None:
    made = writer()
    assert made.put_numbers(Step(0, 0, ""), {Key(Kind.LOSS, "total"): 1.0})
    assert made.channel([Key(Kind.LOSS, "total")], "")(1, 1, 0.0, [1.0])
    made.put_batches([])
    made.flush()
    made.log("accuracy", 0.5, 1, Mode.TRAIN, 0.0)
    made.after_fork_in_child()
    assert made.close(EndState.FINISHED).complete
