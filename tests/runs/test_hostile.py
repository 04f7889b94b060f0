"""Runs made to do harm: every digest is right, and what is in the files is not. Readers raise our own errors."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barograph.errors import BarographError, ObjectExists, ObjectNotFound
from barograph.model.capsule import CapsuleHead, Held
from barograph.model.clock import ManualClock
from barograph.model.finding import Evidence, Finding, FindingState, Severity
from barograph.model.items import Entry, Verb
from barograph.model.key import Key, Kind
from barograph.model.origin import Origin
from barograph.model.records import StepRecords, UnitSummaries
from barograph.model.step import Mode
from barograph.model.summary import UNIT_FIELDS
from barograph.model.tensor import RawTensor
from barograph.provenance.gathering import Gathered
from barograph.runs.format.events import read_table
from barograph.runs.format.layout import ChunkName, digest_of
from barograph.runs.format.metadata import sealed, unsealed
from barograph.runs.format.schema import SCHEMA
from barograph.runs.reading.around import around
from barograph.runs.reading.doctor import examine
from barograph.runs.reading.glance import glance
from barograph.runs.reading.inventory import inventory
from barograph.runs.reading.kept_files import check_files
from barograph.runs.reading.layers import layers_of
from barograph.runs.reading.reader import Run
from barograph.runs.state.capsules import capsule_names, read_capsule, withheld_steps, write_capsule
from barograph.runs.state.checkpoints import last_good, read_checkpoint, saved_checkpoints, write_checkpoint
from barograph.runs.state.control import read_answers, read_requests, read_stop, request_stop
from barograph.runs.state.findings import read_findings, write_event
from barograph.runs.state.journal import JOURNAL_OF_RUN, Journal
from barograph.runs.state.origins import read_origin, write_origin
from barograph.runs.state.output import OutputWriter, read_output
from barograph.runs.state.process import is_alive, this_process
from barograph.store.base import ObjectInfo, Store

Files = dict[str, bytes]
MakeRecords = Callable[..., StepRecords]


class Shown:
    """A store that shows these files."""

    url = "shown"

    def __init__(self, files: Files) -> None:
        self._files = files

    def get(self, name: str) -> memoryview:
        if name not in self._files:
            raise ObjectNotFound(name)
        return memoryview(self._files[name])

    def list(self, folder: str = "") -> list[ObjectInfo]:
        within = f"{folder}/" if folder else ""
        return [ObjectInfo(name, len(data), 1.8e9) for name, data in sorted(self._files.items())
                if name.startswith(within)]

    def put(self, name: str, data: bytes | Sequence[bytes | memoryview]) -> None:
        raise AssertionError("reading writes nothing")

    def create(self, name: str, data: bytes) -> None:
        raise ObjectExists(name)

    def delete(self, name: str) -> None:
        raise AssertionError("reading deletes nothing")


@pytest.fixture
def files(workshop: Any, make_records: MakeRecords) -> Files:
    """A whole run with a file of every kind."""
    units = {0: UnitSummaries(4, np.ones((3, len(UNIT_FIELDS))), 1.0)}
    tensors = {Key(Kind.CUSTOM, "map"): RawTensor("uint8", (4,), bytes(4))}
    steps = [make_records(tick, units=units if tick else {}, tensors=tensors, scalars={Key(Kind.SCALAR, "acc"): 0.5})
             for tick in range(3)]
    workshop.finished(*steps)
    store = workshop.store
    saved = {"w": RawTensor("float32", (2,), bytes(8))}
    write_checkpoint(store, attempt=0, steps=3, who="p0", content={"place": {"passes": 1}}, tensors=saved)
    write_capsule(store, CapsuleHead(0, "p0", 3, 3, "", Held.NOT_FINITE, "text", 1.5e9, withheld=True,
                                     numbers={"loss": 1.0}), {"seen": {"losses": []}}, saved, b"pickled")
    shelf = OutputWriter(store, 0, {})
    shelf.add([("out", "hello\n")])
    shelf.write("p0", last=True)
    Journal(store, JOURNAL_OF_RUN).write([Entry("x", Verb.TAG, {"a": 1}, 5.0, "me")])
    write_origin(store, 0, Gathered(Origin(command=("x",), directory="/x"), b"", b""))
    request_stop(store, attempt=0, reason="why", finding_id="")
    write_event(store, FINDING)
    return {name: bytes(store.get(name)) for name in workshop.names("")}


FINDING = Finding(
    "G101-0-a", "G101", "vanishing-gradient", Severity.COSTLY, FindingState.OPEN, "message", "remedy",
    (Evidence(Key(Kind.WEIGHT, "fc"), 0, "l2", 1.0, 2.0),), None, "p0", "", Mode.TRAIN, 0, 1, 2, None, 1.5e9,
)


def readings_of_papers(store: Store) -> Iterator[Callable[[], object]]:
    """Everything that reads metadata files, and no records."""
    clock = ManualClock()
    yield lambda: glance(store, clock=clock, wait=clock.advance)
    yield lambda: [read_checkpoint(store), saved_checkpoints(store), last_good(store)]
    yield lambda: [read_capsule(store, name) for name in capsule_names(store)]
    yield lambda: withheld_steps(store, 0)
    yield lambda: read_output(store)
    yield lambda: read_origin(store)
    yield lambda: read_findings(store)
    yield lambda: [read_stop(store, attempt=0), read_requests(store, attempt=0), read_answers(store, attempt=0)]
    journal = Journal(store, JOURNAL_OF_RUN)
    yield lambda: [journal.read(name) for name in journal.names()]
    yield lambda: [Run(store, clock=clock).workers, Run(store, clock=clock).findings]
    yield lambda: check_files(store, [item.name for item in store.list()])


def readings_of_records(store: Store) -> Iterator[Callable[[], object]]:
    """Everything that reads records."""
    yield lambda: examine(store, clock=ManualClock())
    run = Run(store, clock=ManualClock())
    yield run.keys
    yield run.steps
    yield lambda: list(run.views())
    yield lambda: [view.units for view in run.views()]
    yield lambda: inventory(run)
    yield lambda: layers_of(run)
    yield lambda: around(run, 1)
    yield run.trace
    for key in (Key(Kind.WEIGHT, "fc.weight"), Key(Kind.LOSS, "loss"), Key(Kind.SCALAR, "acc")):
        yield lambda key=key: run.series(key, "l2")
        yield lambda key=key: run.curve(key)
        yield lambda key=key: run.summary(key, 1)
        yield lambda key=key: run.units(key, 1)
        yield lambda key=key: run.tensor(key, 1)


def check(readings: Iterator[Callable[[], object]]) -> None:
    """Read everything; errors of ours are fine, and nothing else is."""
    for reading in readings:
        with contextlib.suppress(BarographError):
            reading()


deep: Any = 1
for _ in range(600):
    deep = [deep]

HOSTILE = st.sampled_from([
    None, True, -1, 0, 2**31, 2**63, 2**70, 10**400, -(2**63), 1.5, "nan", "inf", "", "x" * 5000, "\x1b[2J",
    "../../x", "0",
    [], {}, [[]], [1, 2], {"a": []}, {"": {"": ""}}, deep,
])


def places(body: Any) -> list[tuple[Any, ...]]:
    """Every place in JSON data."""
    inner = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    return [place for key, value in inner for place in ((key,), *((key, *rest) for rest in places(value)))]


def put_at(body: Any, place: tuple[Any, ...], value: Any) -> None:
    for key in place[:-1]:
        body = body[key]
    body[place[-1]] = value


@settings(max_examples=100, deadline=None, derandomize=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_of_a_paper_that_says_anything_no_foreign_error_comes(files: Files, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(name for name in files if name.endswith(".json"))))
    body = unsealed(files[name], name)
    place = data.draw(st.sampled_from(places(body)))
    put_at(body, place, data.draw(HOSTILE))
    check(readings_of_papers(Shown({**files, name: sealed(body)})))


def test_a_number_of_a_process_that_no_system_has_is_of_no_process() -> None:
    here = this_process()
    for pid in (2**63, 2**31, 0, -1, -(2**70)):
        assert is_alive(replace(here, pid=pid)) is False


def rewritten(files: Files, change: Callable[[pa.Table], pa.Table], **options: Any) -> Files:
    """The run with its file of records changed, under the name that its bytes then have."""
    (name,) = [name for name in files if name.startswith("records")]
    table = read_table(files[name], name)
    notes = pq.read_metadata(io.BytesIO(files[name])).metadata[b"barograph"].decode()
    sink = io.BytesIO()
    changed = change(table)
    with pq.ParquetWriter(sink, changed.schema, store_schema=False) as writer:
        writer.write_table(changed, **options)
        writer.add_key_value_metadata({"barograph": notes})
    was = ChunkName.from_name(name)
    assert was is not None
    data = sink.getvalue()
    return {**{other: bytes_ for other, bytes_ in files.items() if other != name},
            str(replace(was, digest=digest_of(data))): data}


def with_column(name: str, values: Sequence[Any], kind: Any = None) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        array = pa.array([values[row % len(values)] for row in range(len(table))], kind)
        return table.set_column(SCHEMA.names.index(name), pa.field(name, array.type), array)
    return change


@pytest.mark.parametrize("change", [
    lambda table: table.drop_columns(["step"]),
    with_column("step", [math.nan]), with_column("kind", [7]), with_column("path", [b"\xff"], pa.binary()),
    with_column("step", [None], pa.int64()), with_column("tick", [None], pa.int64()), with_column("exponents", [3]),
    with_column("worker", [[[1]]]), with_column("time", ["now"]), with_column("value", [{"a": 1}]),
    with_column("unit_min", [[1.0, 2.0]], SCHEMA.field("unit_min").type),
    with_column("exponents", [[1, 2, 3, 4, 5]], SCHEMA.field("exponents").type),
    with_column("exponents", [[60_000]], SCHEMA.field("exponents").type),
], ids=range(13))
def test_records_of_another_build_are_named_by_the_doctor_and_read_by_nobody(
    files: Files, change: Callable[[pa.Table], pa.Table]
) -> None:
    hostile = rewritten(files, change)
    (name,) = [name for name in hostile if name.startswith("records")]
    assert any(name in text for text in examine(Shown(hostile), clock=ManualClock()).damaged)
    check(readings_of_records(Shown(hostile)))


@pytest.mark.parametrize("change", [
    with_column("sum_sq", [-1e308]), with_column("step", [2**63 - 1, -(2**63)]), with_column("count", [-1]),
    with_column("time", [2**62], pa.timestamp("us")), with_column("position", [2**31 - 1], pa.int32()),
    with_column("whole", [-(2**63)]), with_column("layer", ["\x1b[2J"]),
], ids=range(7))
def test_of_numbers_that_cannot_be_no_foreign_error_comes(
    files: Files, change: Callable[[pa.Table], pa.Table]
) -> None:
    check(readings_of_records(Shown(rewritten(files, change))))


def test_a_file_of_very_many_row_groups_is_not_read(files: Files) -> None:
    hostile = rewritten(files, lambda table: pa.concat_tables([table] * 5), row_group_size=1)
    assert "row groups" in examine(Shown(hostile), clock=ManualClock()).damaged[0]
