"""Custom rules of smdebug's."""

from __future__ import annotations

import pytest

from barograph.smdebug import NoMoreData, Rule, RuleEvaluationConditionMet, Trial, invoke_rule


class Above(Rule):
    def __init__(self, base_trial: Trial, limit: float, *, end: bool = False) -> None:
        super().__init__(base_trial, "")
        self.limit, self.end = limit, end
        self.seen: list[int] = []

    def set_required_tensors(self, step: int) -> None:
        self.req_tensors.add("^Cross", steps=[step], should_match_regex=True)

    def invoke_at_step(self, step: int) -> bool:
        self.seen.append(step)
        assert self.base_trial.dynamic_refresh is False
        (loss,) = self.req_tensors.get()
        if loss.value(step) > self.limit and self.end:
            raise RuleEvaluationConditionMet(self.rule_name, step, end_of_rule=True)
        return bool(loss.value(step) > self.limit)


def test_a_rule_sees_every_step_until_there_are_no_more(trial: Trial) -> None:
    rule = Above(trial, 0.15)
    with pytest.raises(NoMoreData):
        invoke_rule(rule)
    assert rule.seen == [0, 1, 2]
    assert trial.dynamic_refresh


def test_a_condition_that_is_met_is_raised_where_that_is_asked_for(trial: Trial) -> None:
    with pytest.raises(RuleEvaluationConditionMet) as met:
        invoke_rule(Above(trial, 0.15), raise_eval_cond=True)
    assert (met.value.rule_name, met.value.step) == ("Above", 1)


def test_a_rule_may_end_itself_and_steps_may_be_limited(trial: Trial) -> None:
    ending, limited = Above(trial, 0.15, end=True), Above(trial, 9.0)
    invoke_rule(ending)
    invoke_rule(limited, start_step=1, end_step=2)
    assert (ending.seen, limited.seen) == ([0, 1], [1])


def test_a_tensor_that_is_not_there_passes_the_step_over(trial: Trial) -> None:
    class Missing(Above):
        def set_required_tensors(self, step: int) -> None:
            self.req_tensors.add("no such", steps=[step])

    rule = Missing(trial, 0.0)
    with pytest.raises(NoMoreData):
        invoke_rule(rule)
    assert rule.seen == []


def test_an_action_of_sagemakers_is_not_taken_in_silence(trial: Trial) -> None:
    class Acting(Above):
        def __init__(self, base_trial: Trial) -> None:
            Rule.__init__(self, base_trial, '{"name": "stoptraining"}')

    with pytest.warns(UserWarning, match="stoptraining"):
        Acting(trial)
