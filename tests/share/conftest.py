"""What tests of archives share: a root of runs with an experiment in it, and an empty one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from archives import packed
from barograph.experiments.catalog import Catalog
from barograph.experiments.component import Component
from barograph.experiments.experiment import Experiment
from barograph.experiments.run import Run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the experiment digits: two runs, a data set that both trials have, artifacts, lineage and notes."""
    folder = tmp_path_factory.mktemp("desk")
    model, data = folder / "model.bin", folder / "data.csv"
    model.write_bytes(bytes(range(256)) * 20_000)
    data.write_text("a,b\n1,2\n")
    runs = folder / "runs"
    digits = Experiment.create("digits", hypothesis="wide nets win", root=runs).note("an **experiment**")
    shared = Component.create("digits data", root=runs).log_parameters({"rows": 1797})
    shared.log_artifact(data)
    for width in (16, 64):
        trial = digits.create_trial(f"width {width}").add_component(shared)
        with Run(f"w{width}", experiment="digits", trial=trial.name, to=f"{runs}/w{width}", root=runs) as run:
            run.log_parameters({"width": width})
            run.log_artifact(str(model))
            run.tag(team="vision")
            for step in range(5):
                run.log_metric("acc", width / 100 + step / 1000)
    small, large = Component.load("w16", root=runs), Component.load("w64", root=runs)
    large.relate("derived_from", small).note("the best")
    return runs


@pytest.fixture
def source(root: Path) -> Iterator[Catalog]:
    """The catalog of that root."""
    with Catalog(root) as catalog:
        catalog.feed()
        yield catalog


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Catalog]:
    """The catalog of an empty root."""
    with Catalog(tmp_path / "other") as catalog:
        catalog.feed()
        yield catalog


@pytest.fixture
def archive(source: Catalog, tmp_path: Path) -> Path:
    """The experiment, packed."""
    path = tmp_path / "digits.zip"
    path.write_bytes(packed(source, "digits"))
    return path
