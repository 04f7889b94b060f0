"""The plan is the union of what everybody asks for."""

from __future__ import annotations

import pytest

from barograph.capture.plan import Agenda, Plan, Taking
from barograph.capture.presets import PRESETS, preset_named
from barograph.errors import UnknownName
from barograph.model.key import Key, Kind
from barograph.model.selection import Histogram, Schedule, Selection, every
from barograph.model.step import Mode

WEIGHT = Key(Kind.WEIGHT, "fc.weight")


def test_what_is_taken_is_the_most_that_anybody_asks():
    plan = Plan([
        Selection(kinds=frozenset({Kind.WEIGHT}), histogram=Histogram.SAMPLED),
        Selection(kinds=frozenset({Kind.WEIGHT}), units=True, histogram=Histogram.NONE),
    ])
    assert plan.taking(0b11, WEIGHT) == Taking(Histogram.SAMPLED, units=True, raw=False)
    assert plan.taking(0b01, WEIGHT) == Taking(Histogram.SAMPLED)


def test_what_nobody_asks_for_is_not_taken():
    plan = Plan([Selection(kinds=frozenset({Kind.WEIGHT}), include=("conv*",))])
    assert plan.taking(0b1, WEIGHT) is None
    assert plan.taking(0b1, Key(Kind.GRADIENT, "conv.weight")) is None
    assert plan.taking(0b0, Key(Kind.WEIGHT, "conv.weight")) is None


def test_masks_that_take_the_same_of_a_kind_are_one():
    weight, gradient, both = (frozenset(kinds) for kinds in (
        {Kind.WEIGHT}, {Kind.GRADIENT}, {Kind.WEIGHT, Kind.GRADIENT}))
    plan = Plan([
        Selection(kinds=both, histogram=Histogram.SAMPLED, schedule=every(7)),
        Selection("named", kinds=both, histogram=Histogram.SAMPLED, schedule=every(5)),
        Selection(kinds=weight, schedule=every(3)),
        Selection(kinds=weight, include=("fc*",), units=True),
        Selection(kinds=gradient, layers=frozenset({"Linear"})),
        Selection(kinds=weight, histogram=Histogram.SAMPLED),
    ])
    assert plan.of_kind(0b000001, Kind.WEIGHT) == plan.of_kind(0b000011, Kind.WEIGHT) == 0b1
    assert plan.of_kind(0b000010, Kind.WEIGHT) == plan.of_kind(0b010110, Kind.WEIGHT) == 0b1
    assert plan.of_kind(0b000100, Kind.WEIGHT) == 0b100
    assert plan.of_kind(0b001101, Kind.WEIGHT) == 0b1001  # what takes units adds to what takes none
    assert plan.of_kind(0b010000, Kind.GRADIENT) == 0b10000
    assert plan.of_kind(0b010010, Kind.GRADIENT) == 0b1
    assert plan.of_kind(0b100001, Kind.WEIGHT) == 0b1  # of two that take the same of all one stays
    assert plan.of_kind(0b111111, Kind.OUTPUT) == 0


def test_what_is_taken_does_not_hang_on_which_mask_stands_for_it():
    """Every mask of a plan of all kinds of Selections, against the union of what it asks for, one by one."""
    weights, outputs = frozenset({Kind.WEIGHT}), frozenset({Kind.WEIGHT, Kind.OUTPUT})
    plan = Plan([
        Selection(kinds=kinds, include=include, layers=layers, histogram=histogram, units=units)
        for kinds, histogram in ((weights, Histogram.NONE), (outputs, Histogram.EXACT))
        for include, layers in (((), frozenset()), (("fc*",), frozenset()), ((), frozenset({"Linear"})))
        for units in (False, True)
    ])
    keys = [(Key(kind, path), layer) for kind in outputs for path in ("fc.a", "conv.a") for layer in ("Linear", "Relu")]
    for mask in range(1 << len(plan.selections)):
        asked = [item for number, item in enumerate(plan.selections) if mask >> number & 1]
        for key, layer in keys:
            union = [item for item in asked if item.matches(key, layer)]
            assert plan.taking(mask, key, layer) == (Taking(
                max(item.histogram for item in union), any(item.units for item in union)) if union else None)


def test_a_schedule_holds_in_its_own_modes():
    plan = Plan([
        Selection(kinds=frozenset({Kind.OUTPUT}), schedule=Schedule(every=2, modes=frozenset({Mode.TRAIN}))),
        Selection(kinds=frozenset({Kind.LOSS})),
    ])
    assert plan.scheduled(2, Mode.TRAIN) == 0b11
    assert plan.scheduled(3, Mode.TRAIN) == 0b10
    assert plan.scheduled(2, Mode.EVAL) == 0b10
    assert plan.kinds(0b11) == {Kind.OUTPUT, Kind.LOSS}


def test_what_was_due_and_not_afforded_stays_due():
    agenda = Agenda(Plan([Selection(kinds=frozenset({Kind.WEIGHT}), schedule=every(10))]))
    assert agenda.due(10) == 1
    assert agenda.due(11) == 1
    agenda.took(1)
    assert agenda.due(12) == 0
    assert agenda.due(20) == 1


def test_what_is_owed_is_part_of_what_is_due_and_its_schedules_are_not_asked():
    asked = []

    class Asked(Schedule):
        def includes_any(self, first, last, mode=Mode.TRAIN):
            asked.append(self.every)
            return super().includes_any(first, last, mode)

    plan = Plan([Selection(kinds=frozenset({kind}), schedule=Asked(every=interval_steps))
                 for kind, interval_steps in ((Kind.WEIGHT, 2), (Kind.OUTPUT, 3), (Kind.LOSS, 5))])
    assert plan.scheduled(6, since=6, owed=0b100) == 0b111
    assert asked == [2, 3]
    assert plan.scheduled(7, since=7, owed=0b010) == 0b010


def test_every_preset_is_found_by_its_name_and_others_are_refused_with_the_nearest():
    assert [preset_named(name).name for name in PRESETS] == list(PRESETS)
    with pytest.raises(UnknownName, match='Did you mean "standard"'):
        preset_named("standart")


def test_presets_ask_for_more_the_dearer_they_are():
    histograms = {
        name: max(selection.histogram for selection in PRESETS[name].selections)
        for name in ("free", "moments", "sampled", "exact")
    }
    assert histograms == {"free": 0, "moments": 0, "sampled": 1, "exact": 2}


@pytest.mark.parametrize("schedule", [
    every(10), Schedule(every=7, start=3, end=40), Schedule(every=0, steps=frozenset({5, 33})), Schedule(every=1),
])
def test_any_step_of_a_stretch_is_found_as_by_looking_at_each(schedule):
    for first in range(45):
        for last in range(first - 1, 45):
            expected = any(schedule.includes(step) for step in range(first, last + 1))
            assert schedule.includes_any(first, last) == expected


def test_what_was_scheduled_in_steps_that_nobody_asked_about_is_due():
    agenda = Agenda(Plan([Selection(kinds=frozenset({Kind.WEIGHT}), schedule=every(10))]))
    agenda.took(agenda.due(0))
    assert agenda.due(9) == 0
    assert agenda.due(15) == 1


def test_each_optimizer_has_its_own_agenda():
    agenda = Agenda(Plan([Selection(kinds=frozenset({Kind.WEIGHT}), schedule=every(10))]))
    agenda.took(agenda.due(0, optimizer="a"), optimizer="a")
    assert agenda.due(0, optimizer="b") == 1
    assert agenda.due(1, optimizer="a") == 0


def test_an_evaluation_is_due_where_any_step_since_the_one_before_was():
    agenda = Agenda(Plan([Selection(kinds=frozenset({Kind.LABEL}), schedule=every(10))]))
    assert agenda.due(23, Mode.EVAL) == 1
    agenda.took(1, Mode.EVAL)
    assert agenda.due(29, Mode.EVAL) == 0
    assert agenda.due(46, Mode.EVAL) == 1
