"""A job that uses secrets and betrays them: nothing of them is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TRAIN = """
import os, sys

print("from the environment:", os.environ["API_KEY"])
print("from the file:", os.environ["MODE"])
print("from the arguments:", sys.argv[1])
raise SystemExit(f"cannot log in with {sys.argv[1]} and {os.environ['MODE']}")
"""


def files_with(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_a_script_that_prints_its_secrets_leaves_none_of_them(desk: Any) -> None:
    home = desk.folder / "home"
    desk.environment |= {"BAROGRAPH_HOME": str(home), "API_KEY": "correct-horse-7"}
    (desk.folder / "train.py").write_text(TRAIN)
    (desk.folder / ".env").write_text("MODE=battery-staple-8\n")
    ended = desk.end(desk.start("barograph", "submit", "--name", "told", "--env-file", ".env", "--wait", "train.py",
                                "{env.API_KEY}"))
    assert ended.code == 1
    assert "from the environment: ***\n" in ended.text
    assert "from the file: ***\n" in ended.text
    assert "from the arguments: ***\n" in ended.text
    assert "cannot log in with *** and ***" in ended.err
    shown = [desk.end(desk.start("barograph", *words)) for words in (
        ("show", "told"), ("jobs", "--json"), ("logs", "told"))]
    for secret in ("correct-horse-7", "battery-staple-8"):
        assert not files_with(desk.folder / "barograph-runs", secret)
        assert not files_with(home, secret)
        assert all(secret not in item.text + item.err for item in (ended, *shown))
