"""What says the same thing twice is one result."""

from pathlib import Path

import pytest

from barograph.errors import UnknownName
from barograph.experiments.catalog import Catalog
from barograph.experiments.judging import judged
from barograph.experiments.run import Run, list_runs
from barograph.experiments.verdict import Outcome
from barograph.model.items import Entry, Verb
from experiments_entries import component


def told(catalog: Catalog, *rows: tuple[str, dict[str, object], float]) -> None:
    """Tell of components: name, parameters, accuracy."""
    for name, parameters, accuracy in rows:
        catalog.tell(component(name, parameters=parameters, metrics={"acc": accuracy}))


def test_runs_with_one_seed_count_once(catalog: Catalog) -> None:
    told(catalog,
         ("a0", {"model": "a", "seed": 0, "epochs": 1}, 0.9), ("a1", {"model": "a", "seed": 0, "epochs": 2}, 0.92),
         ("b0", {"model": "b", "seed": 0}, 0.5), ("b1", {"model": "b", "seed": 1}, 0.51))
    found = judged(catalog.find("order by name"), "params.model", "acc")
    first, second = found.groups
    assert (first.name, first.runs, first.values, first.repeats) == (
        "a", 2, (pytest.approx(0.91),), ("a1 counted with a0 (same seed: 0)",))
    assert (first.differs, second.differs, second.values) == (("epochs",), ("seed",), (0.5, 0.51))
    assert found.verdict is not None
    assert (found.verdict.outcome, found.verdict.counts) == (Outcome.UNDECIDED, (1, 2))


def test_folds_of_one_seed_are_results_of_their_own(catalog: Catalog) -> None:
    told(catalog, *((f"a{fold}", {"model": "a", "seed": 0, "fold": fold}, 0.9 + fold / 100) for fold in range(3)))
    [group] = judged(catalog.find("order by name"), "params.model", "acc").groups
    assert (group.runs, len(group.values), group.repeats) == (3, 3, ())


def test_reruns_of_one_thing_count_once_and_the_original_gives_the_value(catalog: Catalog) -> None:
    told(catalog, ("a", {"model": "a"}, 0.9), ("again", {"model": "a"}, 0.8), ("third", {"model": "a"}, 0.7),
         ("changed", {"model": "a", "lr": 2}, 0.6))
    catalog.tell([Entry("again", Verb.RELATE, {"relation": "derived_from", "target": "a"}),
                  Entry("third", Verb.RELATE, {"relation": "derived_from", "target": "again"}),
                  Entry("changed", Verb.RELATE, {"relation": "derived_from", "target": "a"})])
    [group] = judged(catalog.find("order by name"), "params.model", "acc").groups
    assert group.values == (0.9, 0.6)
    assert group.repeats == ("again counted with a (a rerun)", "third counted with a (a rerun)")


def test_runs_that_are_prefixes_of_one_another_count_once(tmp_path: Path) -> None:
    for name, steps, shift in (("short", 3, 0.0), ("whole", 9, 0.0), ("other", 9, 0.5)):
        with Run(name, root=tmp_path) as run:
            run.log_parameter("model", "a")
            for step in range(steps):
                run.log_metric("acc", step / 10 + shift * step, step)
    [group] = judged([run.item for run in list_runs("order by created", root=tmp_path)], "params.model", "acc").groups
    assert sorted(group.values) == [pytest.approx(0.8), pytest.approx(4.8)]
    assert group.repeats == ("short counted with whole (same values)",)


def test_a_name_that_nobody_has_tells_no_groups_apart(catalog: Catalog) -> None:
    told(catalog, ("a", {"model": "a"}, 0.9), ("b", {"model": "b"}, 0.5))
    with pytest.raises(UnknownName, match=r'parameter "modle".*Did you mean "model"'):
        judged(catalog.find(), "params.modle", "acc")
    with pytest.raises(UnknownName, match='tag "team"'):
        judged(catalog.find(), "tags.team", "acc")
