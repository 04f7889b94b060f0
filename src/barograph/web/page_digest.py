"""Checks whether the built page is up to date. Imports nothing, because the build loads it by its path."""

from __future__ import annotations

import hashlib
from pathlib import Path

SOURCES = Path(__file__).with_name("page")
BUILT = Path(__file__).with_name("static")
DIGEST = "sources.txt"
"""File in the built page with the digest of the sources that it was built from."""

_PARTS = ("src/**/*", "public/**/*", "*.json", "*.html", "*.ts", "*.js")


def digest_of_sources() -> str:
    """Return the digest of the page's sources; "" where they are not, as in an installed wheel."""
    files = sorted({path for part in _PARTS for path in SOURCES.glob(part) if path.is_file()})
    if not files:
        return ""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(SOURCES).as_posix()}\0".encode())
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()


def is_stale() -> bool:
    """Return whether the page is missing, or was built from other sources than those beside it."""
    try:
        built = (BUILT / DIGEST).read_text(encoding="ascii")
    except OSError:
        return True
    return digest_of_sources() not in ("", built)
