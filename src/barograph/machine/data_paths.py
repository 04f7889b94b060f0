"""Paths that may be training data: not files of Python, programs, libraries or the system."""

from __future__ import annotations

import os
import re
import sys
import sysconfig

_NO_DATA = re.compile(r"\.(?:py|pyc|pyi|pth|toml\.lock|so(?:\.[\d.]+)?)$|/\.catalog/|/barograph/catalogs/")
"""Programs and libraries; also indexes of runs, which change with every run."""
_OF_LIBRARIES = re.compile(
    r"\.(?:dist|egg)-info/|/fontlist-v\d[^/]*\.json$|/\.?matplotlib(?:-[^/]*)?/matplotlibrc$|/\.keras/keras\.json$"
)
"""Files that libraries store outside of their own folders."""
_OF_PACKAGES = re.compile(r"/(?:site|dist)-packages/")
_AWAY = ("/proc/", "/dev/", "/sys/", "/run/", "/etc/", "/usr/share/zoneinfo/", "/usr/lib/zoneinfo/")
"""System information, and the MIME types and time zones that Python reads."""
_OF_THE_SYSTEM = ("/usr/", "/lib/", "/lib64/", "/etc/", "/bin/", "/sbin/")


class DataPaths:
    """Classifies paths, for the Python of this process."""

    def __init__(self) -> None:
        self._away = _folders_of_python()

    def may_be(self, path: str) -> bool:
        """Return whether a file that a script opens may be data.

        Args:
            path: Absolute path.
        """
        return not (_NO_DATA.search(path) or _OF_LIBRARIES.search(path) or path.startswith(self._away))

    def may_be_sampled(self, path: str) -> bool:
        """Return whether a file that a process has open may be data: stricter, since libraries open files, too."""
        return self.may_be(path) and not path.startswith(_OF_THE_SYSTEM) and not _OF_PACKAGES.search(path)


def _folders_of_python() -> tuple[str, ...]:
    named = [sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    # Barograph itself, if used from a checkout, and files next to the interpreter.
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = {os.path.abspath(path) for path in (*named, own, sys.prefix, sys.base_prefix) if path}
    # For a Python in the root of the system, only its libraries are excluded.
    kept = [folder for folder in folders if folder.count(os.sep) > 1 or folder in map(os.path.abspath, named)]
    return (*(f"{folder}{os.sep}" for folder in sorted(kept)), *_AWAY)
