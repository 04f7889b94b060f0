"""Scheduled events of Azure virtual machines, from the instance metadata service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from barograph.jobs.interruptions.metadata import LINK_LOCAL, MetadataSource, NoService, ServiceFailed
from barograph.jobs.interruptions.notice import Notice
from barograph.model.clock import Clock, SystemClock

_EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
_NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
_HEADERS = {"Metadata": "true"}
_DOES = {"Preempt": "preempts", "Terminate": "deletes", "Reboot": "reboots", "Redeploy": "moves"}
"""Events that end the processes of a machine. "Freeze" pauses them for seconds."""


class AzureSource(MetadataSource):
    """Polls Azure's scheduled events. A preempted machine ends at least 30 seconds after the notice.

    The service lists events of all machines of a scale set or availability set; others than this one are ignored. The
    first request can take two minutes, because it enables the service.

    Args:
        url: `http://HOST` of the service.
        certain: See `MetadataSource`.
        clock: For the deadline of an event that has started.

    Source: Microsoft Azure documentation, "Scheduled Events for Linux VMs".
    """

    name = "azure"
    interval_secs = 1.0

    def __init__(self, url: str = LINK_LOCAL, *, certain: bool = False, clock: Clock | None = None) -> None:
        super().__init__(url, certain=certain)
        self._clock = clock or SystemClock()
        self._machine = ""
        self._started: dict[str, float] = {}

    def current(self) -> Notice | None:
        """See `MetadataSource`."""
        self._find_machine()
        response = self.request(_EVENTS, _HEADERS)
        if response.status != 200:
            raise ServiceFailed(f"status {response.status}")
        mine = [event for event in json.loads(response.text)["Events"]
                if event["EventType"] in _DOES and self._machine in event["Resources"]]
        notices = [Notice(self.name, f"Azure {_DOES[event['EventType']]} this machine", self._deadline(event))
                   for event in mine]
        return min(notices, key=lambda notice: notice.deadline_unix or 0.0, default=None)

    def _find_machine(self) -> None:
        if self._machine:
            return
        response = self.request(_NAME, _HEADERS)
        name = response.text.strip()
        if response.status != 200 or not name or not name.replace("_", "").replace("-", "").replace(".", "").isalnum():
            raise NoService(f"status {response.status}: {name[:40]!r}")
        self._machine = name
        self.found()

    def _deadline(self, event: Mapping[str, Any]) -> float:
        if event.get("NotBefore"):
            return parsedate_to_datetime(event["NotBefore"]).timestamp()
        return self._started.setdefault(str(event["EventId"]), self._clock.unix())  # it has started
