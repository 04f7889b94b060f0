"""A catalog whose writer is killed at any moment holds what was acknowledged, and nothing by halves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barograph.experiments.catalog import Catalog
from barograph.experiments.item import Item
from experiments_entries import component

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no system to kill a process of in this way")
WRITERS = Path(__file__).with_name("killed_writers.py")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders in which a writer was killed, each a moment later than the one before; the last one was not."""
    first, folder = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("killed")
    with Catalog(first) as catalog:
        catalog.tell([*component("a", parameters={"lr": 0.1}, tags={"old": "yes"}, time_unix=1.0),
                      *component("b", time_unix=1.0)])
    done = subprocess.run([sys.executable, WRITERS, first, folder], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return sorted(path for path in folder.iterdir() if path.is_dir())


def said(root: Path) -> list[str]:
    file = Path(f"{root}.said")
    return file.read_text().splitlines() if file.exists() else []


def known(catalog: Catalog) -> list[Item]:
    return [item for kind in ("experiment", "component") for item in catalog.find(f"kind = '{kind}' and deleted = true "
                                                                                  f"or kind = '{kind}'")]


def test_there_are_moments_of_every_kind(killed: list[Path]) -> None:
    print(len(killed))
    assert len(killed) > 40
    assert [len(said(root)) for root in (killed[0], killed[-1])] == [0, 3]


def test_what_was_acknowledged_is_there_and_nothing_by_halves(killed: list[Path]) -> None:
    for root in killed:
        with Catalog(root) as catalog:
            before = catalog.item("a")
            assert (before.parameters == {"lr": 0.1}) == (not before.notes) == ("team" not in before.tags)
            assert catalog.feed().damage == []
            acknowledged, item = said(root), catalog.item("a")
            told = item.parameters, [note.text for note in item.notes], item.tags
            assert told in (({"lr": 0.1}, [], {"old": "yes"}),
                            ({"lr": 0.2, "depth": 3}, ["so it goes"], {"old": "yes", "team": "vision"}))
            assert "a" not in acknowledged or told[1] == ["so it goes"]
            experiments = catalog.find("kind = 'experiment'")
            assert [found.facts["hypothesis"] for found in experiments] in ([], ["wide wins"])
            assert "digits" not in acknowledged or experiments
            assert "b" not in acknowledged or catalog.deleted("b").name == "b"


def test_what_was_taken_in_is_what_a_catalog_made_anew_says(killed: list[Path]) -> None:
    for root in killed[::3]:
        with Catalog(root) as catalog:
            catalog.feed()
            fed = known(catalog)
            catalog.rebuild()
            assert known(catalog) == fed
