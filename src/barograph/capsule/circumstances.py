"""Differences from when the step was saved: versions and processor."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from typing import Any

from barograph.capture.integrations import versions


def differences(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the differences, one sentence each.

    Args:
        content: Content of the capsule.

    Example:
        >>> differences({"versions": {"python": "2.7.18"}, "machine": {}})[0].startswith("python was 2.7.18 and is ")
        True
    """
    now = {"python": sys.version.split()[0], **versions(content["versions"])}
    found = [f"{name} was {then} and is {now[name]}." for name, then in content["versions"].items()
             if name in now and now[name] != then]
    processor = content["machine"].get("processor")
    if processor and processor != platform.machine():
        found.append(f"The processor was {processor} and is {platform.machine()}.")
    return tuple(found)
