"""Metrics over OTLP: what they are called, where they go, and what is said where nobody takes them.

Behind the address is a server that decodes what it is sent with OpenTelemetry's own messages.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from typing import Any

import pytest

from barograph.errors import EndpointFailed, SettingsError
from barograph.export.names import datum_of
from barograph.export.otel_metrics import BATCH_POINTS, Endpoint, JsonFile, batches, endpoint_of, metrics_of
from barograph.export.readings import Reading
from barograph.model.key import Key, Kind
from barograph.model.step import Mode

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")

from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

WHO = {"p0": {"service.name": "barograph", "process.pid": 7}}


class Collector:
    """An OTLP/HTTP receiver on loopback."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Content-Type"] == "application/x-protobuf"
                collector.requests.append((self.path, ExportMetricsServiceRequest.FromString(body)))
                self.send_response(collector.status)
                self.end_headers()
                self.wfile.write(ExportMetricsServiceResponse().SerializeToString())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def points(self) -> dict[str, list[tuple[float, float, dict[str, Any]]]]:
        """Return what came: name to (time, value, attributes)."""
        return points_in([request for _, request in self.requests])


def points_in(requests: list[Any]) -> dict[str, list[tuple[float, float, dict[str, Any]]]]:
    found: dict[str, list[tuple[float, float, dict[str, Any]]]] = {}
    for request in requests:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.gauge.data_points:
                        attributes = {item.key: getattr(item.value, item.value.WhichOneof("value"))
                                      for item in point.attributes}
                        found.setdefault(metric.name, []).append(
                            (point.time_unix_nano // 1000 / 1e6, point.as_double, attributes))
    return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture
def endpoint(collector: Collector) -> Iterator[Endpoint]:
    endpoint = Endpoint(endpoint_of(collector.address, {}), timeout_secs=5.0)
    yield endpoint
    endpoint.close()


def reading(key: str, value: float, *, time_unix: float = 1_800_000_000.25, **more: Any) -> Reading:
    kind, path = key.split(":")
    return Reading(time_unix, "p0", Key(Kind(kind), path), more.get("mode", Mode.TRAIN), more.get("optimizer", ""),
                   more.get("step", 3), value)


def test_what_is_sent_arrives_with_its_time_its_value_and_what_it_is_of(
    collector: Collector, endpoint: Endpoint
) -> None:
    endpoint.send(metrics_of([reading("loss:total", 0.5), reading("machine:cpu[3]", 40.0)], WHO))
    assert collector.requests[0][0] == "/v1/metrics"
    assert collector.points() == {
        "barograph.loss": [(1_800_000_000.25, 0.5, {"barograph.mode": "train", "barograph.loss.name": "total"})],
        "system.cpu.utilization": [(1_800_000_000.25, 0.4, {"cpu.logical_number": 3})],
    }


def test_each_worker_is_a_resource(collector: Collector, endpoint: Endpoint) -> None:
    endpoint.send(metrics_of([reading("loss:total", 0.5)], WHO))
    (resource,) = collector.requests[0][1].resource_metrics
    known = {item.key: item.value.string_value or item.value.int_value for item in resource.resource.attributes}
    assert known == {"service.name": "barograph", "process.pid": 7}
    assert resource.scope_metrics[0].scope.name == "barograph"


@pytest.mark.parametrize(("key", "name", "unit", "value"), [
    ("machine:cpu", "system.cpu.utilization", "1", 0.5), ("machine:memory", "system.memory.usage", "By", 50.0),
    ("machine:memory_total", "system.memory.limit", "By", 50.0), ("machine:gpu[0]", "hw.gpu.utilization", "1", 0.5),
    ("machine:gpu_memory[0]", "hw.gpu.memory.utilization", "1", 0.5),
    ("machine:gpu_memory_bytes[0]", "hw.gpu.memory.usage", "By", 50.0),
    ("machine:disk_read", "barograph.disk.throughput", "By/s", 50.0),
    ("machine:process_memory", "process.memory.usage", "By", 50.0),
    ("time:step", "barograph.step.duration", "s", 50.0), ("time:forward", "barograph.step.part.duration", "s", 50.0),
    ("time:steps", "barograph.step.number", "{step}", 3.0),
    ("learning_rate:group0", "barograph.learning_rate", "1", 50.0), ("scalar:accuracy", "barograph.scalar", "1", 50.0),
])
def test_numbers_have_the_names_and_units_of_the_conventions(key: str, name: str, unit: str, value: float) -> None:
    datum = datum_of(reading(key, 50.0))
    assert datum is not None
    assert (datum.metric.name, datum.metric.unit, datum.value) == (name, unit, value)


def test_every_figure_of_the_machine_has_a_name() -> None:
    from barograph.machine.host import Host

    host = Host()
    host.read(0.0)
    figures = [*host.read(1.0), "cpu", "cpu[0]", "cpu_busiest", "cpu_iowait", "process_memory", "process_cpu", "cores",
               "loader_processes", "gpu[0]", "gpu_memory[0]", "gpu_memory_bytes[0]"]
    assert [name for name in figures if datum_of(reading(f"machine:{name}", 1.0)) is None] == []


def test_what_has_no_place_there_is_left_out(collector: Collector) -> None:
    assert metrics_of([reading("machine:something_new", 1.0)], WHO) is None


def test_the_file_holds_what_would_be_sent_a_batch_a_line() -> None:
    out = StringIO()
    sent = [reading("loss:total", 0.5), reading("machine:gpu[1]", 25.0)]
    for item in sent:
        JsonFile(out).send(metrics_of([item], WHO))
    lines = out.getvalue().splitlines()
    assert [list(json.loads(line)) for line in lines] == [["resourceMetrics"]] * 2
    read = points_in([Parse(line, ExportMetricsServiceRequest()) for line in lines])
    assert {name: points[0][1] for name, points in read.items()} == {"barograph.loss": 0.5, "hw.gpu.utilization": 0.25}


def test_much_is_sent_in_several_requests() -> None:
    sizes = [len(batch) for batch in batches([reading("loss:total", 0.5)] * (2 * BATCH_POINTS + 1))]
    assert sizes == [BATCH_POINTS, BATCH_POINTS, 1]


def test_an_endpoint_that_refuses_is_named_with_its_reason(collector: Collector, endpoint: Endpoint) -> None:
    collector.status = 400
    with pytest.raises(EndpointFailed, match=r"400.*127\.0\.0\.1"):
        endpoint.send(metrics_of([reading("loss:total", 0.5)], WHO))


def test_an_endpoint_that_nobody_answers_at_is_named_with_its_reason() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = Endpoint(f"http://127.0.0.1:{port}/v1/metrics", timeout_secs=0.2)
    try:
        with pytest.raises(EndpointFailed, match="connection refused"):
            endpoint.send(metrics_of([reading("loss:total", 0.5)], WHO))
    finally:
        endpoint.close()


@pytest.mark.parametrize(("given", "environment", "address"), [
    ("http://a:4318", {}, "http://a:4318/v1/metrics"), ("http://a:4318/", {}, "http://a:4318/v1/metrics"),
    ("https://a/otlp/v1/metrics", {}, "https://a/otlp/v1/metrics"),
    (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:1/otlp"}, "http://b:1/otlp/v1/metrics"),
    (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c/x"},
     "http://c/x"),
    ("http://a", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b"}, "http://a/v1/metrics"),
])
def test_the_address_is_the_one_given_or_that_of_the_environment(
    given: str | None, environment: dict[str, str], address: str
) -> None:
    assert endpoint_of(given, environment) == address


@pytest.mark.parametrize("given", [None, "", "localhost:4318", "ftp://a", "http://"])
def test_what_is_no_address_is_refused(given: str | None) -> None:
    with pytest.raises(SettingsError, match="endpoint"):
        endpoint_of(given, {})
