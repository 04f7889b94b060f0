"""Conversion of figures to images."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from barograph.errors import SettingsError

FORMATS = {"png": "image/png", "svg": "image/svg+xml"}
"""Formats for figures."""

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_HEAD_BYTES = 1000


def picture_of(figure: Any, drawn_as: str = "png") -> tuple[bytes, str]:
    """Return the image bytes of a figure, and their media type.

    Args:
        figure: A matplotlib figure or axes, a Pillow image, the bytes of a PNG, JPEG, GIF, WebP or SVG, the text of
            an SVG, or the path of such a file.
        drawn_as: "png" or "svg", for matplotlib figures.

    Raises:
        SettingsError: It is none of these.
    """
    if drawn_as not in FORMATS:
        raise SettingsError(f'Cannot draw a figure as "{drawn_as}"; use {" or ".join(FORMATS)}.')
    if isinstance(figure, bytes | bytearray | memoryview):
        return bytes(figure), _media_type(bytes(figure))
    if isinstance(figure, str) and figure.lstrip().startswith("<"):
        return figure.encode(), _media_type(figure.encode())
    if isinstance(figure, str | os.PathLike):
        return _read(Path(figure))
    # Axes are drawn with their figure.
    drawing = figure if callable(getattr(figure, "savefig", None)) else getattr(figure, "figure", None)
    file = io.BytesIO()
    if callable(getattr(drawing, "savefig", None)):
        drawing.savefig(file, format=drawn_as)  # type: ignore[union-attr]
        return file.getvalue(), FORMATS[drawn_as]
    if callable(getattr(figure, "save", None)) and hasattr(figure, "getbands"):
        figure.save(file, format="PNG")
        return file.getvalue(), "image/png"
    raise SettingsError(f"Cannot log a {type(figure).__module__}.{type(figure).__name__} as a figure. Pass a "
                        "matplotlib figure, a Pillow image, or PNG or SVG bytes.")


def _read(path: Path) -> tuple[bytes, str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"No figure at {path}: {error.strerror}.") from error
    return data, _media_type(data)


def _media_type(data: bytes) -> str:
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature):
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if b"<svg" in data[:_HEAD_BYTES]:
        return "image/svg+xml"
    raise SettingsError("Unknown image format; supported are PNG, JPEG, GIF, WebP and SVG.")
