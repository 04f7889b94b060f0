"""Spot interruption notices and rebalance recommendations of Amazon EC2, from the instance metadata service."""

from __future__ import annotations

import json

from barograph.jobs.interruptions.metadata import LINK_LOCAL, MetadataSource, NoService, Response, unix_from_iso
from barograph.jobs.interruptions.notice import Notice
from barograph.model.clock import Clock, SystemClock

_TOKEN_SECS = 21600
_RENEW_SECS = 60.0
_ACTIONS = {"terminate": "terminates", "stop": "stops", "hibernate": "hibernates"}


class AwsSource(MetadataSource):
    """Polls EC2's instance metadata (IMDSv2). A notice comes two minutes before the instance ends.

    In a container, the hop limit of the instance's metadata must be at least 2, or no token arrives.

    Args:
        url: `http://HOST` of the service; `AWS_EC2_METADATA_SERVICE_ENDPOINT` elsewhere.
        certain: See `MetadataSource`.
        clock: For the lifetime of the token.

    Source: AWS documentation, "Spot Instance interruption notices" and "EC2 instance rebalance recommendations".
    """

    name = "aws"

    def __init__(self, url: str = LINK_LOCAL, *, certain: bool = False, clock: Clock | None = None) -> None:
        super().__init__(url, certain=certain)
        self._clock = clock or SystemClock()
        self._token, self._renew_at = "", 0.0

    def current(self) -> Notice | None:
        """See `MetadataSource`."""
        action = self._get("/latest/meta-data/spot/instance-action")
        if action.status == 200:
            found = json.loads(action.text)
            does = _ACTIONS.get(found["action"], "interrupts")
            return Notice(self.name, f"AWS {does} this spot instance", unix_from_iso(found["time"]))
        rebalance = self._get("/latest/meta-data/events/recommendations/rebalance")
        if rebalance.status == 200:
            unix_from_iso(json.loads(rebalance.text)["noticeTime"])
            return Notice(self.name, "AWS recommends to leave this spot instance", None, advisory=True)
        return None

    def _get(self, path: str) -> Response:
        response = self.request(path, self._headers())
        if response.status == 401:
            self._token = ""  # revoked or expired early
            response = self.request(path, self._headers())
        return response

    def _headers(self) -> dict[str, str]:
        now = self._clock.monotonic()
        if not self._token or now >= self._renew_at:
            asked = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_SECS)}
            response = self.request("/latest/api/token", asked, method="PUT")
            if response.status != 200 or not response.text.isprintable() or len(response.text) > 1024:
                raise NoService(f"the token request got status {response.status}")
            granted = response.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
            secs = float(granted) if granted.isdigit() else _TOKEN_SECS
            self._token, self._renew_at = response.text, now + max(secs - _RENEW_SECS, secs / 2)
            self.found()
        return {"X-aws-ec2-metadata-token": self._token}
