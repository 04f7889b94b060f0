"""Studies that start from earlier ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barograph.errors import TuneError
from barograph.tune.study import Study

X = {"x": (-1.0, 1.0)}


def parent(space: Any = X, values: tuple[float, ...] = (3.0, 1.0, 2.0), **options: Any) -> Study:
    study = Study.create(None, space, **{"strategy": "random", "seed": 1, **options})
    for value in values:
        trial = study.ask()
        assert trial is not None
        study.tell(trial, value)
    return study


def test_trials_of_parents_count_for_the_search_but_not_as_trials() -> None:
    study = Study.create(None, X, seed=1, parents=[parent(), parent(seed=2)], strategy="bayesian")
    assert len(study.heritage.trials) == 6
    assert study.trials == []
    trial = study.ask()
    assert trial is not None
    assert trial.origin.proposer == "gp"  # no even start
    assert study.about()[-1] == "Starts from 6 trials of earlier studies."


def test_a_resumed_study_has_its_heritage(tmp_path: Path) -> None:
    whole = Study.create(tmp_path / "a", X, seed=1, parents=[parent()], strategy="bayesian")
    again = Study.open(tmp_path / "a")
    assert again.heritage == whole.heritage
    one, other = whole.ask(), Study.open(tmp_path / "a")
    assert one is not None
    assert other.trials[0].parameters == one.parameters


def test_trials_outside_the_new_ranges_are_left_out() -> None:
    study = Study.create(None, {"x": (0.9, 1.0)}, parents=[parent()])
    assert (len(study.heritage.trials), study.heritage.dropped) == (0, 3)
    assert study.about() == ["Leaves out 3 trials of earlier studies: none fits the space and its constraints."]


def test_transfer_tries_the_best_parameters_first() -> None:
    above = parent({"x": (-1.0, 1.0), "old": [1, 2]})
    study = Study.create(None, {"x": (-1.0, 1.0), "new": (0.0, 2.0)}, parents=[above], transfer=True, strategy="random")
    first = study.ask()
    assert first is not None
    assert first.parameters == {"x": above.best.parameters["x"], "new": 1.0}
    assert study.about()[-1] == "First tries the parameters of 3 trials of earlier studies."


@pytest.mark.parametrize(("options", "message"), [
    ({"parents": [parent(maximize="accuracy")]}, "another objective: maximize accuracy; this study: minimize value"),
    ({"parents": [parent()] * 6}, "at most 5 parents, not 6"),
    ({"parents": [parent({"y": (0.0, 1.0)})]}, "varies none of the parameters x"),
    ({"parents": [parent({"x": (0.0, 1.0), "y": (0.0, 1.0)})]}, "only one of the two has y"),
    ({"parents": [parent({"x": (1, 5)})]}, "x is 1..5:int in a parent, and -1..1 here"),
])
def test_a_parent_that_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TuneError) as caught:
        Study.create(None, X, **options)
    assert message in str(caught.value)


def test_a_parent_is_refused_with_its_place_and_a_way_out(tmp_path: Path) -> None:
    above = Study.create(tmp_path / "above", {"x": (1, 5)}, strategy="random", seed=1)
    with pytest.raises(TuneError) as caught:
        Study.create(None, X, parents=[above.url])
    assert str(caught.value) == ("x is 1..5:int in a parent, and -1..1 here. To try only its best parameters first, "
                                 f"add --transfer (transfer=True) ({above.url}).")


def test_a_parent_counts_once(tmp_path: Path) -> None:
    above, stored = parent(), Study.create(tmp_path / "above", X)
    for parents in ([above, above], [stored, tmp_path / "above"]):
        with pytest.raises(TuneError, match="listed twice"):
            Study.create(None, X, parents=parents)  # type: ignore[arg-type]
    assert len(Study.create(None, X, parents=[above, parent()]).heritage.trials) == 6


def test_a_parent_whose_script_always_failed_teaches_nothing() -> None:
    above = parent(values=())
    for _ in range(3):
        trial = above.ask()
        assert trial is not None
        above.tell(trial, failed="no such file")
    study = Study.create(None, X, parents=[above])
    assert study.heritage.trials == ()
    assert study.about() == []


def test_transfer_does_not_try_almost_the_same_parameters_again() -> None:
    above = Study.create(None, X)
    for x in (0.5, 0.501, 0.2, 0.502):
        above.add({"x": x}, abs(x - 0.5))
    study = Study.create(None, X, parents=[above], transfer=True)
    assert study.heritage.given == ({"x": 0.5}, {"x": 0.2})
    first = study.ask()
    assert first is not None
    assert first.origin.proposer == "parent"


@pytest.mark.parametrize(("constraint", "message"), [
    ("x > 0.4", "First tries the parameters of 1 trial of earlier studies; 2 others did not fit the space and its "
                "constraints."),
    ("x > 0.9", "Leaves out 3 trials of earlier studies: none fits the space and its constraints."),
])
def test_transfer_says_how_many_of_the_best_parameters_violate_a_constraint(constraint: str, message: str) -> None:
    above = Study.create(None, X)
    for x in (0.1, 0.3, 0.5):
        above.add({"x": x}, x)
    study = Study.create(None, X, constraints=[constraint], parents=[above], transfer=True)
    assert study.about() == [message]


def test_different_categories_are_never_almost_the_same_parameters() -> None:
    space = {"color": [f"c{number}" for number in range(30)], "width": list(range(30))}
    above = Study.create(None, space)
    for color, width in (("c1", 1), ("c2", 1), ("c2", 2)):
        above.add({"color": color, "width": width}, float(width))
    study = Study.create(None, space, parents=[above], transfer=True)
    assert study.heritage.given == ({"color": "c1", "width": 1}, {"color": "c2", "width": 1})
