"""The closing summary: "No problems found" is said of what was seen, with what was not."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from barograph.errors import StoreFull
from barograph.judging.feeding import EVALUATE
from barograph.judging.judged import Judged
from barograph.judging.progress import Progress
from barograph.model.capsule import CapsuleHead, Held
from barograph.model.cause import Cause, Suspicion
from barograph.model.clock import ManualClock
from barograph.model.finding import Finding, FindingState, NotEvaluated, Severity, Symptom, Unmet
from barograph.model.key import Key, Kind
from barograph.model.manifest import Cost, Coverage, EndState, Heartbeat
from barograph.model.origin import Untrained
from barograph.model.records import StepRecords
from barograph.model.step import Mode, Step
from barograph.queries.summary import ActionTaken, RunSummary, WorkerReport, summary_of
from barograph.queries.wording import not_evaluated_line, not_evaluated_lines
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.rules.words import CLIPPING
from barograph.runs.format.layout import MANIFEST
from barograph.runs.reading.view import StepView
from barograph.runs.state.checkpoints import write_checkpoint
from barograph.runs.state.findings import read_findings
from barograph.runs.state.origins import write_options
from barograph.store.base import Store
from barograph.store.failures import NO_SPACE
from barograph.watch.closing import closing_text
from barograph.watch.loop import Watcher
from watched import FailingStore, Training

WHOLE = Coverage(parameters=4, parameters_seen=4, gradients_seen=4, modules=3, modules_seen=3, loss_seen=True,
                 steps=500, steps_seen=500, evaluations=5)
LAST = Heartbeat(beat=9, time_unix=0.0, step=500, cost=Cost(101.0, 1.0, 0.5, 0.25, 0.01), coverage=WHOLE)
ONE_STEP = replace(WHOLE, steps=1, steps_seen=1)
SEEN = replace(LAST, coverage=ONE_STEP)
DONE = WorkerReport("p0", EndState.FINISHED, "finished", "", LAST)
CLEAN = RunSummary(
    url="file:///tmp/run", attempt=0, steps=505, findings=(), rules=("A101", "G101", "L102", "L106"), not_evaluated=(),
    warnings=(), workers=(DONE,), unseen=(),
)
FINDING = Finding(
    id="G101-40-000000000000", code="G101", rule="vanishing-gradient", severity=Severity.COSTLY,
    state=FindingState.OPEN, message="The gradient vanishes.", remedy="Use ReLU.", evidence=(), subject="",
    worker="p0", optimizer="", mode=Mode.TRAIN, since_step=40, opened_step=41, last_step=480, closed_step=None,
    opened_unix=0.0,
)


DEAD = replace(
    FINDING, id="A101-40", code="A101", rule="dead-relu", message="Units are dead: all of them.",
    causes=(Suspicion(Cause.DEAD_RELU, 0.9, "the biases are -10", "Initialize biases to 0."),),
)


def with_coverage(**changes: Any) -> RunSummary:
    last = replace(LAST, coverage=replace(WHOLE, **changes))
    return replace(CLEAN, workers=(replace(DONE, last=last),))


def test_where_all_was_seen_it_says_no_problems_found() -> None:
    assert CLEAN.verdict == "No problems found in 500 steps."


def test_where_steps_were_sampled_it_says_in_how_many_and_why() -> None:
    assert with_coverage(steps_seen=143).verdict == (
        "No problems found. Tensors were recorded at 143 of 500 steps (budget 1%)."
    )


def test_where_something_was_not_seen_it_says_what() -> None:
    verdict = replace(CLEAN, unseen=("Layer fc is compiled.",)).verdict

    assert verdict == "No problems found. Layer fc is compiled."


def test_a_damaged_or_lost_part_comes_before_what_the_rest_shows() -> None:
    damaged = CLEAN.but_damaged("Chunks 0 to 1 of worker p0 in attempt 0 cannot be read.")

    assert damaged.verdict == ("Chunks 0 to 1 of worker p0 in attempt 0 cannot be read. "
                               "The rest shows no problems.")
    assert replace(damaged, steps=0).verdict == (
        "Chunks 0 to 1 of worker p0 in attempt 0 cannot be read. Nothing could be evaluated.")
    mute = tuple(NotEvaluated(code, code, "Not recorded.", "Record it.") for code in ("A101", "G101"))
    assert "2 rules" not in closing_text(replace(damaged, steps=0, not_evaluated=mute))


def test_problems_are_counted_with_those_that_are_gone_and_the_worst_is_named() -> None:
    gone = replace(FINDING, id="M112-9", code="M112", rule="a-rule", message="Steps were dropped: 9.",
                   state=FindingState.CLOSED)

    assert replace(CLEAN, findings=(FINDING, gone)).verdict == "2 problems (1 of them gone): The gradient vanishes."
    assert replace(CLEAN, findings=(gone,)).verdict == "1 problem (gone): Steps were dropped."


def test_of_rules_that_were_fed_in_part_it_is_not_said_that_nothing_was_recorded() -> None:
    items = [NotEvaluated(code, "a-rule", f"{part}othing was recorded of what it needs.", "Evaluate.",
                          Unmet.NEEDS_SETTING)
             for code, part in (("G101", "N"), ("W103", "In part: n"), ("G102", "N"), ("W104", "In part: n"))]

    assert not_evaluated_lines(items, whole=False) == [
        "needs a setting: G101 a-rule, G102 a-rule. Evaluate.",
        "needs a setting, in part: W103 a-rule, W104 a-rule. Evaluate."]


def test_rules_that_do_not_apply_are_listed_only_where_all_are() -> None:
    items = [NotEvaluated("T101", "tree-depth", "No trees.", "Boosted trees only.", Unmet.NOT_APPLICABLE),
             NotEvaluated("L106", "plateau", "Not judged yet: few losses.")]

    assert not_evaluated_lines(items, whole=False) == ["not enough data yet: L106 plateau. Few losses."]
    assert not_evaluated_lines(items, whole=True)[1] == (
        "not applicable: T101 tree-depth. No trees. Boosted trees only.")


def test_one_line_counts_the_rules_that_the_user_can_feed() -> None:
    items = [NotEvaluated("L102", "overfit", "No evaluation.", EVALUATE, Unmet.NEEDS_SETTING),
             NotEvaluated("L103", "overtraining", "No evaluation.", EVALUATE, Unmet.NEEDS_SETTING),
             NotEvaluated("L106", "plateau", "Not judged yet."),
             NotEvaluated("M101", "batch-size", "No GPU.", "", Unmet.NOT_APPLICABLE)]

    assert not_evaluated_line(items) == (
        "2 rules need an evaluation, 1 more data")
    assert not_evaluated_line(items[3:]) == ""


def test_ranks_of_one_training_count_its_steps_once_and_the_least_that_one_saw() -> None:
    ranks = tuple(WorkerReport(f"r{rank}", EndState.FINISHED, "finished", "",
                               replace(LAST, coverage=replace(WHOLE, steps_seen=seen)))
                  for rank, seen in enumerate((500, 480)))

    assert replace(CLEAN, workers=ranks).verdict.startswith(
        "No problems found. Tensors were recorded at 480 of 500 steps")


def test_a_healthy_run_earns_three_lines() -> None:
    assert closing_text(CLEAN) == """
barograph: 500 steps (tensors at each), 5 evaluations; recording cost 1.0% (budget 1%)
  No problems found in 500 steps.
  run       file:///tmp/run"""


def test_a_healthy_run_says_briefly_what_was_not_checked() -> None:
    early = NotEvaluated("L106", "plateau", "Not judged yet: few losses.")
    gpu = NotEvaluated("M101", "batch-size", "No GPU.", "", Unmet.NOT_APPLICABLE)
    summary = replace(CLEAN, not_evaluated=(early, gpu), unseen=(
        "Tensors were recorded at 26 of 500 steps (the budget).", "Steps 80 to 151 were not recorded."))

    assert closing_text(summary).splitlines()[2:] == [
        "  No problems found. Steps 80 to 151 were not recorded. 1 rule needs more data (barograph show RUN --rules).",
        "  run       file:///tmp/run"]


@pytest.mark.parametrize("cost", [
    Cost(train_secs=2.3, capture_secs=0.3, budget=0.01), Cost(train_secs=95.0, capture_secs=1.4, budget=0.01),
    Cost(train_secs=9_000.0, capture_secs=80.0, budget=0.01), Cost(train_secs=9_000.0, capture_secs=800.0),
])
@pytest.mark.parametrize(("steps", "seen", "evaluations"), [(151, 31, 0), (1_720, 1_720, 40), (125_000, 1_200, 1_250)])
def test_a_usual_healthy_run_earns_three_lines_on_a_terminal(
    cost: Cost, steps: int, seen: int, evaluations: int
) -> None:
    coverage = replace(WHOLE, steps=steps, steps_seen=seen, evaluations=evaluations)
    last = replace(LAST, cost=cost, coverage=coverage)
    mute = [NotEvaluated(f"L{place}", "plateau", "Few losses.") for place in range(12)]
    mute += [NotEvaluated(f"E{place}", "overfit", "None.", EVALUATE, Unmet.NEEDS_SETTING) for place in range(4)]

    lines = closing_text(replace(
        CLEAN, steps=seen, workers=(replace(DONE, last=last),), not_evaluated=tuple(mute),
        rules=(*(item.code for item in mute), "A101"),
        unseen=(f"Tensors were recorded at {seen:,} of {steps:,} steps (limited by the budget).",)), width=80)

    first, second, run = lines.splitlines()[1:]
    assert first.startswith(f"barograph: {steps:,} steps (tensors at ")
    assert second == "  No problems found. 4 rules need an evaluation, 12 more data (show --rules)."
    assert run == "  run       file:///tmp/run"


def test_the_text_shows_problem_evidence_remedy_and_what_was_not_seen() -> None:
    text = closing_text(replace(
        CLEAN, findings=(DEAD,), unseen=("Layer fc is compiled.",), warnings=("The store was away.",),
        not_evaluated=(NotEvaluated("L102", "overfit", "No evaluation.", EVALUATE, Unmet.NEEDS_SETTING),)))

    assert text == """
barograph: 1 problem found; 500 steps (tensors at each), 5 evaluations; recording cost 1.0% (budget 1%)
  costly    ReLU units are dead (since step 40, A101)
            The biases are -10
            fix: Initialize biases to 0.
  not seen  Layer fc is compiled.
  rules     1 rule needs an evaluation (barograph show RUN --rules)
  warning   The store was away.
  run       file:///tmp/run"""


def test_a_warning_does_not_repeat_what_was_not_seen() -> None:
    text = closing_text(replace(CLEAN, findings=(DEAD,), unseen=("The writer process has ended.",),
                                warnings=("the writer process has ended",)))

    assert text.casefold().count("the writer process has ended") == 1


def test_a_sick_run_takes_about_twelve_lines_whatever_happened() -> None:
    found = tuple(replace(
        FINDING, id=f"P108-{place}", code="P108", opened_step=place, message=f"{place} is wrong: it is.",
        causes=(Suspicion(f"cause-{place}", 0.9 - place / 100, "seen", f"Mend {place}."),)) for place in range(9))
    stop = ActionTaken("stop", FINDING.id, "G101 vanishing-gradient: it vanishes.", 0.0, "p0", 42, 1.0, "stopped", True)
    summary = replace(
        CLEAN, findings=found, held=(held_at(8), held_at(9)), actions=(stop,) * 4, unseen=("One.", "Two."),
        warnings=("The store was away.", "It is back."), go_on_from=1200,
        workers=(replace(DONE, word="killed"),))

    lines = closing_text(summary, command="ended with exit code 3").splitlines()[1:]

    assert len(lines) == 13
    assert lines[1] == "  costly    0 is wrong (since step 40, P108)"
    assert lines[2] == "            Seen"
    assert lines[3] == "            fix: Mend 0."
    assert lines[4] == "  and 8 more problems (barograph show RUN --all)"
    assert lines[5].startswith("  held      step 8 and 1 more step: The gradient of fc.weight is not finite.")
    assert lines[6] == "  done      stop, requested by G101 vanishing-gradient: p0 stopped after 42 steps (and 3 more)"
    assert lines[-3:] == ["  command   ended with exit code 3",
                          "  resume    barograph resume file:///tmp/run   (from step 1,200)",
                          "  run       file:///tmp/run"]


def test_on_a_terminal_title_evidence_and_remedy_are_folded_and_nothing_is_cut() -> None:
    cause = replace(DEAD.causes[0], why="The biases " + "really " * 20, remedy="Initialize " + "biases " * 60)
    far = replace(DEAD, message="The units " + "never " * 30 + "fire.", causes=(cause,))

    text = closing_text(replace(CLEAN, findings=(far,)), width=80)

    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert text.count("really") == 20
    assert text.count("biases") == 61
    assert "\n            fix: Initialize biases" in text


def test_what_stands_beside_the_problems_is_folded_below_its_own_beginning() -> None:
    text = closing_text(replace(CLEAN, findings=(DEAD,), unseen=("Layer fc is " + "really " * 20 + "compiled.",)),
                        width=60)

    assert text.count("really") == 20
    assert "\n  not seen  Layer fc is really" in text
    assert "\n            really really" in text


def test_a_command_is_never_folded() -> None:
    place = "file:///tmp/" + "deep/" * 30 + "run"

    text = closing_text(replace(CLEAN, url=place, go_on_from=1200, held=(held_at(8),)), width=60)

    assert f"\n  resume    barograph resume {place}   (from step 1,200)\n" in text
    assert f"(barograph replay {place})\n" in text
    assert text.endswith(f"\n  run       {place}")


def test_on_a_terminal_as_many_consequences_are_named_as_fit() -> None:
    after = tuple(replace(FINDING, id=f"L10{place}", code=code, rule=name, opened_step=50 + place)
                  for place, (code, name) in enumerate((("L101", "loss-not-decreasing"), ("L108", "underfit"),
                                                        ("L106", "plateau"), ("W103", "unchanged-tensor"))))

    lines = closing_text(replace(CLEAN, findings=(DEAD, *after)), width=60).splitlines()

    assert lines[6] == "            leads to: loss not decreasing and 3 more"


def test_where_no_step_was_recorded_that_comes_first_with_the_line_that_mends_it() -> None:
    nothing = replace(LAST, coverage=replace(WHOLE, steps=0, steps_seen=0))

    lines = closing_text(replace(CLEAN, steps=0, workers=(replace(DONE, last=nothing),))).splitlines()[1:]

    assert lines[0] == "barograph: 0 training steps were recorded."
    assert lines[1].startswith("  fix       Mark where a step ends: run = barograph.attach(explicit_steps=True)")
    assert len(lines) == 3


@pytest.mark.parametrize(("loaded", "fix"), [
    ({"torch"}, "Mark where a step ends: run = barograph.attach(explicit_steps=True), then run.step(loss)."),
    ({"torch", "tensorflow", "keras", "jax"},
     "Mark where a step ends: run = barograph.attach(explicit_steps=True), then run.step(loss)."),
    ({"jax"}, "Wrap the training step in barograph.jax.observe."),
    ({"keras", "tensorflow"}, "End each step of a TensorFlow loop with barograph.tensorflow.step."),
])
def test_how_to_record_steps_is_said_for_the_framework_that_was_loaded(loaded: set[str], fix: str) -> None:
    nothing = replace(LAST, coverage=replace(WHOLE, steps=0, steps_seen=0))
    worker = replace(DONE, last=nothing, loaded=frozenset(loaded))

    assert f"  fix       {fix}" in closing_text(replace(CLEAN, steps=0, workers=(worker,))).splitlines()


def test_why_no_step_was_recorded_comes_first_where_it_is_known() -> None:
    nothing = replace(LAST, coverage=replace(WHOLE, steps=0, steps_seen=0))
    why = ("No training step was recorded: backward() ran 9 times, but no optimizer stepped and no weight changed. "
           "Call optimizer.step() after backward().")

    lines = closing_text(replace(CLEAN, steps=0, unseen=(why,), workers=(replace(DONE, last=nothing),))).splitlines()

    assert lines[1:3] == [
        "barograph: No training step was recorded: backward() ran 9 times, but no optimizer stepped and no weight "
        "changed.", "  fix       Call optimizer.step() after backward()."]


def test_a_run_without_times_says_nothing_of_its_cost() -> None:
    timeless = replace(LAST, cost=Cost(train_secs=0.0, capture_secs=0.0))

    line = closing_text(replace(CLEAN, workers=(replace(DONE, last=timeless),))).splitlines()[1]

    assert "cost" not in line
    assert line.endswith("evaluations")


CRASH = "ValueError: 8 columns expected"


def crashed(text: str, *others: WorkerReport) -> RunSummary:
    finding = replace(FINDING, id="P107-40", code="P107", rule="script-error", severity=Severity.BREAKING,
                      message=f"The script ended with {text}", remedy="Read the traceback.",
                      causes=(Suspicion(Cause.SCRIPT_ERROR, 0.5, text),))
    failed = replace(DONE, state=EndState.FAILED, word="failed", reason=text)
    return replace(CLEAN, findings=(finding,), workers=(failed, *others))


@pytest.mark.parametrize("text", [CRASH, f"ValueError: {'many words ' * 20}"])
def test_the_error_of_a_script_is_printed_once(text: str) -> None:
    lines = closing_text(crashed(text), command="ended with exit code 1").splitlines()

    assert sum(text in line for line in lines) == 1
    assert not any(line.startswith("  state") for line in lines)


def test_a_short_error_of_a_script_is_the_title_of_its_problem() -> None:
    assert closing_text(crashed(CRASH)).splitlines()[2:4] == [
        f"  breaking  The script ended with {CRASH} (since step 40, P107)", "            fix: Read the traceback."]


def test_an_error_in_the_first_step_is_no_reason_to_mark_steps(
    store: Store, training: Training, high: type[Rule]
) -> None:
    training.heartbeat = replace(LAST, step=0, coverage=replace(ONE_STEP, steps=0, steps_seen=0))
    training.end(EndState.FAILED)

    summary = summary_of(store, Watcher(store, [high()], clock=training.clock).judged)

    assert summary.unseen == ("No training step was completed before the error.",)
    found = replace(crashed(CRASH), workers=summary.workers, not_evaluated=(NotEvaluated(
        code="L106", rule="plateau", reason="Few.", status=Unmet.NOT_ENOUGH_DATA, feed=""),))
    lines = closing_text(found).splitlines()
    assert lines[1].startswith("barograph: 1 problem found; 0 steps, ")
    assert not any(line.startswith("  rules") for line in lines)


def test_of_several_workers_the_one_that_failed_is_named() -> None:
    text = closing_text(crashed(CRASH, replace(DONE, name="p1")))

    assert "\n  state     p0 failed after 500 steps" in text


def test_a_worker_that_was_killed_is_named() -> None:
    killed = replace(DONE, state=None, word="killed")

    assert "\n  state     p0 killed after 500 steps" in closing_text(replace(CLEAN, workers=(killed,)))


NEVER = replace(CLEAN, steps=0, workers=())


@pytest.mark.parametrize(("untrained", "verdict", "hint"), [
    (Untrained((), loops=True), "No training was seen. The script imported no framework that Barograph records.",
     False),
    (Untrained(("PyTorch",), loops=False), "No training was seen. The script imported PyTorch.", False),
    (Untrained(("PyTorch", "Keras", "JAX"), loops=True),
     "No training was seen. The script imported PyTorch, Keras and JAX.", True),
    (Untrained(("PyTorch",), loops=True, error="ModuleNotFoundError: No module named 'timm'"),
     "The script ended with an error before training: ModuleNotFoundError: No module named 'timm'.", False),
    (None, "0 training steps were recorded.", True),
])
def test_a_script_that_never_trained_is_told_to_mark_steps_only_if_it_may_have_some(
    untrained: Untrained | None, verdict: str, hint: bool
) -> None:
    lines = closing_text(replace(NEVER, untrained=untrained)).splitlines()[1:]

    assert lines[0] == f"barograph: {verdict}"
    assert any("Mark where a step ends" in line for line in lines) == hint


def test_what_a_script_that_never_trained_had_imported_is_read_from_its_run(
    store: Store, clock: ManualClock, high: type[Rule]
) -> None:
    write_options(store, 0, "p0", {}, Untrained(("PyTorch",), loops=True))

    summary = summary_of(store, Watcher(store, [high()], clock=clock).judged)

    assert summary.untrained == Untrained(("PyTorch",), loops=True)
    assert "mark each step" in summary.unseen[0]


def test_an_error_before_training_is_no_reason_to_mark_steps(
    store: Store, clock: ManualClock, high: type[Rule]
) -> None:
    write_options(store, 0, "p0", {}, Untrained(("PyTorch",), loops=True, error="ImportError: timm"))

    summary = summary_of(store, Watcher(store, [high()], clock=clock).judged)

    assert summary.untrained == Untrained(("PyTorch",), loops=True, error="ImportError: timm")
    assert summary.unseen == ("No training was recorded: the script failed before training.",)


def held_at(step: int) -> CapsuleHead:
    return CapsuleHead(0, "p0", step, step, "", Held.NOT_FINITE, "The gradient of fc.weight is not finite.", 0.0)


def test_held_steps_are_told_though_no_rule_found_anything() -> None:
    summary = replace(CLEAN, held=(held_at(8),))

    assert summary.verdict == "No problems found in 500 steps. 1 step held by the flight recorder."
    assert closing_text(summary).splitlines()[3] == (
        "  held      step 8: The gradient of fc.weight is not finite. (barograph replay file:///tmp/run)")
    assert summary.to_json()["held"] == [
        {"step": 8, "optimizer": "", "held": "not finite", "text": "The gradient of fc.weight is not finite.",
         "capsule": "0000-00000008-p0"}]


def test_of_many_held_steps_the_first_is_named() -> None:
    lines = closing_text(replace(CLEAN, held=tuple(map(held_at, (8, 9, 10, 11, 12))))).splitlines()

    assert lines[3] == ("  held      step 8 and 4 more steps: The gradient of fc.weight is not finite. "
                        "(barograph capsules file:///tmp/run)")


def test_where_a_training_can_go_on_the_command_is_told() -> None:
    summary = replace(CLEAN, url="my runs/first", go_on_from=1200)

    assert "\n  resume    barograph resume 'my runs/first'   (from step 1,200)" in closing_text(summary)
    assert summary.to_json()["go_on_from"] == 1200


@pytest.mark.parametrize(("end", "told"), [(EndState.STOPPED, 10), (EndState.FAILED, 10), (EndState.FINISHED, None)])
def test_a_training_goes_on_from_its_checkpoint_unless_it_has_finished(
    store: Store, training: Training, high: type[Rule], end: EndState, told: int | None
) -> None:
    write_checkpoint(store, attempt=0, steps=10, who="p", content={"place": {"passes": [{}]}}, tensors={})
    training.heartbeat = SEEN
    training.steps(0.5)
    training.end(end)

    assert summary_of(store, Watcher(store, [high()], clock=training.clock).judged).go_on_from == told


def test_the_json_is_strict_json() -> None:
    last = replace(LAST, loss=math.nan, step_secs=math.inf, cost=replace(LAST.cost, budget=math.nan))
    data = replace(CLEAN, findings=(FINDING,), workers=(replace(DONE, last=last),)).to_json()

    text = json.dumps(data, allow_nan=False)

    assert json.loads(text)["workers"][0]["capture_share"] == 0.01
    assert json.loads(text)["workers"][0]["last"]["step_secs"] == "inf"
    assert json.loads(text)["verdict"] == "1 problem: The gradient vanishes."


def summarized(store: Store, training: Training, rule: Rule, last: Heartbeat | None, *, end: bool = True) -> RunSummary:
    if last is not None:
        training.heartbeat = last
    training.steps(0.5)
    if end:
        training.end()
    watcher = Watcher(store, [rule], clock=training.clock)
    watcher.poll()
    return summary_of(store, watcher.judged)


def test_a_whole_run_has_nothing_unseen(store: Store, training: Training, high: type[Rule]) -> None:
    summary = summarized(store, training, high(), SEEN)

    assert (summary.unseen, summary.verdict, summary.steps) == ((), "No problems found in 1 step.", 1)
    assert [worker.state for worker in summary.workers] == [EndState.FINISHED]


@pytest.mark.parametrize(
    ("changes", "unseen"),
    [
        ({"reasons": ("layer fc is compiled",)}, "Layer fc is compiled."),
        ({"parameters_seen": 3}, "1 of 4 parameters were not recorded."),
        ({"gradients_seen": 0}, "4 of 4 gradients were not recorded."),
        ({"modules_seen": 1}, "2 of 3 module outputs were not recorded."),
        ({"loss_seen": False}, "No loss was recorded."),
        ({"steps_seen": 0}, "No tensors were recorded in 1 step."),
        ({"steps": 0, "steps_seen": 0, "evaluations": 0},
         "No training steps were recorded. PyTorch: do not compile the optimizer with fullgraph=True. JAX: use "
         "barograph.jax.observe. TensorFlow: use barograph.tensorflow.step. If your script updates weights itself, "
         "mark each step with run.step."),
        ({"steps": 0, "steps_seen": 0, "evaluations": 1},
         "No training steps were recorded, only evaluations. If this script trains without a PyTorch optimizer, mark "
         "each step: attach(explicit_steps=True) and run.step(loss)."),
    ],
)
def test_every_gap_of_the_coverage_is_said(
    store: Store, training: Training, high: type[Rule], changes: dict[str, Any], unseen: str
) -> None:
    summary = summarized(store, training, high(), replace(LAST, coverage=replace(ONE_STEP, **changes)))

    assert summary.unseen == (unseen,)
    assert "No problems found in" not in closing_text(summary)


@pytest.mark.parametrize(("names", "verdict"), [
    (("score",), "1 metric logged; no training steps recorded."),
    (("score", "share", "hyperparameter[depth]"), "2 metrics logged; no training steps recorded."),
])
def test_a_script_that_only_logs_is_not_called_healthy(
    store: Store, training: Training, high: type[Rule], names: tuple[str, ...], verdict: str
) -> None:
    training.heartbeat = replace(LAST, step=0, coverage=Coverage())
    for name in names:
        training.writer.log(name, 0.5, 0, Mode.TRAIN, 1.0)
    training.steps()
    training.end()
    watcher = Watcher(store, [high()], clock=training.clock)
    watcher.poll()

    summary = summary_of(store, watcher.judged)

    assert (summary.verdict, summary.unseen) == (verdict, ("If this script trains, mark each step: run.step(loss).",))
    assert closing_text(summary).splitlines()[2:3] == [f"  {verdict}"]
    store.delete(MANIFEST)
    assert summary_of(store, watcher.judged).unseen[0].startswith("No training steps were recorded.")


@pytest.mark.parametrize(("versions", "advice"), [
    ({"python": "3.13.0"}, "If this script trains, mark each step: run.step(loss)."),
    ({"python": "3.13.0", "torch": "2.9.0"},
     "PyTorch: do not compile the optimizer with fullgraph=True. If your script updates weights itself, mark each step "
     "with run.step."),
    ({"jax": "0.8.0", "torch": "2.9.0"},
     "PyTorch: do not compile the optimizer with fullgraph=True. JAX: use barograph.jax.observe. If your script "
     "updates weights itself, mark each step with run.step."),
])
def test_a_live_script_that_only_logs_gets_advice_for_the_frameworks_that_it_loaded(
    store: Store, clock: ManualClock, high: type[Rule], versions: dict[str, str], advice: str
) -> None:
    training = Training(store, clock, versions=versions)
    training.heartbeat = replace(LAST, step=0, coverage=Coverage())
    training.writer.log("score", 0.5, 0, Mode.TRAIN, 1.0)
    training.steps()

    summary = summary_of(store, Watcher(store, [high()], clock=clock).judged)

    assert summary.unseen == (f"No training steps were recorded. {advice}", "The run is still running.")


def test_a_full_disk_is_no_kill(
    store: Store, training: Training, high: type[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    training.heartbeat = SEEN
    training.steps(0.5)
    watcher = Watcher(FailingStore(store, no_room), [high()], clock=training.clock)
    watcher.poll()
    watcher.close()
    monkeypatch.setattr("barograph.queries.summary.is_alive", lambda process: False)

    summary = summary_of(store, watcher.judged)

    assert summary.verdict == ("The last steps are lost: the disk was full. Free space before you run it again. "
                               "The rest shows no problems.")
    assert "killed" not in closing_text(summary)
    assert ("  state     p0 cut off (the disk was full, so its end could not be recorded) after 1 step"
            in closing_text(summary))


def no_room(verb: str, name: str) -> StoreFull | None:
    return StoreFull(f"{NO_SPACE} ({verb} {name})") if verb in ("put", "create") else None


def test_a_full_disk_that_the_last_heartbeat_reports_is_no_kill_either(
    store: Store, training: Training, high: type[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barograph.queries.summary.is_alive", lambda process: False)
    full = replace(SEEN, problems=(f"{NO_SPACE} (put records/p0)",))

    summary = summarized(store, training, high(), full, end=False)

    assert [worker.word for worker in summary.workers] == ["cut off"]


def test_a_full_disk_is_remembered_by_who_watches_on(
    store: Store, training: Training, high: type[Rule]
) -> None:
    training.steps(0.5)
    is_full = [True]
    watcher = Watcher(FailingStore(store, lambda verb, name: no_room(verb, name) if is_full[0] else None), [high()],
                      clock=training.clock)
    watcher.poll()
    training.clock.advance(6.0)
    watcher.poll()
    is_full[0] = False
    watcher.close()

    assert Watcher(store, [high()], clock=training.clock).judged.store_full


def test_a_training_that_failed_is_not_called_free_of_problems_by_rules_that_do_not_look_at_errors(
    store: Store, training: Training, high: type[Rule]
) -> None:
    training.heartbeat = SEEN
    training.steps(0.5)
    training.end(EndState.FAILED)

    verdict = summary_of(store, Watcher(store, [high()], clock=training.clock).judged).verdict

    assert verdict.startswith("The training failed after 1 step. ")


def test_dropped_steps_are_said(
    store: Store, new_training: type[Training], clock: ManualClock, high: type[Rule]
) -> None:
    summary = summarized(store, new_training(store, clock, queue_bytes=1), high(), SEEN)

    assert summary.unseen == ("1 step dropped because the store did not keep up.",)


def test_what_was_damaged_is_not_seen_by_who_goes_on_either(
    store: Store, training: Training, high: type[Rule]
) -> None:
    training.heartbeat = replace(LAST, coverage=replace(WHOLE, steps=2, steps_seen=2))
    training.steps(0.5, 0.5)
    training.end()
    (chunk,) = store.list("records")
    store.put(chunk.name, b"not parquet")
    first = Watcher(store, [high()], clock=training.clock)
    while not first.poll().drained:
        training.clock.advance(1)  # it is looked for again for some seconds

    summary = summary_of(store, Watcher(store, [high()], clock=training.clock).judged)

    assert chunk.name in summary.unseen[0]
    assert "No problems found in" not in closing_text(summary)


def test_steps_that_were_recorded_and_never_judged_are_said(
    store: Store, training: Training, high: type[Rule]
) -> None:
    last = replace(LAST, coverage=replace(WHOLE, steps=9, steps_seen=9))

    summary = summarized(store, training, high(), last)

    assert summary.unseen == (
        "8 of 9 steps with tensors were not evaluated: they were removed (keep_last, max_bytes), lost, or are still "
        "waiting.",
    )
    assert "No problems found in" not in closing_text(summary)


def test_steps_of_which_no_rule_was_asked_are_not_called_lost(store: Store, training: Training) -> None:
    training.heartbeat = replace(LAST, coverage=replace(WHOLE, steps=9, steps_seen=9))
    training.steps(0.5)
    training.end()

    assert summary_of(store, Judged()).unseen == ()


@pytest.mark.parametrize("key", [Key(Kind.TREE, "depth"), Key(Kind.IMPORTANCE, "age"), Key(Kind.OUTPUT, "fc")])
def test_steps_without_weights_that_were_judged_are_not_called_lost(
    store: Store, training: Training, high: type[Rule], key: Key
) -> None:
    training.heartbeat = replace(LAST, coverage=replace(WHOLE, steps=1, steps_seen=1))
    training.writer.put(StepRecords(Step(0, 0, time_unix=0.0), scalars={Key(Kind.LOSS, "total"): 0.5, key: 3.0}))
    training.end()
    watcher = Watcher(store, [high()], clock=training.clock)
    watcher.poll()

    assert summary_of(store, watcher.judged).unseen == ()


@pytest.mark.parametrize(("rules", "why"), [
    ((), "no rules ran"), (("G101",), "the only rule lacked data or failed"),
    (("G101", "L102"), "all 2 rules lacked data or failed"),
])
def test_where_no_rule_could_judge_nothing_was_judged(rules: tuple[str, ...], why: str) -> None:
    mute = tuple(NotEvaluated(code, code, "Nothing was recorded of what it needs: loss.", "") for code in rules)

    assert replace(CLEAN, rules=rules, not_evaluated=mute).verdict == f"Nothing was evaluated: {why}."


def test_whoever_was_kept_from_seeing_the_rest_says_so() -> None:
    verdict = CLEAN.but_not_seen("What was not judged yet: the watching was interrupted.").verdict

    assert verdict == "No problems found. What was not judged yet: the watching was interrupted."


def test_a_worker_that_was_killed_made_at_least_the_steps_that_it_published(
    store: Store, training: Training, high: type[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    training.heartbeat = replace(LAST, coverage=replace(WHOLE, steps=2, steps_seen=2))
    training.steps(*[0.5] * 9)
    watcher = Watcher(store, [high()], clock=training.clock)
    watcher.poll()
    monkeypatch.setattr("barograph.queries.summary.is_alive", lambda process: False)

    summary = summary_of(store, watcher.judged)

    assert summary.workers[0].steps == 9
    assert "  state     p0 killed after 9 steps" in closing_text(summary)
    assert "9 steps (tensors at each)" in closing_text(summary)
    assert summary.to_json()["workers"][0]["steps"] == 9


def test_a_worker_that_was_killed_recorded_what_it_published_of_the_steps_that_it_made(
    store: Store, training: Training, high: type[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    training.heartbeat = replace(LAST, step=15, coverage=replace(WHOLE, steps=15, steps_seen=15))
    training.steps(*[0.5] * 9)
    watcher = Watcher(store, [high()], clock=training.clock)
    watcher.poll()
    monkeypatch.setattr("barograph.queries.summary.is_alive", lambda process: False)

    text = closing_text(summary_of(store, watcher.judged))

    assert "9 of 15 steps (tensors at each)" in text
    assert "The last 6 steps are lost: it was killed before it published them." in text
    assert "of 15 steps" not in closing_text(summary_of(store, watcher.judged, is_complete=False))


def test_advice_names_only_the_framework_of_the_run(store: Store, clock: ManualClock, high: type[Rule]) -> None:
    class Clips(high):  # type: ignore[misc, valid-type]
        def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
            for found in super().judge(view, memory):
                yield replace(found, remedy=f"Clip gradients ({CLIPPING}).") if isinstance(found, Symptom) else found

    training = Training(store, clock, versions={"torch": "2.0", "sklearn": "1.0"})
    training.steps(0.5, 3.0)
    watcher = Watcher(store, [Clips()], clock=clock)
    watcher.poll()

    in_torch = "Clip gradients (torch.nn.utils.clip_grad_norm_ before optimizer.step)."
    assert [item.remedy for item in watcher.findings] == [in_torch]
    assert [item.remedy for item in summary_of(store, watcher.judged).findings] == [in_torch]
    watcher.close()
    assert [item.remedy for item in read_findings(store).findings] == [in_torch]
    training.steps(3.0, first=2)
    again = Watcher(store, [Clips()], clock=clock)
    again.poll()
    assert [item.remedy for item in again.findings] == [in_torch]


def test_a_rule_that_failed_is_a_gap(store: Store, training: Training, raises: type[Rule]) -> None:
    training.steps(0.5, 0.5, 0.5)
    summary = summarized(store, training, raises(), replace(LAST, coverage=replace(ONE_STEP, steps=4, steps_seen=4)))

    assert len(summary.unseen) == 1
    assert summary.unseen[0].startswith("The rule X902 raises is not used any more")


def test_a_worker_that_still_runs_is_called_running(store: Store, training: Training, high: type[Rule]) -> None:
    summary = summarized(store, training, high(), SEEN, end=False)

    assert [(worker.state, worker.word) for worker in summary.workers] == [(None, "running")]
    assert summary.unseen == ("The run is still running.",)
    assert "No problems found in" not in closing_text(summary)


def test_where_nothing_was_recorded_that_is_what_is_not_seen(
    store: Store, clock: ManualClock, high: type[Rule]
) -> None:
    summary = summary_of(store, Watcher(store, [high()], clock=clock).judged)

    assert summary.verdict == "0 training steps were recorded."
    (unseen,) = summary.unseen
    assert unseen.startswith("No training was recorded. Barograph records PyTorch optimizer steps")
    assert "not evaluated" not in closing_text(summary)
    assert "No problems found in" not in closing_text(summary)


def test_json_has_the_diagnosis() -> None:
    found = replace(FINDING, causes=(Suspicion("dead-relu", 0.5, "most units are dead"),))
    assert replace(CLEAN, findings=(found,)).to_json()["diagnosis"] == [
        {"cause": "dead-relu", "weight": 0.5, "why": "most units are dead", "remedy": "Use ReLU."}
    ]


def test_rounds_of_trees_that_were_judged_are_not_taken_for_lost() -> None:
    progress = Progress(attempt=0)
    progress.take(StepView.of(0, {Key(Kind.TREE, "depth"): 3.0}))
    progress.take(StepView.of(1, {Key(Kind.LOSS, "total"): 0.5}))
    assert (progress.made, progress.with_tensors) == (2, 1)
