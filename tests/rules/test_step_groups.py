"""Steps that are laid out together say what each says by itself, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from barograph.measures.summary import row_from_summary, summarize
from barograph.model.key import Key, Kind
from barograph.model.records import Subject
from barograph.model.step import Step
from barograph.rules.columns import Table, lay_out, stated_loss, table_of
from barograph.rules.standstill import runs_of
from barograph.runs.format.rows import SubjectTable, WorkerRows
from barograph.runs.reading.view import StepView

LOSS = Key(Kind.LOSS, "total")
SUBJECTS = (
    Subject(Key(Kind.OUTPUT, "fc"), "Linear"), Subject(Key(Kind.WEIGHT, "fc.weight"), "Linear"),
    Subject(Key(Kind.OUTPUT, "norm"), "LayerNorm"), Subject(Key(Kind.WEIGHT, "norm.weight"), "LayerNorm"),
    Subject(Key(Kind.WEIGHT, "fc.bias"), "Linear"),
)
TABLE = SubjectTable(SUBJECTS)


@pytest.fixture(autouse=True)
def nothing_laid_out() -> Iterator[None]:
    yield
    lay_out(())


def view_of(number: int, *, table: SubjectTable = TABLE, spoilt: float = 1.0, losses: int = 1) -> StepView:
    """Return a step with noise of its own; `spoilt` is the first element of the first output."""
    random = np.random.default_rng(number)
    arrays = [random.normal(size=7 + row) for row in range(5)]
    arrays[0][0] = spoilt
    moments = np.stack([row_from_summary(summarize(array))[0] for array in arrays])
    scalars = {Key(Kind.LOSS, "total" if row == 0 else f"other{row}"): float(number + row) for row in range(losses)}
    return StepView(Step(number, number), {"p0": WorkerRows(table, moments, scalars=scalars)}, group="p0")


def views(*, count: int = 4) -> list[StepView]:
    return [view_of(number, spoilt=np.nan if number == 2 else 1.0) for number in range(count)]


QUANTITIES: dict[str, Callable[[Table], Any]] = {
    **{name: lambda table, name=name: getattr(table, name) for name in (
        "moments", "infinite", "finite", "whole", "is_whole", "has_nan", "mean_abs", "l2", "largest_l2", "has_zeros",
        "variances", "largest_sparsity", "norm", "variance", "max_abs", "signatures", "paths")},
    "sum": lambda table: table.column("sum"),
    "sum of layers": lambda table: table.layers.column("sum_sq"),
    "whole layers": lambda table: table.layers.whole,
    "layers": lambda table: (table.layers.paths, table.layers.classes, table.layers.keys),
    "carrying": lambda table: (table.layers.carrying, table.layers.carrying_count),
    "mean of layers": lambda table: table.layers.mean_abs_nonzero,
}


@pytest.mark.parametrize("kind", [Kind.OUTPUT, Kind.WEIGHT, Kind.LOSS, Kind.GRADIENT])
@pytest.mark.parametrize("name", QUANTITIES)
def test_a_step_among_others_says_what_it_says_alone(name: str, kind: Kind) -> None:
    alone = [QUANTITIES[name](table_of(view, kind)) for view in views()]
    together = views()
    lay_out(together)

    for view, expected in zip(together, alone, strict=True):
        np.testing.assert_equal(QUANTITIES[name](table_of(view, kind)), expected)


def test_steps_that_are_laid_out_together_share_a_group() -> None:
    together = views()
    lay_out(together)
    assert len({id(table_of(view, Kind.WEIGHT).group) for view in together}) == 1
    assert [table_of(view, Kind.WEIGHT).line for view in together] == [0, 1, 2, 3]


def test_a_step_that_is_not_among_them_is_laid_out_by_itself() -> None:
    lay_out(views())
    other = view_of(7)
    assert table_of(other, Kind.WEIGHT).column("sum").tolist() == other.columns(Kind.WEIGHT).moments[:, 7].tolist()


def test_a_tensor_that_one_step_did_not_see_is_no_row_of_its_table() -> None:
    together = views()
    together[1].merged().moments[1, 0] = 0.0
    lay_out(together)
    assert [table_of(view, Kind.WEIGHT).paths[0] for view in together] == [
        "fc.weight", "norm.weight", "fc.weight", "fc.weight"]


def test_steps_with_other_losses_keep_their_own() -> None:
    together = [view_of(0), view_of(1, losses=2), view_of(2)]
    lay_out(together)
    assert [table_of(view, Kind.LOSS).column("sum").tolist() for view in together] == [[0.0], [1.0, 2.0], [2.0]]
    assert [stated_loss(view) for view in together] == [(LOSS, 0.0), (LOSS, 1.0), (LOSS, 2.0)]


def still(numbers: list[int]) -> list[NDArray[np.int64]]:
    """Return for how long each weight has been the same, step by step; steps of one number are the same."""
    memory: dict[str, Any] = {}
    steps = [view_of(number) for number in numbers]
    lay_out(steps)
    return [runs_of(table_of(view, Kind.WEIGHT), memory, step=place).length for place, view in enumerate(steps)]


def test_what_stands_still_is_seen_within_a_group() -> None:
    assert [length.tolist() for length in still([0, 1, 1, 1, 2])] == [[1] * 3, [1] * 3, [2] * 3, [3] * 3, [1] * 3]


def test_a_step_that_was_not_judged_is_not_what_the_next_is_compared_with() -> None:
    memory: dict[str, Any] = {}
    steps = [view_of(0), view_of(1), view_of(0)]
    lay_out(steps)
    first, last = (runs_of(table_of(steps[place], Kind.WEIGHT), memory, step=place) for place in (0, 2))
    assert (first.length.tolist(), last.length.tolist(), last.since.tolist()) == ([1] * 3, [2] * 3, [0] * 3)
