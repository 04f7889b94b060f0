"""How the test environments get their packages."""

from __future__ import annotations

from pathlib import Path

import pytest
from building.installing import installed

PIP = """#!/bin/sh
if [ "$1" = config ]; then
  echo ":env:.find-links='/wheels'"
  echo "global.find-links='/others'"
  echo "global.extra-index-url='https://ignored'"
  echo "global.no-index='true'"
  echo "install.extra-index-url='https://one https://two'"
  echo "global.timeout='180'"
else echo pip "$@"; fi
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name, text in {"pip": PIP, "uv": '#!/bin/sh\necho uv "$@"\n', "failing": "#!/bin/sh\nexit 1\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def said_by(programs: Path, uv: str) -> list[str]:
    done = installed([str(programs / "pip")], uv and programs / uv, "/env/python", ["some==1"], capture_output=True,
                     text=True)
    return done.stdout.split()


def test_uv_installs_from_where_pip_would(programs: Path) -> None:
    assert said_by(programs, "uv") == [
        "uv", "pip", "install", "--quiet", "--python", "/env/python", "--index-strategy", "unsafe-best-match",
        "--no-index", "--find-links", "/wheels", "--index", "https://one", "--index", "https://two", "some==1"]


@pytest.mark.parametrize("uv", ["failing", ""])
def test_without_a_uv_that_works_pip_installs(programs: Path, uv: str) -> None:
    assert said_by(programs, uv) == ["pip", "--python", "/env/python", "install", "--quiet", "--no-compile", "some==1"]
