"""Preemption of Google Compute Engine instances, from the metadata server."""

from __future__ import annotations

from barograph.jobs.interruptions.metadata import LINK_LOCAL, MetadataSource, NoService, ServiceFailed
from barograph.jobs.interruptions.notice import Notice
from barograph.model.clock import Clock, SystemClock

_GRACE_SECS = 30.0
_FLAVOR = "Metadata-Flavor"


class GcpSource(MetadataSource):
    """Polls Google's metadata server. A preempted instance ends 30 seconds after the notice.

    Args:
        url: `http://HOST` of the server; `GCE_METADATA_HOST` elsewhere.
        certain: See `MetadataSource`.
        clock: For the deadline, which the server does not report.

    Source: Google Cloud documentation, "Spot VMs", section "Preemption process".
    """

    name = "gcp"
    interval_secs = 1.0

    def __init__(self, url: str = LINK_LOCAL, *, certain: bool = False, clock: Clock | None = None) -> None:
        super().__init__(url, certain=certain)
        self._clock = clock or SystemClock()
        self._notice: Notice | None = None

    def current(self) -> Notice | None:
        """See `MetadataSource`."""
        if self._notice is not None:
            return self._notice
        response = self.request("/computeMetadata/v1/instance/preempted", {_FLAVOR: "Google"})
        if response.headers.get(_FLAVOR) != "Google":
            raise NoService("the service does not identify itself as Google's")
        self.found()
        if response.status != 200 or response.text.strip() not in ("TRUE", "FALSE"):
            raise ServiceFailed(f"status {response.status}: {response.text[:40]!r}")
        if response.text.strip() == "TRUE":
            self._notice = Notice(self.name, "Google Cloud preempts this instance", self._clock.unix() + _GRACE_SECS)
        return self._notice
