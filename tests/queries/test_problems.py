"""Findings are grouped by what is behind them: one fault is one problem, and two faults are two."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from barograph.judging.progress import RateJump
from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Finding, FindingState, Severity
from barograph.model.key import key_from_text
from barograph.model.step import Mode
from barograph.queries.consequences import LEARNS_ANYWAY, RULES_AFTER
from barograph.queries.problems import problems_of
from barograph.queries.remedies import Remedy, contradicting, first_advice, remedy_of
from barograph.rules.words import lower_rate, raise_rate

NAMES = {"A101": "dead-relu", "A103": "activation-collapse", "G103": "exploding-gradient",
         "L101": "loss-not-decreasing", "L102": "overfit", "L103": "overtraining", "L104": "loss-spike",
         "L108": "underfit", "T104": "rounds-past-best",
         "N101": "non-finite", "P107": "script-error", "W101": "weight-update-ratio", "W104": "frozen-parameter"}


def finding(
    code: str, *causes: Suspicion, opened: int, since: int | None = None, remedy: str = "Look at it.",
    severity: Severity = Severity.COSTLY, state: FindingState = FindingState.OPEN, worker: str = "p0",
    evidence: tuple[Evidence, ...] = (),
) -> Finding:
    return Finding(
        id=f"{code}-{worker}-{opened}", code=code, rule=NAMES.get(code, code.lower()), severity=severity, state=state,
        message=f"Seen by {code}: much.", remedy=remedy, evidence=evidence, subject="", worker=worker, optimizer="",
        mode=Mode.TRAIN, since_step=opened if since is None else since, opened_step=opened, last_step=opened,
        closed_step=None, opened_unix=0.0, causes=causes,
    )


DEAD = (
    finding("W104", Suspicion(Cause.DEAD_RELU, 0.6, "no gradient"), Suspicion(Cause.DETACHED_GRAPH, 0.4), opened=9,
            since=0),
    finding("A101", Suspicion(Cause.DEAD_RELU, 0.9, "the biases are -10", "Initialize biases to 0."), opened=30,
            since=20, evidence=(Evidence(key_from_text("output:relu2"), 30, "dead_share", 1.0, 0.5),)),
    finding("A103", Suspicion(Cause.REPRESENTATION_COLLAPSE, 0.6), opened=40, since=20,
            remedy="Lower the learning rate from 0.002 to 0.0002."),
    finding("L108", Suspicion(Cause.LABELS_UNRELATED, 0.6), opened=229, since=0, remedy="Check the labels."),
    finding("L101", Suspicion(Cause.VANISHING_GRADIENT, 0.25), Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.15),
            opened=239, since=0),
    finding("L103", Suspicion(Cause.OVERFITTING, 0.1), opened=473, since=43, severity=Severity.NOTE),
)
"""What a layer of dead units shows: six findings with five first causes."""


def test_a_layer_that_has_only_a_number_is_called_a_layer() -> None:
    numbered = finding("A101", Suspicion(Cause.DEAD_RELU, 0.9), opened=30,
                       evidence=(Evidence(key_from_text("output:3"), 30, "dead_share", 1.0, 0.5),))

    assert [item.title for item in problems_of([numbered])] == ["All units of layer 3 are dead"]


def test_a_dead_layer_is_one_problem_with_one_remedy_and_its_consequences() -> None:
    (problem,) = problems_of(DEAD)

    assert problem.title == "All units of relu2 are dead"
    assert (problem.cause, problem.severity, problem.since_step) == ("dead-relu", Severity.COSTLY, 0)
    assert problem.remedy.text == "Initialize biases to 0."
    assert problem.evidence == ("The biases are -10", "Seen by A101: much.")
    assert problem.consequences == (
        "frozen-parameter", "activation-collapse", "underfit", "loss-not-decreasing")
    assert problem.leads_to[:2] == ("frozen parameter", "activation collapse")
    assert problem.findings[0].code == "A101"


def test_the_origin_of_nan_is_no_consequence_of_it() -> None:
    (problem,) = problems_of([
        finding("N101", Suspicion(Cause.LOG_OF_ZERO, 0.9), opened=3),
        finding("N102", Suspicion(Cause.LOG_OF_ZERO, 0.8), opened=3), finding("L105", opened=4),
    ])
    assert [item.code for item in problem.findings] == ["N101", "N102", "L105"]
    assert problem.consequences == (problem.findings[2].rule,)


@pytest.mark.parametrize("code", ["L102", "L103", "T104"])
@pytest.mark.parametrize("cause", sorted(RULES_AFTER.keys() - LEARNS_ANYWAY))
def test_what_cannot_learn_is_never_called_overfitting(cause: str, code: str) -> None:
    found = (finding("X101", Suspicion(cause, 0.9), opened=3),
             finding(code, Suspicion(Cause.OVERFITTING, 0.1), opened=473, since=43))

    for problem in problems_of(found):
        assert not set(problem.leads_to) & {"overfitting", "overtraining", "rounds past best"}


@pytest.mark.parametrize("code", ["A101", "A103", "G101", "L101", "L108", "W104"])
def test_a_symptom_of_unknown_cause_is_never_called_overfitting(code: str) -> None:
    late = finding("L103", Suspicion(Cause.OVERFITTING, 0.1), opened=473, severity=Severity.NOTE)

    assert "overtraining" not in problems_of((finding(code, opened=3), late))[0].leads_to


@pytest.mark.parametrize("cause", [
    Cause.FROZEN_PARAMETER, Cause.CLASS_IMBALANCE, Cause.UNSHUFFLED_DATA, Cause.TARGETS_IN_INPUT,
    Cause.LEAKY_VALIDATION,
])
def test_a_model_that_learns_less_may_overfit(cause: str) -> None:
    (problem,) = problems_of((finding("X101", Suspicion(cause, 0.9), opened=3),
                              finding("L102", Suspicion(Cause.OVERFITTING, 0.6), opened=100)))

    assert problem.leads_to == ("overfitting",)


@pytest.mark.parametrize(("weight", "stuck_at", "titles"), [
    (0.5, 9, ["Parameters do not change"]),
    (0.65, 9, ["The labels do not match the inputs", "Parameters do not change"]),
    (0.5, 300, ["The labels do not match the inputs", "Parameters do not change"]),
])
def test_a_loss_at_chance_blames_no_labels_where_parameters_get_no_gradient(
    weight: float, stuck_at: int, titles: list[str]
) -> None:
    stuck = replace(finding("W104", Suspicion(Cause.DETACHED_GRAPH, 0.1), opened=stuck_at), subject="gradient zero")

    problems = problems_of((stuck, finding("L108", Suspicion(Cause.LABELS_UNRELATED, weight), opened=200)))

    assert [problem.title for problem in problems] == titles


def test_overtraining_follows_from_overfitting() -> None:
    (problem,) = problems_of((finding("L102", Suspicion(Cause.OVERFITTING, 0.6), opened=100),
                              finding("L103", Suspicion(Cause.OVERFITTING, 0.1), opened=473, severity=Severity.NOTE)))

    assert problem.leads_to == ("overtraining",)


def test_a_dead_network_is_never_called_overfitting() -> None:
    certain = replace(DEAD[5], causes=(Suspicion(Cause.OVERFITTING, 0.9),))

    (problem,) = problems_of((*DEAD[:5], certain))

    assert problem.cause == "dead-relu"
    assert "overtraining" not in problem.leads_to
    assert certain in problem.findings


def test_the_order_of_the_findings_does_not_matter() -> None:
    assert problems_of(DEAD[::-1]) == problems_of(DEAD)


def test_independent_causes_are_problems_of_their_own() -> None:
    leak = finding("D109", Suspicion(Cause.LEAKY_VALIDATION, 0.9, remedy="Split again."), opened=100)

    found = problems_of((*DEAD, leak))

    assert [item.title for item in found] == ["All units of relu2 are dead",
                                              "Training samples are in the validation data"]
    assert found[1].remedy.text == "Split again."


def test_a_finding_with_a_strong_cause_of_its_own_follows_from_no_other() -> None:
    shown = finding("L101", Suspicion(Cause.MEMORY_LEAK, 0.9), Suspicion(Cause.DEAD_RELU, 0.3), opened=50)

    assert [item.cause for item in problems_of((DEAD[1], shown))] == ["dead-relu", "memory-leak"]


LATE = (
    finding("L104", Suspicion(Cause.BAD_SAMPLE, 0.1), opened=201, severity=Severity.DOUBTFUL,
            remedy="Lower the learning rate from 30 to 10."),
    finding("G103", Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.5), opened=203, since=8,
            remedy="Lower the learning rate from 30 to 3."),
    finding("W101", Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.6), opened=203, since=202,
            remedy="Lower the learning rate from 30 to 1."),
    finding("A101", Suspicion(Cause.DEAD_RELU, 0.6), opened=283, since=202),
)
"""What a learning rate shows that jumps at step 200."""


def test_a_jump_of_the_learning_rate_is_the_cause_of_what_opens_after_it() -> None:
    (problem,) = problems_of(LATE, [RateJump("p0", 200, 0.05, 30.0, 199)])

    assert problem.title == "The learning rate jumped from 0.05 to 30 at step 200"
    assert (problem.cause, problem.since_step) == ("learning-rate-too-high", 200)
    assert (problem.remedy.setting, problem.remedy.old, problem.remedy.new) == ("learning rate", 30.0, 0.05)
    assert problem.evidence == ("Seen by L104: much.",)
    assert problem.consequences == ("exploding-gradient", "weight-update-ratio", "dead-relu")


@pytest.mark.parametrize("jump", [
    RateJump("p0", 210, 0.05, 30.0, 209), RateJump("p0", 20, 0.05, 30.0, 19), RateJump("p1", 200, 0.05, 30.0, 199)])
def test_a_jump_after_the_first_finding_or_long_before_it_or_of_another_worker_is_not(jump: RateJump) -> None:
    (problem,) = problems_of(LATE[:3], [jump])

    assert problem.title == "The learning rate is too high (30)"


def test_a_jump_that_was_not_seen_step_by_step_is_told_by_the_steps_around_it() -> None:
    (problem,) = problems_of(LATE, [RateJump("p0", 201, 0.05, 30.0, 192)])

    assert problem.title == "The learning rate jumped from 0.05 to 30 between steps 192 and 201"


def test_the_best_evidenced_problem_comes_first_but_a_run_that_is_lost_before_all() -> None:
    note = finding("M101", Suspicion(Cause.MACHINE_UNDERUSED, 0.95), opened=1, severity=Severity.NOTE)
    doubtful = finding("D103", Suspicion(Cause.INPUT_NOT_NORMALIZED, 0.9), opened=2, severity=Severity.DOUBTFUL)
    costly = finding("D109", Suspicion(Cause.LEAKY_VALIDATION, 0.7), opened=3)
    lost = finding("N101", opened=4, severity=Severity.BREAKING)

    found = problems_of((note, doubtful, costly, lost))

    assert [item.findings[0].code for item in found] == ["N101", "D103", "D109", "M101"]


def test_what_opened_before_something_began_does_not_follow_from_it() -> None:
    nan = finding("N101", Suspicion(Cause.LOG_OF_ZERO, 0.9), opened=300, severity=Severity.BREAKING)
    early, late = finding("L101", opened=239), finding("A103", opened=340)

    found = problems_of((nan, early, late))

    assert [(item.cause, item.consequences) for item in found] == [
        ("log-of-zero", ("activation-collapse",)), ("", ())]


def test_what_another_worker_shows_does_not_follow() -> None:
    nan = finding("N101", Suspicion(Cause.LOG_OF_ZERO, 0.9), opened=3)

    assert len(problems_of((nan, finding("L101", opened=239, worker="p1")))) == 2


def test_a_script_error_after_nan_follows_from_it() -> None:
    nan = finding("N101", Suspicion(Cause.LOG_OF_ZERO, 0.5), opened=3)
    error = finding("P107", Suspicion(Cause.SCRIPT_ERROR, 0.5), opened=4, severity=Severity.BREAKING)

    (problem,) = problems_of((error, nan))

    assert (problem.cause, problem.consequences) == ("log-of-zero", ("script-error",))


def test_a_script_error_comes_last() -> None:
    error = finding("P107", Suspicion(Cause.SCRIPT_ERROR, 0.5), opened=4, severity=Severity.BREAKING)
    leak = finding("D109", Suspicion(Cause.LEAKY_VALIDATION, 0.4), opened=100)

    assert [item.cause for item in problems_of((error, leak))] == ["leaky-validation", "script-error"]


def test_updates_below_the_precision_of_the_weights_are_no_problem_of_their_own() -> None:
    lost = finding("W104", Suspicion(Cause.FP16_UNDERFLOW, 0.8, "updates are below the precision"), opened=128)
    small = finding("W101", Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.6, "updates are small"),
                    Suspicion(Cause.SCHEDULER_MISPLACED, 0.4, "the learning rate fell"), opened=1408)

    (problem,) = problems_of([small, lost])

    assert (problem.cause, len(problem.findings)) == (Cause.FP16_UNDERFLOW, 2)


def test_values_that_underflow_explain_neither_the_scheduler_nor_large_updates() -> None:
    lost = finding("W104", Suspicion(Cause.FP16_UNDERFLOW, 0.8, "updates are below the precision"), opened=128)
    scheduler = finding("O102", Suspicion(Cause.SCHEDULER_MISPLACED, 0.7, "it was never stepped"), opened=10)
    large = finding("W101", Suspicion(Cause.INITIALIZATION_SCALE, 0.5, "updates are large"), opened=20)

    assert Cause.SCHEDULER_MISPLACED in {problem.cause for problem in problems_of([scheduler, lost])}
    assert len(problems_of([large, lost])) == 2


def test_usual_suspects_are_no_diagnosis() -> None:
    suspects = [Suspicion(cause, 0.2, "a usual suspect") for cause in (Cause.NO_WARMUP, Cause.SOFTMAX_TWICE)]

    (problem,) = problems_of([finding("L101", *suspects, opened=239, remedy="Train on one batch alone.")])

    assert (problem.title, problem.cause, problem.weight) == ("The loss does not fall", "", 0.0)
    assert problem.remedy == Remedy("Train on one batch alone.")


def test_many_usual_suspects_do_not_add_up_to_a_diagnosis() -> None:
    found = problems_of([finding(code, Suspicion(Cause.NO_WARMUP, 0.2), opened=step)
                         for step, code in enumerate(("L101", "L108", "L106", "L104"))])

    assert {item.cause for item in found} == {""}


def test_nan_without_a_cause_says_what_would_find_it() -> None:
    (problem,) = problems_of([finding("N101", Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.2), opened=7)])

    assert problem.title == "NaN or infinite values"
    assert problem.remedy.text.startswith("Run again with --record, then `barograph replay RUN`")


def test_a_weak_cause_is_not_stated_as_the_title() -> None:
    (problem,) = problems_of([finding("L101", Suspicion(Cause.VANISHING_GRADIENT, 0.3, "steps are small"), opened=9)])

    assert problem.title == "The loss does not fall"
    assert problem.evidence[1] == "Likely cause: the gradient vanishes (steps are small)"


def test_a_cause_that_another_brings_about_is_no_root() -> None:
    large = finding("W101", Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.6), opened=2,
                    remedy="Lower the learning rate from 2 to 0.2.")
    dead = finding("A101", Suspicion(Cause.DEAD_RELU, 0.7), opened=30)

    (problem,) = problems_of((dead, large))

    assert problem.title == "The learning rate is too high (2)"
    assert problem.consequences == ("dead-relu",)


LARGE = finding("W101", Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.6), opened=2, state=FindingState.CLOSED,
                remedy="Lower the learning rate from 3 to 0.1.")
"""Updates that were far too large until the weights had grown."""


@pytest.mark.parametrize(("code", "suspicion"), [
    ("G101", Suspicion(Cause.VANISHING_GRADIENT, 0.7, "3 Tanh between the layers")),
    ("A102", Suspicion(Cause.SATURATED_ACTIVATION, 0.9)), ("A101", Suspicion(Cause.DEAD_RELU, 0.9)),
    ("A103", Suspicion(Cause.REPRESENTATION_COLLAPSE, 0.9)), ("W104", Suspicion(Cause.FROZEN_PARAMETER, 0.7)),
])
def test_what_a_closed_finding_brought_about_follows_from_it(code: str, suspicion: Suspicion) -> None:
    (problem,) = problems_of((finding(code, suspicion, opened=40, since=10), replace(LARGE, closed_step=230)))

    assert problem.title == "The learning rate is too high (3)"
    assert problem.state is FindingState.OPEN
    assert problem.consequences == (NAMES.get(code, code.lower()),)


def test_what_began_after_a_finding_had_closed_does_not_follow_from_it() -> None:
    vanishing = finding("G101", Suspicion(Cause.VANISHING_GRADIENT, 0.7), opened=900, since=870)

    first, *_ = problems_of((vanishing, replace(LARGE, closed_step=230)))

    assert first.title == "The gradient vanishes"


def test_no_two_remedies_move_a_setting_both_ways() -> None:
    high = finding("W101", Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.6), opened=2,
                   remedy="Lower the learning rate from 2 to 0.2.")
    low = finding("X101", Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.9, remedy="Raise the learning rate from 2 to 20."),
                  opened=2)

    better, other = sorted(problems_of((high, low)), key=lambda item: -item.weight)

    assert better.remedy.text == "Raise the learning rate from 2 to 20."
    assert other.remedy.text == "First fix: The learning rate is too low. Then train again."
    assert contradicting([better.remedy, other.remedy]) == 0


def test_the_remedy_is_that_of_the_main_evidence_and_stays_when_stronger_findings_follow() -> None:
    first = finding("W101", Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.7,
                                      remedy="Lower the learning rate from 2 to 0.0667."), opened=0)
    later = finding("W104", Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.9,
                                      remedy="Lower the learning rate from 2 to 0.2."), opened=4)

    (alone,), (together,) = problems_of([first]), problems_of([first, later])

    assert alone.remedy.new == together.remedy.new == 0.0667


def test_a_remedy_is_not_given_with_two_values() -> None:
    causes = [Suspicion("my-own", 0.9, remedy="Lower the learning rate from 2 to 1."),
              Suspicion("my-other", 0.8, remedy="Lower the learning rate from 2 to 0.1.")]
    found = problems_of([finding(f"X10{place}", cause, opened=2) for place, cause in enumerate(causes)])

    assert {item.remedy.new for item in found} == {1.0}


@pytest.mark.parametrize(("one", "other", "number"), [
    ("Lower the learning rate from 3 to 1.", "Raise the learning rate from 3 to 9.", 1),
    ("Lower the learning rate from 3 to 1.", "Lower the learning rate from 3 to 0.3.", 1),
    ("Lower the learning rate from 3 to 1.", "Lower the learning rate from 3 to 1.", 0),
    ("Lower the learning rate from 3 to 1.", "Lower the momentum to 0.9.", 0),
])
def test_contradicting_remedies_are_counted(one: str, other: str, number: int) -> None:
    assert contradicting([remedy_of("", one), remedy_of("", other)]) == number


@pytest.mark.parametrize(("text", "old", "new"), [
    (lower_rate(0.5, 10), 0.5, 0.05), (raise_rate(1e-5, 10), 1e-5, 1e-4), (lower_rate(None, 10), None, None),
    ("Lower the momentum to 0.9.", None, 0.9),
])
def test_old_and_new_value_of_a_setting_are_read_from_the_words_of_the_rules(
    text: str, old: float | None, new: float | None
) -> None:
    remedy = remedy_of("", text)

    assert (remedy.old, remedy.new) == (old, new)
    assert remedy.direction is not None


def test_a_long_advice_is_cut_to_its_first_sentence() -> None:
    text = "Train on one batch, with rates 0.02 and 0.0002 beside 0.002. A model " + "that cannot learn it " * 10

    assert first_advice(text) == "Train on one batch, with rates 0.02 and 0.0002 beside 0.002."


def test_a_problem_is_gone_when_all_its_findings_are_and_comes_after_the_open_ones() -> None:
    gone = finding("D109", Suspicion(Cause.LEAKY_VALIDATION, 0.9), opened=1, severity=Severity.BREAKING,
                   state=FindingState.CLOSED)

    assert [item.state for item in problems_of((gone, *DEAD))] == [FindingState.OPEN, FindingState.CLOSED]


def test_percentages_and_vanishing_numbers_are_written_as_people_do() -> None:
    (problem,) = problems_of([replace(finding("X101", opened=1), message="38.6 % of units; norm 5.09e-17")])

    assert problem.evidence == ("38.6% of units; norm 0",)


@pytest.mark.parametrize(("message", "why", "weight", "evidence"), [
    ("Training stalled: no step for 33 minutes after step 0.", "", 0.0, ("No step for 33 minutes after step 0.",)),
    ("The batch of step 7 has 2 NaN values.", "2 NaN values in the batch", 0.9,
     ("The batch of step 7 has 2 NaN values.",)),
    ("Training stalled 40% of the time: 40 ms of 100 ms.", "training stalled 40% of the time", 0.3,
     ("40 ms of 100 ms.", "Likely cause: training waits for data")),
    ("Training waits for data 40% of the time: 40 ms of 100 ms.", "training waits for data 40% of the time", 0.3,
     ("40 ms of 100 ms.",)),
    ("A tree is 60 levels deep.", "a tree is 60 levels deep", 0.3, ("Likely cause: training waits for data",)),
    ("All units are dead.", "8 units are dead", 0.9, ("8 units are dead", "All units are dead.")),
])
def test_evidence_repeats_neither_the_title_nor_itself(
    message: str, why: str, weight: float, evidence: tuple[str, ...]
) -> None:
    causes = (Suspicion(Cause.SLOW_DATA_LOADING, weight, why),) if why else ()

    (problem,) = problems_of([replace(finding("X101", *causes, opened=1), message=message)])

    assert problem.evidence == evidence


def test_json_names_findings_by_their_ids_and_is_strict() -> None:
    (problem,) = problems_of(LATE, [RateJump("p0", 200, 0.05, 30.0, 199)])

    data = json.loads(json.dumps(problem.to_json(), allow_nan=False))

    assert data["findings"] == ["L104-p0-201", "G103-p0-203", "W101-p0-203", "A101-p0-283"]
    assert data["remedy"]["direction"] == "down"
    assert (data["title"], data["severity"], data["state"]) == (
        "The learning rate jumped from 0.05 to 30 at step 200", "costly", "open")


def test_a_collapse_and_a_loss_at_chance_after_an_explosion_are_one_problem() -> None:
    exploded = Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.75, "the loss rose from 2.3 to 1e5 at step 13",
                         "Lower the learning rate from 0.8 to 0.08.")
    found = [finding("A103", exploded, Suspicion(Cause.REPRESENTATION_COLLAPSE, 0.6), opened=128, since=32),
             finding("L108", exploded, Suspicion(Cause.LABELS_UNRELATED, 0.5), opened=279, since=0)]

    (problem,) = problems_of(found)

    assert problem.title == "The learning rate is too high (0.8)"
    assert (problem.remedy.old, problem.remedy.new) == (0.8, 0.08)


REPLACED_HEAD = (
    finding("G103", Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.6), Suspicion(Cause.EXPLODING_GRADIENT, 0.3), opened=208,
            since=197, remedy="Lower the learning rate from 0.05 to 0.005."),
    finding("P108", Suspicion(Cause.STALE_OPTIMIZER, 0.95), opened=213, since=208, remedy="Create it later."),
    finding("L101", Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.4), opened=239, since=210),
    finding("W104", Suspicion(Cause.STALE_OPTIMIZER, 0.9), opened=416, since=208),
)
"""What a run shows whose last layer was replaced without a new optimizer."""


def test_what_the_script_does_follows_from_no_explosion() -> None:
    (problem,) = problems_of(REPLACED_HEAD)

    assert (problem.cause, problem.since_step, problem.remedy.text) == ("stale-optimizer", 208, "Create it later.")
    assert problem.consequences == ("exploding-gradient", "loss-not-decreasing", "frozen-parameter")


def test_an_explosion_long_before_a_layer_was_replaced_does_not_follow_from_that() -> None:
    early = finding("G103", Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.6), opened=20, since=10)

    problems = problems_of([early, *REPLACED_HEAD[1:]])

    assert {item.cause for item in problems} == {"stale-optimizer", "learning-rate-too-high"}
