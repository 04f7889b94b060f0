"""Which files may be data of a training: not Python's own, no program, no library, nothing of the system."""

from __future__ import annotations

import os
import re
import sys
import sysconfig

_NO_DATA = re.compile(r"\.(?:py|pyc|pyi|pth|toml\.lock|so(?:\.[\d.]+)?)$|/\.catalog/|/barograph/catalogs/")
"""Programs and libraries; and what lies in indexes of runs, which change with every run."""
_OF_LIBRARIES = re.compile(
    r"\.(?:dist|egg)-info/|/fontlist-v\d[^/]*\.json$|/\.?matplotlib(?:-[^/]*)?/matplotlibrc$|/\.keras/keras\.json$"
)
"""What libraries keep of themselves outside of their own folders."""
_OF_PACKAGES = re.compile(r"/(?:site|dist)-packages/")
_AWAY = ("/proc/", "/dev/", "/sys/", "/run/", "/etc/", "/usr/share/zoneinfo/", "/usr/lib/zoneinfo/")
"""What the system says of itself; types of files and time zones, which Python looks up there, are no data either."""
_OF_THE_SYSTEM = ("/usr/", "/lib/", "/lib64/", "/etc/", "/bin/", "/sbin/")


class DataPaths:
    """Tells them apart, for the Python that this process runs by."""

    def __init__(self) -> None:
        self._away = _folders_of_python()

    def may_be(self, path: str) -> bool:
        """Return whether a file that a script opens may be data.

        Args:
            path: The whole.
        """
        return not (_NO_DATA.search(path) or _OF_LIBRARIES.search(path) or path.startswith(self._away))

    def may_be_sampled(self, path: str) -> bool:
        """Return likewise of a file that a process is merely seen to have open: libraries open what no script means."""
        return self.may_be(path) and not path.startswith(_OF_THE_SYSTEM) and not _OF_PACKAGES.search(path)


def _folders_of_python() -> tuple[str, ...]:
    named = [sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    # Ours, where it is not installed but used where it stands; and what is beside the interpreter.
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = {os.path.abspath(path) for path in (*named, own, sys.prefix, sys.base_prefix) if path}
    # Of a Python that lies at the top of the system, only its libraries are not data.
    kept = [folder for folder in folders if folder.count(os.sep) > 1 or folder in map(os.path.abspath, named)]
    return (*(f"{folder}{os.sep}" for folder in sorted(kept)), *_AWAY)
