"""A page of several runs: in what they differ, and their curves over one another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from barograph.cli.main import main
from barograph.errors import UnknownKey
from barograph.experiments.catalog import Catalog
from barograph.experiments.run import Run
from barograph.share.comparison import overlays_of

EVIL = '"><script>alert(1)</script>'


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """Two widths, two seeds each, one of them with a hostile name."""
    root = tmp_path_factory.mktemp("desk") / "runs"
    for width in (16, 64):
        for seed in (0, 1):
            name = EVIL if (width, seed) == (64, 1) else f"w{width}-{seed}"
            with Run(name, root=root, tags={"evil": EVIL}) as run:
                run.log_parameters({"width": width, "seed": seed, EVIL: seed})
                for step in range(1000):
                    value = math.nan if step == 500 else width + 0.01 * seed + (9 if step == 77 else 0)
                    run.log_metric("acc", value, step=step)
                run.log_metric(f"only{width}", 1.0)
                run.note(f"**fine** {EVIL}")
    with Catalog(root) as catalog:
        catalog.feed()
        yield catalog


def page(runs: Catalog, tmp_path: Path, *words: str) -> str:
    file = tmp_path / "page.html"
    with pytest.raises(SystemExit) as ended:
        main(["compare", *words, "--html", str(file), "--root", runs.store.url])
    assert ended.value.code == 0
    return file.read_text(encoding="utf-8")


def test_curves_are_reduced_and_no_spike_is_lost(runs: Catalog) -> None:
    overlays, left_out = overlays_of(runs.find("params.seed = 0 order by name"))
    assert ([overlay.metric for overlay in overlays], left_out) == (["acc", "only16", "only64"], 0)
    small, large = overlays[0].lines
    assert (small.count, small.greatest, small.least, len(small.at) < 700) == (1000, 25.0, 16.0, True)
    assert 77.0 in large.at
    assert 500.0 in large.at
    assert overlays[1].without == ("w64-0",)
    with pytest.raises(UnknownKey, match='metric "nothing"'):
        overlays_of(runs.find(), metric="nothing")


def test_a_page_of_two_runs_tells_in_what_they_differ(runs: Catalog, tmp_path: Path) -> None:
    text = page(runs, tmp_path, "w16-0", "w64-0")
    assert "They differ in: parameters, metrics." in text
    for name in ("curves", "parameters", "metrics", "notes", "runs"):
        assert text.count(f'<section id="{name}"') == 1
    assert text.count("<svg") == 3
    assert "Without: w64-0." in text


def test_a_page_of_groups_tells_the_verdict(runs: Catalog, tmp_path: Path) -> None:
    text = page(runs, tmp_path, "--by", "params.width", "--metric", "acc.last", "--search", "kind = 'run'")
    assert "<h1>acc.last by params.width</h1>" in text
    assert "accepted: 64 is better than 16" in text
    assert '<section id="verdict"' in text
    assert "64: w64-0" in text


def test_nothing_breaks_out_and_nothing_is_fetched(runs: Catalog, tmp_path: Path) -> None:
    text = page(runs, tmp_path, EVIL, "w64-0", "--along", "time")
    assert "<script" not in text
    assert 'http-equiv="Content-Security-Policy" content="default-src' in text
    assert "http" not in text.replace("http-equiv", "")
    ElementTree.fromstring(text.partition("\n")[2])


def test_where_the_page_cannot_be_written_that_is_said(
    runs: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", "w16-0", "w64-0", "--html", str(tmp_path / "no" / "page.html"), "--root", runs.store.url])
    assert ended.value.code == 2
    assert "there is no directory" in capsys.readouterr().err
