"""Which samples are looked for, and what is said of them: of steps that a function, or a finding, held."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from barograph.capsule.order import Grade, OwnResult, ReplayOrder, ReplayResult
from barograph.cli.replay.replay_guilt import Guilt, guilt_of, when_of
from barograph.errors import ReplayFailed, SettingsError
from barograph.model.capsule import CapsuleHead, Held
from barograph.runs.state.capsules import Capsule

ORDER = ReplayOrder("somewhere", "", "", when="checks:steep")
MADE_OF = {"loader": "Rows", "first": 0, "indices": list(range(20, 36)), "loader_worker": None, "names": []}


def held(why: Held, **content: Any) -> Capsule:
    head = CapsuleHead(0, "p0", 3, 3, "", why, "", 1.5e9)
    return Capsule(head, {"machine": {"world_size": 1}, "samples": [MADE_OF], **content}, {}, None, "run/capsules/one")


def step(losses: list[float], own: OwnResult | None = None) -> ReplayResult:
    loss = sum(losses) / len(losses)
    return ReplayResult(Grade.BITWISE, "", losses=((loss, loss),), batches=(len(losses),), norm=3 * loss, own=own)


def made_again(losses: list[float], bound: float = 5.0) -> Any:
    """Return what makes a step again, and has a function ask whether its norm is beyond a bound."""
    def make(order: ReplayOrder, *, quiet: bool) -> ReplayResult:
        result = step([losses[row] for row in order.rows])
        return replace(result, own=OwnResult(holds=result.norm > bound)) if order.when else result

    return make


def asked(losses: list[float], own: OwnResult) -> Guilt:
    return guilt_of(made_again(losses), ORDER, held(Held.OWN), step(losses, own), wanted=True, say=None)


def said(guilt: Guilt, losses: list[float]) -> list[str]:
    return [text for _, text in guilt.entries(step(losses))]


def test_the_sample_that_the_users_function_holds_alone_is_named() -> None:
    losses = [1.0] * 7 + [50.0]
    found = asked(losses, OwnResult(True, "steep"))
    assert found.rows == (7,)
    assert said(found, losses) == ["sample 7, of 8: it fails alone, and without it the step passes",
                                   "sample 7 is 27 of Rows"]
    assert json.loads(json.dumps(found.to_json()))["guilty"]["samples"][0]["index"] == "27"


def test_a_function_that_holds_any_sample_names_none() -> None:
    losses = [9.0] * 8
    assert said(asked(losses, OwnResult(True)), losses) == [
        "no sample: every sample fails on its own, so the samples are not the cause"]


@pytest.mark.parametrize(("alone", "says"), [(False, "no sample of this worker: "), (True, "no sample: every sample")])
def test_a_function_that_holds_any_sample_of_one_of_several_workers_names_another_worker(
    alone: bool, says: str
) -> None:
    losses, capsule = [9.0] * 8, held(Held.OWN, machine={"world_size": 2})
    found = guilt_of(made_again(losses), replace(ORDER, alone=alone), capsule, step(losses, OwnResult(True)),
                     wanted=True, say=None)
    assert said(found, losses)[0].startswith(says)


def test_of_a_batch_of_one_sample_that_is_said() -> None:
    order = replace(ORDER, framework="keras")
    found = guilt_of(made_again([9.0]), order, held(Held.OWN), step([9.0], OwnResult(True)), wanted=True, say=None)
    assert found.why_not == "the batch has one sample."


def test_where_nothing_has_a_row_for_each_sample_that_is_said() -> None:
    bare = replace(step([9.0], OwnResult(True)), batches=())
    found = guilt_of(made_again([9.0]), ORDER, held(Held.OWN), bare, wanted=True, say=None)
    assert found.why_not == "no input of the step has one row per sample."


@pytest.mark.parametrize(("own", "says"), [
    (OwnResult(), "unknown: the function checks:steep does not report the replayed step as failing; it may "
                  "depend on earlier steps, or another worker triggered the capsule."),
    (OwnResult(failure="The function checks:steep fails: KeyError: 'w'."),
     "unknown: The function checks:steep fails: KeyError: 'w'."),
])
def test_why_no_sample_was_asked_is_said(own: OwnResult, says: str) -> None:
    losses = [1.0] * 8
    found = asked(losses, own)
    assert (found.rows, said(found, losses)) == ((), [says])
    assert found.to_json()["samples_not_asked"] == says.removeprefix("unknown: ")


def test_a_capsule_that_names_no_function_says_how_to_name_one() -> None:
    found = guilt_of(made_again([1.0] * 8), replace(ORDER, when=""), held(Held.OWN), step([1.0] * 8), wanted=True,
                     say=None)
    assert "To test single samples: --when MODULE:FUNCTION" in found.why_not


def test_the_function_is_that_of_the_capsule_unless_the_user_names_one() -> None:
    capsule = held(Held.OWN, when="checks:steep")
    assert (when_of(capsule, ""), when_of(capsule, "mine:check")) == ("checks:steep", "mine:check")
    assert when_of(held(Held.NORM, when="checks:steep"), "") == ""
    assert when_of(held(Held.OWN, when=["rm"]), "") == when_of(held(Held.OWN, when="a b"), "") == ""
    with pytest.raises(SettingsError, match="MODULE:FUNCTION"):
        when_of(capsule, "checks.steep")


def weighed(losses: list[float]) -> Guilt:
    order = replace(ORDER, when="")
    return guilt_of(made_again(losses), order, held(Held.FINDING), step(losses), wanted=True, say=None)


def test_of_a_step_of_a_finding_the_heaviest_sample_is_named_with_its_numbers() -> None:
    losses = [1.0, 1.2, 1.1, 0.9, 80.0, 1.3, 0.8, 1.0]
    found = weighed(losses)
    assert (found.guilty, found.rows) == (None, (4,))
    assert said(found, losses) == [
        "sample 4, of 8, stands out: gradient norm 240; the median gradient norm is 3.15 (spread 0.667); without it, "
        "the step has 3.11 instead of 32.7",
        "sample 4 alone: loss 80, gradient norm 240", "sample 5 alone: loss 1.3, gradient norm 3.9",
        "sample 1 alone: loss 1.2, gradient norm 3.6", "sample 4 is 24 of Rows"]
    assert json.loads(json.dumps(found.to_json()))["weighed"]["outliers"] == [4]


def test_where_none_stands_out_that_is_said_and_the_heaviest_are_shown() -> None:
    losses = [1.0, 1.2, 1.1, 0.9, 2.0, 1.3, 0.8, 1.0]
    found = weighed(losses)
    assert found.rows == ()
    first, second, *_ = said(found, losses)
    assert first.startswith(
        "no sample stands out: each of 8 samples was replayed alone; the median gradient norm is 3.15")
    assert second == "sample 4 alone: loss 2, gradient norm 6"


def test_too_few_samples_are_shown_and_not_compared() -> None:
    found = weighed([1.0, 900.0, 1.0])
    assert found.rows == ()
    assert said(found, [1.0, 900.0, 1.0])[0] == (
        "unknown: each of 3 samples was replayed alone, but too few have a loss and gradient norm to compare")


def test_where_no_sample_can_be_made_alone_the_reason_is_said() -> None:
    def make(order: ReplayOrder, *, quiet: bool) -> ReplayResult:
        raise ReplayFailed("The script ended with exit code 1 before its training began a step.")

    found = guilt_of(make, replace(ORDER, when=""), held(Held.FINDING), step([1.0] * 8), wanted=True, say=None)
    assert said(found, [1.0] * 8) == ["unknown: the step cannot be replayed with single samples. The script ended with "
                                      "exit code 1 before its training began a step."]


def test_of_what_has_no_rows_no_sample_is_weighed() -> None:
    bare = replace(step([1.0]), batches=())
    found = guilt_of(made_again([1.0]), replace(ORDER, when=""), held(Held.FINDING), bare, wanted=True, say=None)
    assert found.why_not == "no input of the step has one row per sample."


def test_nothing_is_made_again_where_no_samples_are_wanted() -> None:
    found = guilt_of(None, ORDER, held(Held.FINDING), step([1.0] * 8), wanted=False, say=None)
    assert (found.guilty, found.weighed, found.batch) == (None, None, 0)
