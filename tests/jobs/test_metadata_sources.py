"""Each cloud's notices arrive through its real protocol, and whatever else responds there is survived."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from barograph.jobs.interruptions.aws import AwsSource
from barograph.jobs.interruptions.azure import AzureSource
from barograph.jobs.interruptions.gcp import GcpSource
from barograph.jobs.interruptions.metadata import MetadataSource
from barograph.jobs.interruptions.notice import Notice
from barograph.model.clock import ManualClock
from metadata_services import AzureImds, Ec2, Gce, Service, serving

ACTION = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
PREEMPTED = "/computeMetadata/v1/instance/preempted"
EVENTS = "/metadata/scheduledevents"
NAME = "/metadata/instance/compute/name"
KINDS = {"aws": AwsSource, "gcp": GcpSource, "azure": AzureSource}


@pytest.fixture
def ec2() -> Iterator[Ec2]:
    with serving(Ec2()) as service:
        assert isinstance(service, Ec2)
        yield service


@pytest.fixture
def gce() -> Iterator[Service]:
    with serving(Gce()) as service:
        service.texts[PREEMPTED] = "FALSE"
        yield service


@pytest.fixture
def azure() -> Iterator[Service]:
    with serving(AzureImds()) as service:
        service.texts[NAME] = "trainer_3"
        service.texts[EVENTS] = events()
        yield service


@pytest.fixture
def cloud(request: pytest.FixtureRequest) -> Service:
    service = request.getfixturevalue(request.param)
    assert isinstance(service, Service)
    return service


EACH = pytest.mark.parametrize(("cloud", "kind"), [("ec2", "aws"), ("gce", "gcp"), ("azure", "azure")],
                               indirect=["cloud"])


def events(*listed: dict[str, object]) -> str:
    return json.dumps({"DocumentIncarnation": 2, "Events": listed})


def event(kind: str, *, machines: tuple[str, ...] = ("trainer_3",), before: str = "Fri, 15 Jan 2027 08:00:30 GMT",
          name: str = "C7061BAC") -> dict[str, object]:
    return {"EventId": name, "EventStatus": "Scheduled" if before else "Started", "EventType": kind,
            "ResourceType": "VirtualMachine", "Resources": machines, "NotBefore": before, "Description": "",
            "EventSource": "Platform", "DurationInSeconds": -1}


def announce(service: Service) -> None:
    """Have any of the three announce an interruption."""
    service.texts.update({ACTION: '{"action": "terminate", "time": "2027-01-15T08:02:00Z"}', PREEMPTED: "TRUE",
                          EVENTS: events(event("Preempt"))})


def test_aws_announces_the_end_of_a_spot_instance(ec2: Ec2) -> None:
    source = AwsSource(ec2.url)
    assert source.poll() is None
    ec2.texts[ACTION] = '{"action": "terminate", "time": "2027-01-15T08:02:00Z"}'
    assert source.poll() == Notice("aws", "AWS terminates this spot instance", 1_800_000_120.0)
    assert ec2.asked[0] == ("PUT", "/latest/api/token")


def test_a_rebalance_recommendation_of_aws_is_advisory_until_the_notice(ec2: Ec2) -> None:
    source = AwsSource(ec2.url)
    ec2.texts[REBALANCE] = '{"noticeTime": "2027-01-15T08:00:00Z"}'
    assert source.poll() == Notice("aws", "AWS recommends to leave this spot instance", None, advisory=True)
    ec2.texts[ACTION] = '{"action": "stop", "time": "2027-01-15T08:02:00Z"}'
    assert source.poll() == Notice("aws", "AWS stops this spot instance", 1_800_000_120.0)


def test_the_token_of_aws_is_renewed_before_it_expires_and_when_it_is_refused(ec2: Ec2) -> None:
    clock = ManualClock()
    ec2.ttl_secs = 600
    source = AwsSource(ec2.url, clock=clock)
    source.poll()
    clock.advance(539)
    source.poll()
    assert ec2.tokens == 1
    clock.advance(1)
    source.poll()
    assert ec2.tokens == 2
    ec2.tokens = 7  # the service no longer accepts the token that the source has
    ec2.texts[ACTION] = '{"action": "hibernate", "time": "2027-01-15T08:02:00Z"}'
    assert source.poll() == Notice("aws", "AWS hibernates this spot instance", 1_800_000_120.0)
    assert ec2.tokens == 8


def test_google_cloud_preempts_30_seconds_after_the_notice(gce: Service) -> None:
    clock = ManualClock()
    source = GcpSource(gce.url, clock=clock)
    assert source.poll() is None
    gce.texts[PREEMPTED] = "TRUE"
    notice = Notice("gcp", "Google Cloud preempts this instance", 1_800_000_030.0)
    assert source.poll() == notice
    clock.advance(20)
    assert source.poll() == notice


def test_azure_announces_events_that_end_this_machine(azure: Service) -> None:
    source = AzureSource(azure.url)
    assert source.poll() is None
    azure.texts[EVENTS] = events(event("Freeze"), event("Preempt", machines=("trainer_1", "trainer_30")))
    assert source.poll() is None
    azure.texts[EVENTS] = events(event("Reboot", before="Fri, 15 Jan 2027 08:15:00 GMT", machines=("a", "trainer_3")),
                                 event("Preempt"))
    assert source.poll() == Notice("azure", "Azure preempts this machine", 1_800_000_030.0)


def test_an_event_of_azure_that_has_started_ends_the_machine_now(azure: Service) -> None:
    clock = ManualClock()
    source = AzureSource(azure.url, clock=clock)
    azure.texts[EVENTS] = events(event("Terminate", before=""))
    assert source.poll() == Notice("azure", "Azure deletes this machine", 1_800_000_000.0)
    clock.advance(5)
    assert source.poll() == Notice("azure", "Azure deletes this machine", 1_800_000_000.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_without_a_service_disables_itself(kind: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        source: MetadataSource = KINDS[kind](f"http://127.0.0.1:{bound.getsockname()[1]}")
        assert source.poll() is None
        assert source.disabled


@pytest.mark.parametrize("kind", KINDS)
def test_an_address_that_swallows_connections_disables_a_source_within_half_a_second(kind: str) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        clients = [socket.socket() for _ in range(4)]
        for client in clients:  # more than the queue holds: the next connection gets no reply
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        source: MetadataSource = KINDS[kind](f"http://127.0.0.1:{full.getsockname()[1]}")
        began = time.monotonic()
        assert source.poll() is None
        took_secs = time.monotonic() - began
        for client in clients:
            client.close()
    assert source.disabled
    assert 0.4 < took_secs < 60  # a busy machine adds to the half second


@pytest.mark.parametrize(("cloud", "kind"), [
    ("gce", "aws"), ("azure", "aws"), ("ec2", "gcp"), ("azure", "gcp"), ("ec2", "azure"), ("gce", "azure"),
], indirect=["cloud"])
def test_the_service_of_another_cloud_disables_a_source(cloud: Service, kind: str) -> None:
    announce(cloud)
    source: MetadataSource = KINDS[kind](cloud.url)
    assert source.poll() is None
    assert source.disabled
    asked = len(cloud.asked)
    assert source.poll() is None
    assert len(cloud.asked) == asked


@EACH
@pytest.mark.parametrize("broken", [
    (500, "", {}), (503, "busy", {}), (429, "", {}), (403, "", {}), (404, "", {}),
    (200, "<html>", {"Metadata-Flavor": "Google"}), (200, "[" * 100_000, {"Metadata-Flavor": "Google"}),
    (200, '{"action": 3, "time": 4, "Events": [[]]}', {"Metadata-Flavor": "Google"}),
    (200, '{"action": "stop", "time": "soon", "Events": [{"EventType": []}]}', {"Metadata-Flavor": "Google"}),
    (200, "x" * (2 << 20), {"Metadata-Flavor": "Google"}), (302, "", {"Location": "http://127.0.0.1:9/"}),
])
def test_a_service_that_fails_for_a_while_is_asked_again(cloud: Service, kind: str,
                                                         broken: tuple[int, str, dict[str, str]]) -> None:
    source: MetadataSource = KINDS[kind](cloud.url)
    assert source.poll() is None
    announce(cloud)
    cloud.broken = broken
    assert source.poll() is None
    cloud.broken = None
    found = source.poll()
    assert found is not None
    assert found.source == kind


@EACH
def test_a_service_that_is_busy_at_first_is_asked_again(cloud: Service, kind: str) -> None:
    announce(cloud)
    source: MetadataSource = KINDS[kind](cloud.url)
    cloud.broken = (503, "", {})
    assert source.poll() is None
    cloud.broken = None
    assert source.poll() is not None


@EACH
def test_a_service_that_does_not_respond_in_time_is_asked_again(cloud: Service, kind: str) -> None:
    announce(cloud)
    source: MetadataSource = KINDS[kind](cloud.url)
    cloud.stalled = True
    assert source.poll() is None
    cloud.stalled = False
    assert source.poll() is not None


@EACH
def test_a_cloud_that_a_user_names_is_asked_forever(cloud: Service, kind: str) -> None:
    announce(cloud)
    source: MetadataSource = KINDS[kind]("http://127.0.0.1:1", certain=True)
    assert source.poll() is None
    assert not source.disabled
    source._url = cloud.url
    assert source.poll() is not None


@EACH
def test_proxies_are_not_used(cloud: Service, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    announce(cloud)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert KINDS[kind](cloud.url).poll() is not None
