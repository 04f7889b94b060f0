"""What came of what: asked by kind and by time, over artifacts too; and what stands at its ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.errors import NameTaken, SettingsError
from barograph.experiments.catalog import Catalog
from barograph.experiments.lineage import Lineage, lineage_of
from barograph.model.clock import ManualClock
from barograph.model.items import Entry, ItemKind, Verb
from barograph.tracking import Action, Artifact, Component, Context, Run, list_runs
from experiments_entries import NOW_UNIX, component


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "runs")


def told(catalog: Catalog, clock: ManualClock) -> None:
    """A component made a model, a later one read it, and belongs to a trial."""
    catalog.tell([*component("train"), Entry("train", Verb.OUTPUT, {"name": "model", "uri": "s3://b/model"})])
    clock.advance(100)
    catalog.tell([*component("test", time_unix=NOW_UNIX + 100), Entry("test", Verb.INPUT, {"name": "model", "uri": "s3://b/model"}),
                  Entry("test", Verb.JOIN, {"trial": "wide"})])


def test_steps_to_one_kind_are_found_whatever_lies_between(catalog: Catalog, clock: ManualClock) -> None:
    told(catalog, clock)
    [artifact] = lineage_of(catalog, "test", "up", kinds=["artifact"])
    assert (artifact.relation, artifact.depth) == ("read", 1)
    [maker] = lineage_of(catalog, "test", "up", kinds=[ItemKind.COMPONENT])
    assert (maker.relation, maker.target) == ("made_by", "train")
    assert [edge.source for edge in lineage_of(catalog, "train", "down", kinds=["component"])] == ["test"]
    assert lineage_of(catalog, "test", "up", kinds=["context"]) == []


def test_steps_are_found_by_when_what_they_lead_to_was_created(catalog: Catalog, clock: ManualClock) -> None:
    told(catalog, clock)
    assert [edge.source for edge in lineage_of(catalog, "train", "down", since_unix=NOW_UNIX + 100)] == ["test"]
    assert lineage_of(catalog, "test", "up", kinds=["component", "artifact"], since_unix=NOW_UNIX + 100) == []
    assert len(lineage_of(catalog, "train", "down", since_unix=NOW_UNIX)) == 2


def test_artifacts_are_called_as_they_were_logged(catalog: Catalog, clock: ManualClock) -> None:
    told(catalog, clock)
    steps = Lineage(catalog, lineage_of(catalog, "test", "up"))
    assert {"artifact model", "component train"} <= set(steps.names().values())


def test_an_artifact_that_was_logged_can_be_said_something_of(root: str, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1")
    with Run("train", root=root) as run:
        link = run.log_artifact(tmp_path / "data.csv", is_output=False)
    data = Artifact.of(link, root=root).tag(licence="CC0").note("from the archive")
    assert (data.digest, data.uri) == (link.digest, link.uri)
    assert Artifact.load("data.csv", root=root).tags == {"licence": "CC0"}
    [train] = list_runs(root=root)
    assert [edge.target for edge in train.lineage("up", kinds=["artifact"])] == [data.uid]
    assert [edge.source for edge in data.lineage("down")] == [train.uid]
    with pytest.raises(NameTaken, match="already exists"):
        Artifact.create("again", digest=link.digest, root=root)


def test_actions_and_contexts_are_ends_of_a_lineage(root: str) -> None:
    model = Artifact.create("model", "s3://b/model", media_type="application/zip", size_bytes=7, root=root)
    approval = Action.create("approval", description="by Ann", root=root).relate("associated_with", model)
    place = Context.create("shop", uri="https://shop.example", tags={"tier": "live"}, root=root)
    place.relate("derived_from", approval)
    assert [(edge.relation, edge.depth) for edge in place.lineage("up")] == [
        ("derived_from", 1), ("associated_with", 2)]
    assert set(place.lineage("up").names().values()) == {"context shop", "action approval", "artifact model"}
    assert [edge.target for edge in place.lineage("up", kinds=["artifact"])] == [model.uid]
    assert [found.name for found in Context.list(root=root)] == ["shop"]
    assert Action.create("approval", root=root, or_load=True).uid == approval.uid
    with pytest.raises(NameTaken):
        Context.create("shop", root=root)


def test_an_artifact_of_nothing_is_refused(root: str) -> None:
    with pytest.raises(SettingsError, match="pass either its digest or its URI"):
        Artifact.create("nothing", root=root)


def test_a_component_says_how_it_stands_and_what_made_it(root: str) -> None:
    made = Component.create("cleaning", root=root).log_source(
        job="airflow 17", command="clean.py --all", repository="https://example.org/r", branch="main", commit="4f2a")
    made.log_state("failed", "out of disk", started_unix=100.0, ended_unix=160.0)
    for search in ("state = 'failed' and message contains 'disk'", "job = 'airflow 17'", "code.commit like '4f%'",
                   "code.branch = 'main' and command contains 'clean'", "duration = 60"):
        assert [found.name for found in Component.search(search, root=root)] == ["cleaning"]
    assert made.log_state("finished", ended_unix=170.0).state == "finished"
    assert (made.item.facts["message"], made.item.facts["started_unix"]) == ("out of disk", 100.0)


def test_a_run_says_itself_how_it_stands(root: str) -> None:
    with Run("first", root=root):
        pass
    with pytest.raises(SettingsError, match="records its state and origin itself"):
        Component.load("first", root=root).log_state("failed")
