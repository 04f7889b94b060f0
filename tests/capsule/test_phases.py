"""Which part of a held step a script is in, by the optimizers that step."""

from __future__ import annotations

from barograph.capsule.torch.phases import Phases


def phases(others, *before):
    content = {"others": others, "before": [{"name": name} for name in before], "name": "own"}
    return Phases(content, "G")


def name(found):
    return found.now and found.now["name"]


def test_one_optimizer_has_one_phase():
    found = phases(0)
    assert (name(found), found.is_last) == ("own", True)


def test_the_pass_of_another_optimizer_comes_first():
    found = phases(1, "D")
    assert (name(found), found.is_last) == ("D", False)
    found.is_back, found.fed = True, 3
    found.stepped("D")
    assert (name(found), found.is_last, found.is_back, found.fed) == ("own", True, False, 0)


def test_of_five_steps_of_another_the_last_is_made_again():
    found = phases(5, "D")
    seen = []
    for _ in range(6):
        seen.append(name(found))
        found.stepped("D")
    assert seen == [None, None, None, None, "D", "own"]


def test_a_step_of_its_own_out_of_turn_begins_anew():
    found = phases(2, "D")
    found.stepped("D")
    assert name(found) == "D"
    found.stepped("G")
    assert name(found) is None
    found.stepped("D")
    found.stepped("D")
    assert found.is_last


def test_more_steps_of_another_than_there_were_begin_its_own_phase_again():
    found = phases(1, "D")
    found.stepped("D")
    found.is_back = True
    found.stepped("D")
    assert (found.is_last, found.is_back) == (True, False)
