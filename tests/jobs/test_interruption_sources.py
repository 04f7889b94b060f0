"""Sources are chosen by name, none of them blocks, and a watch turns their notices into one."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from barograph.errors import SettingsError, UnknownName
from barograph.jobs.interruptions.background import BackgroundSource
from barograph.jobs.interruptions.file import FileSource, write_notice
from barograph.jobs.interruptions.notice import InterruptionSource, Notice
from barograph.jobs.interruptions.ray_drain import RayDrainSource
from barograph.jobs.interruptions.signals import SignalSource, signal_source_from
from barograph.jobs.interruptions.sources import NoticeWatch, sources_named
from barograph.model.clock import ManualClock
from barograph.processes.process import HostLost
from barograph.processes.ray_drain import Drain
from metadata_services import Gce, Service, serving

SOON = Notice("aws", "soon", 1_800_000_120.0)
AT_RISK = Notice("aws", "at risk", None, advisory=True)


@dataclass
class Said:
    """A source whose notice a test sets."""

    notice: Notice | None = None
    name: str = "said"
    interval_secs: float = 5.0
    polls: int = 0

    def poll(self) -> Notice | None:
        self.polls += 1
        return self.notice


@pytest.fixture
def handlers() -> Iterator[None]:
    former = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


def watched(*notices: Notice | None) -> list[Notice | None]:
    """Return what a watch of one source returns for the notices that it has, one after the other."""
    source, clock = Said(), ManualClock()
    watch = NoticeWatch([source], clock)
    found = []
    for notice in notices:
        source.notice = notice
        found.append(watch.poll())
        clock.advance(5)
    return found


def test_a_notice_is_returned_once() -> None:
    assert watched(None, SOON, SOON, None, SOON) == [None, SOON, None, None, None]


def test_two_sources_of_one_interruption_give_one_notice() -> None:
    late = Notice("signals", "received SIGTERM", 1_800_000_125.0)
    watch = NoticeWatch([Said(late), Said(SOON)], ManualClock())
    assert [watch.poll(), watch.poll()] == [SOON, None]


def test_an_earlier_deadline_is_news_and_a_later_one_is_not() -> None:
    earlier, later = Notice("signals", "SIGTERM", 1_800_000_030.0), Notice("ray", "drain", 1_800_000_300.0)
    assert watched(SOON, later, earlier, SOON) == [SOON, None, earlier, None]


def test_a_deadline_that_was_unknown_is_news() -> None:
    unknown = Notice("ray", "drain", None)
    assert watched(unknown, SOON, unknown) == [unknown, SOON, None]


def test_a_deadline_that_jitters_is_no_news() -> None:
    assert watched(SOON, Notice("aws", "soon", 1_800_000_119.5)) == [SOON, None]


def test_a_notice_after_an_advisory_one_is_news_and_not_the_other_way_round() -> None:
    assert watched(AT_RISK, AT_RISK, SOON, AT_RISK) == [AT_RISK, None, SOON, None]


def test_a_firm_notice_counts_more_than_an_advisory_one_of_another_source() -> None:
    firm = Notice("ray", "drain", None)
    assert NoticeWatch([Said(AT_RISK), Said(firm)], ManualClock()).poll() == firm


def test_each_source_is_polled_at_its_interval_also_if_the_wall_clock_jumps() -> None:
    often, seldom, clock = Said(interval_secs=1.0), Said(interval_secs=10.0), ManualClock()
    watch = NoticeWatch([often, seldom], clock)
    for _ in range(20):
        watch.poll()
        clock.advance(0.5)
        clock.jump(-3600)
    assert (often.polls, seldom.polls) == (10, 1)


def test_a_notice_survives_json() -> None:
    for notice in (SOON, AT_RISK):
        assert Notice.from_json(notice.to_json()) == notice


@pytest.mark.parametrize("data", [
    None, [], "soon", {}, {"source": "file"}, {"source": 1, "reason": "x"},
    {"source": "a", "reason": "b", "advisory": 1},
    {"source": "a", "reason": "b", "deadline_unix": "soon"}, {"source": "a", "reason": "b", "deadline_unix": True},
    {"source": "a", "reason": "b", "deadline_unix": float("inf")},
])
def test_what_is_not_a_notice_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match=r"notice|deadline_unix"):
        Notice.from_json(data)


def test_a_file_interrupts_an_instance(tmp_path: Path) -> None:
    source = FileSource(tmp_path)
    assert source.poll() is None
    write_notice(tmp_path, SOON)
    assert source.poll() == SOON
    assert [path.name for path in tmp_path.iterdir()] == ["notice.json"]


@pytest.mark.parametrize("text", ["", '{"source": "file"', "[" * 100_000, "\xff"])
def test_a_file_that_is_half_written_is_read_again(tmp_path: Path, text: str) -> None:
    (tmp_path / "notice.json").write_text(text, encoding="latin-1")
    source = FileSource(tmp_path)
    assert source.poll() is None
    write_notice(tmp_path, SOON)
    assert source.poll() == SOON


def test_sigterm_is_a_notice_with_the_grace_as_its_deadline(handlers: None) -> None:
    clock = ManualClock()
    source = SignalSource(grace_secs=25, clock=clock)
    source.install()
    assert source.poll() is None
    signal.raise_signal(signal.SIGTERM)
    clock.advance(10)
    signal.raise_signal(signal.SIGTERM)
    assert source.poll() == Notice("signals", "received SIGTERM", 1_800_000_025.0)


def test_a_former_handler_still_runs_and_is_restored(handlers: None) -> None:
    received: list[int] = []

    def former(number: int, frame: object) -> None:
        received.append(number)

    signal.signal(signal.SIGTERM, former)
    source = SignalSource()
    source.install()
    signal.raise_signal(signal.SIGTERM)
    assert received == [signal.SIGTERM]
    source.close()
    assert signal.getsignal(signal.SIGTERM) is former


def test_a_signal_of_slurm_comes_before_the_end_of_its_job(handlers: None) -> None:
    environment = {"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": "1800000120", "BAROGRAPH_GRACE": "60"}
    for number, deadline in ((signal.SIGUSR1, 1_800_000_120.0), (signal.SIGTERM, 1_800_000_060.0)):
        source = signal_source_from(environment, clock=ManualClock())
        source.install()
        signal.raise_signal(number)
        assert source.poll() == Notice("signals", f"received {number.name}", deadline)
        source.close()


def test_signals_and_grace_come_from_the_environment(handlers: None) -> None:
    environment = {"BAROGRAPH_NOTICE_SIGNALS": "usr1", "BAROGRAPH_GRACE": "2m"}
    source = signal_source_from(environment, clock=ManualClock())
    source.install()
    assert signal.getsignal(signal.SIGTERM) != source._receive
    signal.raise_signal(signal.SIGUSR1)
    assert source.poll() == Notice("signals", "received SIGUSR1", 1_800_000_120.0)


@pytest.mark.parametrize(("environment", "message"), [
    ({"BAROGRAPH_NOTICE_SIGNALS": "SIGKILL"}, '"SIGKILL" is not a signal for notices'),
    ({"BAROGRAPH_NOTICE_SIGNALS": "TREM"}, 'Did you mean "SIGTERM"'),
    ({"BAROGRAPH_GRACE": "soon"}, 'BAROGRAPH_GRACE is "soon"'),
])
def test_wrong_signals_are_refused(environment: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        signal_source_from(environment)


def test_a_source_in_the_background_does_not_block_and_ends() -> None:
    asked, goes_on = threading.Event(), threading.Event()

    class Slow:
        name, interval_secs = "slow", 0.0

        def poll(self) -> Notice | None:
            asked.set()
            goes_on.wait(600)
            return SOON

    source = BackgroundSource(Slow())
    assert source.poll() is None
    assert asked.wait(600)
    assert source.poll() is None
    goes_on.set()
    source.close()
    assert source.poll() == SOON


def test_a_source_in_the_background_ends_with_its_service_absent(handlers: None) -> None:
    (source,) = (item for item in sources_named("auto", environment={"GCE_METADATA_HOST": "127.0.0.1:1"})
                 if item.name == "gcp")
    assert isinstance(source, BackgroundSource)
    source.poll()
    thread = source._thread
    assert thread is not None
    thread.join(600)
    assert not thread.is_alive()
    assert source.poll() is None


def test_a_drain_of_ray_is_a_notice_and_a_head_that_is_gone_is_not() -> None:
    def gone() -> Drain | None:
        raise HostLost("The head does not respond.")

    assert RayDrainSource(gone).poll() is None
    assert RayDrainSource(lambda: None).poll() is None
    assert RayDrainSource(lambda: Drain(None)).poll() == Notice("ray", "Ray drains this node", None)
    assert RayDrainSource(lambda: Drain(7.5)).poll() == Notice("ray", "Ray drains this node", 7.5)


def names(sources: tuple[InterruptionSource, ...]) -> list[str]:
    return [source.name for source in sources]


def test_sources_are_chosen_by_name(tmp_path: Path, handlers: None) -> None:
    node = {"BAROGRAPH_RAY_NODE": "c657@10.0.0.5:6379"}
    assert names(sources_named("auto", environment={})) == ["aws", "gcp", "azure", "signals"]
    assert names(sources_named("auto", directory=tmp_path, environment=node)) == [
        "aws", "gcp", "azure", "signals", "ray", "file"]
    assert names(sources_named(" gcp, aws ,gcp", environment={})) == ["gcp", "aws"]
    assert sources_named("none", directory=tmp_path) == ()
    assert names(sources_named("auto", environment={"AWS_EC2_METADATA_DISABLED": "true"})) == [
        "gcp", "azure", "signals"]


@pytest.mark.parametrize(("chosen", "message"), [
    ("aswz", "is not an interruption source"), ("none,aws", "is not an interruption source"),
    ("file", "needs a directory"),
    ("ray", "BAROGRAPH_RAY_NODE is not set"), ("", "is not an interruption source"),
])
def test_sources_that_cannot_work_are_refused(chosen: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        sources_named(chosen, environment={})


def test_a_wrong_name_is_an_unknown_name() -> None:
    with pytest.raises(UnknownName, match='Did you mean "azure"'):
        sources_named("azur")


def test_signals_need_the_main_thread() -> None:
    found: list[list[str]] = []
    refused: list[str] = []

    def elsewhere() -> None:
        found.append(names(sources_named("auto", environment={})))
        try:
            sources_named("signals", environment={})
        except SettingsError as error:
            refused.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [["aws", "gcp", "azure"]]
    assert refused == ['The interruption source "signals" works only in the main thread.']


def test_the_addresses_of_services_come_from_arguments_and_the_environment() -> None:
    environment = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:81/", "GCE_METADATA_HOST": "127.0.0.1:82"}
    found = sources_named("aws,gcp,azure", urls={"azure": "http://127.0.0.1:83", "aws": ""}, environment=environment)
    assert [vars(source.source)["_url"] for source in found if isinstance(source, BackgroundSource)] == [
        "http://127.0.0.1:81", "http://127.0.0.1:82", "http://127.0.0.1:83"]


def test_a_preemption_reaches_the_watch_over_http(handlers: None) -> None:
    with serving(Gce()) as service:
        assert isinstance(service, Service)
        service.texts["/computeMetadata/v1/instance/preempted"] = "TRUE"
        (source,) = sources_named("gcp", urls={"gcp": service.url}, environment=dict(os.environ))
        assert isinstance(source, BackgroundSource)
        watch = NoticeWatch([source], clock := ManualClock())
        # On a busy machine, the first answer may come too late for the thread.
        while (found := watch.poll()) is None:
            assert not vars(source.source)["disabled"]
            clock.advance(1)
        source.close()
    assert found.reason == "Google Cloud preempts this instance"
