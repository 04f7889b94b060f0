"""Workers agree on the step after which all save, and none waits for another."""

from __future__ import annotations

import pytest
from torch import distributed

from barograph.capture.orders import NotDone
from barograph.capture.torch import agreement as torch_agreement
from barograph.capture.torch.agreement import Agreement


@pytest.fixture
def two(monkeypatch):
    store = distributed.HashStore()
    monkeypatch.setattr(torch_agreement, "_shared_store", lambda: store)
    return Agreement(0), Agreement(0)


def walk(agreement, steps, wanted=lambda step: "", step_secs=1.0):
    """Return the steps after which one saves, and why."""
    return [(step, why) for step in steps if (why := agreement.reached(step, step * step_secs, wanted(step)))]


def test_all_save_after_the_step_that_one_has_named(two):
    first, second = two
    assert walk(first, range(1, 6), lambda step: "asked" if step in (3, 4) else "") == [(4, "asked")]
    assert walk(second, range(1, 6)) == [(4, "asked")]


def test_fast_steps_are_named_far_enough_ahead_for_all_to_have_looked(two):
    first, second = two
    told = walk(first, range(1, 200), lambda step: "asked" if step == 30 else "", step_secs=0.01)
    (after, _), = told
    assert after >= 30 + 75
    assert walk(second, range(1, 200), step_secs=0.01) == told


def test_where_two_want_one_the_first_says_when_and_why(two):
    first, second = two
    assert first.reached(7, 7.0, "a finding") == ""
    assert second.reached(7, 7.5, "SIGTERM") == ""
    assert (second.why, second.after_steps) == (first.why, first.after_steps) == ("a finding", 8)
    assert first.reached(8, 8.0, "") == second.reached(8, 8.5, "SIGTERM") == "a finding"
    # What the second wants is agreed on next.
    assert second.reached(9, 9.5, "SIGTERM") == ""
    assert first.reached(9, 9.0, "") == ""
    assert first.reached(10, 10.0, "") == second.reached(10, 10.5, "") == "SIGTERM"


def test_who_reads_of_it_too_late_saves_none_and_is_there_for_the_next(two):
    first, late = two
    assert walk(first, range(1, 6), lambda step: "asked" if step == 3 else "") == [(4, "asked")]
    assert walk(late, range(6, 9)) == []
    assert walk(first, range(8, 11), lambda step: "again" if step == 8 else "") == [(9, "again")]
    assert walk(late, range(9, 11)) == [(9, "again")]


def test_without_a_store_of_the_workers_that_is_said():
    with pytest.raises(NotDone, match=r"the workers share no torch\.distributed store"):
        Agreement(0).reached(1, 1.0, "asked")


def test_a_store_whose_holder_is_gone_is_said(monkeypatch):
    class Gone:
        def check(self, keys):
            raise distributed.DistNetworkError("Connection reset by peer")

    monkeypatch.setattr(torch_agreement, "_shared_store", Gone)
    with pytest.raises(NotDone, match=r"does not answer \(Connection reset by peer\)"):
        Agreement(0).reached(1, 1.0, "")
