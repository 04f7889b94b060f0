"""Records the picture in the README: `python docs/record_demo.py`.

It trains `examples/digits.py` twice under Barograph, healthy and with a planted bug, and draws what the terminal shows
as `docs/demo.svg`.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "demo.svg"
COLUMNS = 100
COMMANDS = (
    "barograph run --to runs/healthy --budget off train.py --epochs 3",
    "barograph run --to runs/broken --budget off --on-finding stop train.py --fault dead-relu",
)

_FONT_FACE = re.compile(r"\s*@font-face \{.*?\n\s*\}", re.DOTALL)


def main() -> int:
    """Write the picture; return 0."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(ROOT / "examples" / "digits.py", folder / "train.py")
        shown = "\n\n".join(f"$ {command}\n{output_of(command, folder)}" for command in COMMANDS)
    PICTURE.write_text(drawn(shown), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size} bytes")
    return 0


def output_of(command: str, folder: Path) -> str:
    """Return what a command prints, in colors, with paths relative to its folder."""
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "OMP_NUM_THREADS": "1",
                   "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    done = subprocess.run(shlex.split(command), cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.rstrip().replace(f"{folder.resolve()}{os.sep}", "").replace(f"{folder}{os.sep}", "")


def drawn(text: str) -> str:
    """Return a terminal that shows the text, as an SVG that loads nothing."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(Text.from_ansi(text))
    return _FONT_FACE.sub("", console.export_svg(title="barograph", unique_id="demo"))


if __name__ == "__main__":
    sys.exit(main())
