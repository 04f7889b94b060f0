"""The beginning of a rule: it works as it stands, for every kind, and its test passes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from barograph.errors import BadRule
from barograph.model.key import Kind
from barograph.rules.starter import starter


def test_of_parts(text: str) -> str:
    """Return the test that a starter ends with, as a file of its own."""
    commented = re.findall(r"^# ?(.*)$", text, re.MULTILINE)
    return "\n".join(commented[1:]) + "\n"


test_of_parts.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [Kind.GRADIENT, Kind.LOSS])
def test_what_is_written_passes_the_suite_as_it_stands(tmp_path: Path, kind: Kind) -> None:
    text = starter("loud-things", kind=kind)
    (tmp_path / "loud_things.py").write_text(text, encoding="utf-8")
    (tmp_path / "test_loud_things.py").write_text(test_of_parts(text), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"], cwd=tmp_path, check=False,
        capture_output=True, text=True, timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b1[0-9] passed", done.stdout)


@pytest.mark.parametrize("kind", Kind)
def test_for_every_kind_it_is_python(kind: Kind) -> None:
    compile(starter("loud-things", kind=kind), "loud_things.py", "exec")


@pytest.mark.parametrize("name", ["Loud", "loud_things", "loud things", "", "1st", "class", "-a", "../evil"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(BadRule, match="not a valid rule name"):
        starter(name)


@pytest.mark.parametrize("code", ["x101", "X1", "XX101", "X101\n"])
def test_what_is_no_code_is_refused(code: str) -> None:
    with pytest.raises(BadRule, match="not a valid rule code"):
        starter("loud", code=code)
