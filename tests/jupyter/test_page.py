"""What the page on notebooks shows runs, in a shell of IPython."""

from __future__ import annotations

from typing import Any

import pytest

import barograph
from pages import ROOT, blocks

PAGE = ROOT / "docs" / "how-to/use-notebooks.md"


def test_the_cells_on_the_page_run(shell: Any, small_run: str, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [block.text for block in blocks(PAGE) if block.language == "ipython"]
    assert len(cells) == 3
    for cell in cells:
        assert shell.run_cell(cell).success, cell
    assert len(barograph.open("runs/first").series("loss:total")) > 0
    assert "small" in capsys.readouterr().out
