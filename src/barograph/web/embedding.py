"""Images as data URLs, for pages without a server."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

MOST_BYTES = 200_000
"""Largest image that a saved page contains."""

_PICTURES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def is_picture(name: str) -> bool:
    """Return whether the page previews a file of this name as an image."""
    return name.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".webp"))


def media_type_of(data: bytes) -> str | None:
    """Return the type of an image that browsers display, by its first bytes; None for anything else.

    SVG is none: it may contain scripts.
    """
    kind = next((kind for magic, kind in _PICTURES if data.startswith(magic)), None)
    return "image/webp" if kind is None and data[:4] == b"RIFF" and data[8:12] == b"WEBP" else kind


def embedded(parts: Iterable[bytes], media_type: str | None = None) -> Mapping[str, Any]:
    """Return an image as a data URL, or None and the reason in a sentence.

    Args:
        parts: Its bytes.
        media_type: Its type; None: detect it from the bytes.
    """
    data = b""
    for part in parts:
        data += part
        if len(data) > MOST_BYTES:
            return left_out(f"This image is larger than {MOST_BYTES // 1000} kB; the saved page does not contain it.")
    kind = media_type or media_type_of(data)
    if kind is None:
        return left_out("The file is not an image that browsers can display.")
    return {"url": f"data:{kind};base64,{base64.b64encode(data).decode()}", "note": ""}


def left_out(note: str) -> Mapping[str, Any]:
    """Return the response for an omitted image: the reason in a sentence."""
    return {"url": None, "note": note}
