"""Export of a run as OpenTelemetry metrics, over OTLP/HTTP or to a file. The only module that imports OpenTelemetry.

OpenTelemetry's instruments measure the present, but a run has past values. So the data points are built here, and
the library's exporter sends them.
"""

from __future__ import annotations

import logging
import socket
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, Protocol
from urllib.parse import urlsplit

from barograph.errors import EndpointFailed, MissingExtra, SettingsError
from barograph.export.names import Attributes, Datum, MetricName, datum_of
from barograph.export.readings import Reading

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
BATCH_POINTS = 5_000
"""Points per request: some hundred kilobytes."""
_PATH = "/v1/metrics"
_MICROS, _NANOS_IN_MICRO = 10**6, 1000
_CONNECT_SECS = 2.0
_EXTRA = ("OpenTelemetry is not installed: pip install 'barograph[otel]' "
          "(the packages opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http).")


class Destination(Protocol):
    """Destination of metrics."""

    def send(self, metrics: Any) -> None:
        """Send metrics made by `metrics_of`.

        Raises:
            EndpointFailed: It was not accepted.
        """
        ...


def check_installed() -> None:
    """Check that OpenTelemetry is installed.

    Raises:
        MissingExtra: It is not.
    """
    try:
        import opentelemetry.exporter.otlp.proto.http.metric_exporter
        import opentelemetry.sdk.metrics.export  # noqa: F401
    except ImportError as error:
        raise MissingExtra(f"{_EXTRA} ({error})") from error


def endpoint_of(given: str | None, environment: Mapping[str, str]) -> str:
    """Return the full URL that metrics are sent to.

    Args:
        given: URL of the user; without a path, `/v1/metrics` is appended. None: from the environment.
        environment: `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` is used as it is, `OTEL_EXPORTER_OTLP_ENDPOINT` with
            `/v1/metrics` appended, as OpenTelemetry specifies.

    Raises:
        SettingsError: There is none, or it is not a URL.

    Example:
        >>> endpoint_of("http://collector:4318", {})
        'http://collector:4318/v1/metrics'
    """
    address = given
    if address is None and environment.get(ENDPOINT_VARIABLES[0]):
        address = environment[ENDPOINT_VARIABLES[0]]
    elif address is None and environment.get(ENDPOINT_VARIABLES[1]):
        address = environment[ENDPOINT_VARIABLES[1]].rstrip("/") + _PATH
    if not address:
        raise SettingsError("No endpoint for metrics. Pass --endpoint http://HOST:4318, set "
                            f"{ENDPOINT_VARIABLES[1]}, or write a file with --json.")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f'The endpoint "{address}" is not a URL such as http://localhost:4318.')
    return address if parts.path.strip("/") else address.rstrip("/") + _PATH


class Endpoint:
    """An OTLP/HTTP endpoint.

    Args:
        address: Full URL, from `endpoint_of`.
        timeout_secs: Timeout of one request including retries.

    Raises:
        MissingExtra: OpenTelemetry's libraries are not installed.
    """

    def __init__(self, address: str, *, timeout_secs: float = 10.0) -> None:
        check_installed()
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        self._address = address
        self._said = _LastError()
        # The library reports errors only in its log.
        logging.getLogger("opentelemetry").addHandler(self._said)
        self._exporter = OTLPMetricExporter(endpoint=address, timeout=timeout_secs)

    def send(self, metrics: Any) -> None:
        """Send one batch.

        Raises:
            EndpointFailed: It was not accepted; part of the batch may have been.
        """
        from opentelemetry.sdk.metrics.export import MetricExportResult

        if self._exporter.export(metrics) is not MetricExportResult.SUCCESS:
            why = _why_unreachable(self._address) or self._said.text or "no reason given"
            raise EndpointFailed(f"The endpoint did not accept the metrics: {why} ({self._address}).")

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()
        logging.getLogger("opentelemetry").removeHandler(self._said)


class JsonFile:
    """An OTLP JSON file with one batch per line, as OpenTelemetry's file exporter writes it.

    Args:
        out: Open file.

    Raises:
        MissingExtra: OpenTelemetry's libraries are not installed.
    """

    def __init__(self, out: IO[str]) -> None:
        check_installed()
        self._out = out

    def send(self, metrics: Any) -> None:
        """Write one batch."""
        from google.protobuf.json_format import MessageToJson
        from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics

        self._out.write(MessageToJson(encode_metrics(metrics), indent=None) + "\n")
        self._out.flush()


def metrics_of(readings: Iterable[Reading], resources: Mapping[str, Attributes]) -> Any:
    """Return readings as one batch of OpenTelemetry metrics; None if none has an equivalent.

    Args:
        readings: Readings of a run.
        resources: Worker to its resource attributes.
    """
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics
    from opentelemetry.sdk.resources import Resource

    by_worker: dict[str, list[tuple[Reading, Datum]]] = defaultdict(list)
    for reading in readings:
        datum = datum_of(reading)
        if datum is not None:
            by_worker[reading.worker].append((reading, datum))
    if not by_worker:
        return None
    return MetricsData([
        ResourceMetrics(Resource(dict(resources.get(worker, {}))), [_scope(data)], "")
        for worker, data in sorted(by_worker.items())
    ])


def batches(readings: Sequence[Reading]) -> Iterator[Sequence[Reading]]:
    """Yield the readings in batches for one request."""
    for start in range(0, len(readings), BATCH_POINTS):
        yield readings[start : start + BATCH_POINTS]




def _scope(data: Sequence[tuple[Reading, Datum]]) -> Any:
    from opentelemetry.sdk.metrics.export import Gauge, Metric, NumberDataPoint, ScopeMetrics
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from barograph.version import __version__

    points: dict[MetricName, list[Any]] = defaultdict(list)
    for reading, datum in data:
        # Recorded times are exact to a microsecond; a float of nanoseconds is not.
        when = round(reading.time_unix * _MICROS) * _NANOS_IN_MICRO
        points[datum.metric].append(NumberDataPoint(dict(datum.attributes), 0, when, datum.value))
    metrics = [Metric(metric.name, metric.description, metric.unit, Gauge(found)) for metric, found in points.items()]
    return ScopeMetrics(InstrumentationScope("barograph", __version__), metrics, "")


def _why_unreachable(address: str) -> str:
    """Return why the endpoint is unreachable; "" if it is reachable. The library only says that it gave up."""
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=_CONNECT_SECS).close()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


class _LastError(logging.Handler):
    """Keeps the last log message."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Store the message."""
        self.text = record.getMessage().rstrip(".")
