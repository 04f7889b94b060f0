"""Packages that tests install by writing them into a folder of `sys.path`."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, name: str, entry_points: str, *, version: str = "1.0") -> Path:
    """Write the metadata of a package; return its folder."""
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    return metadata
