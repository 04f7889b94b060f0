"""Traces are read from files of several programs, repeat after their period, and say what is wrong with them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from barograph.errors import SettingsError
from barograph.jobs.simulation.trace import Trace, mtbf_secs, random_traces, shifted, trace_of_prices
from barograph.jobs.simulation.trace_file import read_trace


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_prices_in_seconds_are_read(tmp_path: Path) -> None:
    found = read_trace(written(tmp_path, "time,price\n0,0.10\n3600,0.30\n7200,0.10\n"))
    assert found == Trace(7200.0, prices=((0.0, 0.1), (3600.0, 0.3)))


def test_a_bid_makes_outages_of_high_prices(tmp_path: Path) -> None:
    path = written(tmp_path, "time,price\n0,0.1\n60,0.4\n90,0.5\n120,0.1\n180,0.1\n")
    assert read_trace(path, most=0.3).outages == ((60.0, 120.0),)
    assert read_trace(path).outages == ()


def test_dates_are_read_in_any_order_and_zone(tmp_path: Path) -> None:
    text = "Timestamp, SpotPrice\n2027-01-15T10:00:00+01:00,0.2\n2027-01-15T08:00:00Z,0.1\n2027-01-15 11:00:00,0.2\n"
    assert read_trace(written(tmp_path, text)) == Trace(10_800.0, prices=((0.0, 0.1), (3600.0, 0.2)))


def test_events_are_read(tmp_path: Path) -> None:
    text = "time,event\n10,interruption\n20,unavailable\n25,interruption\n40,available\n60,unavailable\n100,end\n"
    assert read_trace(written(tmp_path, text)) == Trace(100.0, (10.0,), ((20.0, 40.0), (60.0, 100.0)))


def test_dated_events_begin_with_the_first(tmp_path: Path) -> None:
    text = "time,event\n2027-01-15T08:00:00Z,available\n2027-01-15T09:00:00Z,interruption\n2027-01-16T08:00:00Z,end\n"
    assert read_trace(written(tmp_path, text)) == Trace(86_400.0, interruptions=(3600.0,))


def history(*entries: tuple[str, str, str]) -> str:
    return json.dumps({"SpotPriceHistory": [
        {"AvailabilityZone": zone, "InstanceType": "g5.xlarge", "ProductDescription": "Linux/UNIX",
         "SpotPrice": price, "Timestamp": at} for zone, price, at in entries]})


def test_the_price_history_of_aws_is_read_newest_first(tmp_path: Path) -> None:
    text = history(("us-east-1a", "0.4", "2027-01-15T10:00:00+00:00"),
                   ("us-east-1a", "0.3", "2027-01-15T09:00:00+00:00"),
                   ("us-east-1a", "0.2", "2027-01-15T08:00:00+00:00"))
    assert read_trace(written(tmp_path, text)) == Trace(7200.0, prices=((0.0, 0.2), (3600.0, 0.3)))


def test_prices_of_several_zones_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, history(("us-east-1a", "0.4", "2027-01-15T10:00:00Z"),
                                     ("us-east-1b", "0.3", "2027-01-15T09:00:00Z")))
    with pytest.raises(SettingsError, match=r"2 kinds of instances \(g5\.xlarge us-east-1a Linux/UNIX, g5.* of aws"):
        read_trace(path)


@pytest.mark.parametrize(("text", "message"), [
    ("", "no lines"), ("time,price\n", "no lines"), ("time,cost\n1,2\n", "not time,cost"),
    ("at,price\n1,2\n", "the columns must be time,price or time,event"),
    ("time,price\n1,-2\n", "is not a price"), ("time,price\n1,nan\n", "not a price"),
    ("time,price\nsoon,2\n", "soon"), ("time,price\ninf,2\n", "not a time"),
    ("time,price\n1,2\n3\n", "could not convert"),
    ("time,event\n1,gone\n", "'gone' is not an event; there are: interruption"), ("time,event\n-1,end\n", "negative"),
    ("time,price\n1,2,3\n", "more values than the header"), ("{}", "must have a list SpotPriceHistory"),
    ("[1]", "must have a list"), ("{", "Expecting"), ("[" * 100_000, "recursion"),
])
def test_what_is_not_a_trace_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as refusal:
        read_trace(written(tmp_path, text))
    assert str(refusal.value).endswith("trace.csv")


def test_a_trace_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Cannot read the trace: No such file"):
        read_trace(tmp_path / "trace.csv")
    (tmp_path / "trace.csv").write_bytes(b"time,price\n\xff\xfe")
    with pytest.raises(SettingsError, match="not UTF-8"):
        read_trace(tmp_path / "trace.csv")


def test_a_trace_repeats() -> None:
    trace = Trace(100.0, interruptions=(10.0, 60.0), offset_secs=50.0)
    assert [trace.next_taken(at) for at in (0.0, 10.0, 59.0, 60.0, 1000.0)] == [10.0, 60.0, 60.0, 110.0, 1010.0]
    assert Trace(100.0).next_taken(0.0) == math.inf


def test_an_outage_at_the_end_goes_on_at_the_begin() -> None:
    trace = Trace(100.0, outages=((0.0, 10.0), (40.0, 50.0), (90.0, 100.0)))
    assert [trace.next_free(at) for at in (0.0, 10.0, 45.0, 50.0)] == [10.0, 10.0, 50.0, 50.0]
    assert [trace.next_free(at) for at in (95.0, 199.0)] == [110.0, 210.0]
    assert Trace(100.0, outages=((0.0, 100.0),)).next_free(5.0) == math.inf


def test_what_an_instance_costs_agrees_with_a_sum_by_seconds() -> None:
    trace = trace_of_prices([(0, 3600.0), (20, 7200.0), (50, 0.0), (60, 1.0)])
    price = [1.0] * 20 + [2.0] * 30 + [0.0] * 10
    for begin, end in ((0, 60), (5, 25), (45, 130), (10, 10), (59, 1000)):
        assert trace.paid(begin, end) == pytest.approx(sum(price[at % 60] for at in range(begin, end)))


def test_random_traces_have_their_mean_time_between_interruptions() -> None:
    traces = random_traces(50, mtbf_secs=7200.0)
    assert mtbf_secs(traces) == pytest.approx(7200.0, rel=0.03)
    short = random_traces(50, mtbf_secs=7200.0, outage_secs=1800.0)
    assert mtbf_secs(short) == pytest.approx(7200.0, rel=0.05)
    outages = [end - begin for trace in short for begin, end in trace.outages]
    assert sum(outages) / len(outages) == pytest.approx(1800.0, rel=0.05)
    assert random_traces(3, mtbf_secs=7200.0, seed=4) == random_traces(3, mtbf_secs=7200.0, seed=4)


@pytest.mark.parametrize("secs", [0.0, -1.0, math.inf, math.nan])
def test_a_mean_time_between_interruptions_is_above_0(secs: float) -> None:
    with pytest.raises(SettingsError, match="must be above 0"):
        random_traces(1, mtbf_secs=secs)


def test_jobs_are_submitted_at_random_times_of_one_trace() -> None:
    traces = shifted(Trace(100.0, interruptions=(10.0,)), 50, seed=1)
    assert len({trace.offset_secs for trace in traces}) == 50
    assert all(0 <= trace.offset_secs < 100 for trace in traces)


def test_traces_with_frequent_interruptions_are_shorter_so_that_they_fit_into_memory() -> None:
    traces = random_traces(20_000, mtbf_secs=1e-3)
    assert traces[0].period_secs == pytest.approx(0.1)
    assert sum(len(trace.interruptions) for trace in traces) == pytest.approx(2_000_000, rel=0.01)
    assert random_traces(1000, mtbf_secs=7200.0)[0].period_secs == 30 * 86_400
