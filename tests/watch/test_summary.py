"""The closing summary: "No findings" is said of what was seen, and never where not all was."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from barograph.model.capsule import CapsuleHead, Held
from barograph.model.cause import Suspicion
from barograph.model.clock import ManualClock
from barograph.model.finding import Finding, FindingState, NotEvaluated, Severity
from barograph.model.key import Key, Kind
from barograph.model.manifest import Cost, Coverage, EndState, Heartbeat
from barograph.model.records import StepRecords
from barograph.model.step import Mode, Step
from barograph.rules.base import Rule
from barograph.runs.checkpoints import write_checkpoint
from barograph.runs.view import StepView
from barograph.store.base import Store
from barograph.watch.loop import Watcher
from barograph.watch.progress import Progress
from barograph.watch.summary import RunSummary, WorkerReport, summary_of
from barograph.watch.wording import not_evaluated_lines

Training = Any  # of conftest.py

WHOLE = Coverage(parameters=4, parameters_seen=4, gradients_seen=4, modules=3, modules_seen=3, loss_seen=True,
                 steps=500, steps_seen=500, evaluations=5)
LAST = Heartbeat(beat=9, time_unix=0.0, step=500, cost=Cost(101.0, 1.0, 0.5, 0.25, 0.01), coverage=WHOLE)
ONE_STEP = replace(WHOLE, steps=1, steps_seen=1)
SEEN = replace(LAST, coverage=ONE_STEP)
DONE = WorkerReport("p0", EndState.FINISHED, "finished", "", LAST)
CLEAN = RunSummary(
    url="file:///tmp/run", attempt=0, steps=505, findings=(), rules=("G101", "L102"), not_evaluated=(), problems=(),
    workers=(DONE,), unseen=(),
)
FINDING = Finding(
    id="G101-40-000000000000", code="G101", rule="vanishing-gradient", severity=Severity.COSTLY,
    state=FindingState.OPEN, message="The gradient vanishes.", remedy="Use ReLU.", evidence=(), subject="",
    worker="p0", optimizer="", mode=Mode.TRAIN, since_step=40, opened_step=41, last_step=480, closed_step=None,
    opened_unix=0.0,
)


def with_coverage(**changes: Any) -> RunSummary:
    last = replace(LAST, coverage=replace(WHOLE, **changes))
    return replace(CLEAN, workers=(replace(DONE, last=last),))


def test_where_all_was_seen_it_says_no_findings() -> None:
    assert CLEAN.verdict == "No findings in 500 steps."


def test_where_steps_were_sampled_it_says_in_how_many_and_why() -> None:
    assert with_coverage(steps_seen=143).verdict == (
        "No findings in the 143 of 500 steps whose tensors were recorded (budget 1 %)."
    )


def test_where_something_was_not_seen_it_never_says_no_findings() -> None:
    verdict = replace(CLEAN, unseen=("Layer fc is compiled.",)).verdict

    assert verdict == "Nothing was found in what was seen, which is not all of it."


def test_rules_that_could_not_judge_are_not_counted_among_those_that_did() -> None:
    mute = NotEvaluated("L102", "overfit", "Nothing was recorded of what it needs: loss.", "Evaluate.")
    part = NotEvaluated("G101", "vanishing-gradient", "In part: nothing was recorded.", "")

    assert replace(CLEAN, not_evaluated=(mute, part)).verdict == (
        "No findings by the 1 of 2 rules that could judge in 500 steps."
    )


def test_findings_are_counted_with_those_still_open() -> None:
    closed = replace(FINDING, state=FindingState.CLOSED)

    assert replace(CLEAN, findings=(FINDING, closed)).verdict == "2 findings, 1 of them open."


def test_of_rules_that_were_fed_in_part_it_is_not_said_that_nothing_was_recorded() -> None:
    items = [NotEvaluated(code, "a-rule", f"{part}othing was recorded of what it needs.", "It is for networks.")
             for code, part in (("G101", "N"), ("W103", "In part: n"), ("G102", "N"), ("W104", "In part: n"))]

    assert not_evaluated_lines(items, whole=False) == [
        "G101 a-rule, G102 a-rule: nothing was recorded of what they need. It is for networks.",
        "W103 a-rule, W104 a-rule: some of what they need was not recorded. It is for networks."]


@pytest.mark.parametrize(("spent_secs", "said"), [
    (1.0, "1.0% of training time (budget 1%); "), (6.0, "6.3% of training time (budget 1%); "),
])
def test_the_cost_line_says_what_was_spent_of_what_budget(spent_secs: float, said: str) -> None:
    last = replace(LAST, cost=replace(LAST.cost, capture_secs=spent_secs))

    assert f"recording cost {said}" in replace(CLEAN, workers=(replace(DONE, last=last),)).to_text()


def test_ranks_of_one_training_count_its_steps_once_and_the_least_that_one_saw() -> None:
    ranks = tuple(WorkerReport(f"r{rank}", EndState.FINISHED, "finished", "",
                               replace(LAST, coverage=replace(WHOLE, steps_seen=seen)))
                  for rank, seen in enumerate((500, 480)))

    assert replace(CLEAN, workers=ranks).verdict.startswith("No findings in the 480 of 500 steps")


def test_the_text_shows_finding_remedy_cost_and_coverage() -> None:
    text = replace(CLEAN, findings=(FINDING,), unseen=("Layer fc is compiled.",), problems=("The store was away.",),
                   not_evaluated=(NotEvaluated("L102", "overfit", "No evaluation.", "Evaluate."),)).to_text()

    assert text == """
barograph: 1 finding, 1 of them open.
  costly    G101 vanishing-gradient since step 40, last seen in step 480: The gradient vanishes.
            do: Use ReLU.
  not seen       Layer fc is compiled.
  not evaluated  L102 overfit: No evaluation. Evaluate.
  problems       The store was away.
  p0        finished after 500 steps, 500 with tensors; 4 of 4 parameters, 4 gradients; 3 of 3 modules; loss; \
5 evaluations; recording cost 1.0% of training time (budget 1%); 0.2 s to start; 0 steps dropped
  run       file:///tmp/run"""


def held_at(step: int) -> CapsuleHead:
    return CapsuleHead(0, "p0", step, step, "", Held.NOT_FINITE, "The gradient of fc.weight is not finite.", 0.0)


def test_held_steps_are_told_though_no_rule_found_anything() -> None:
    summary = replace(CLEAN, held=(held_at(8),))

    assert summary.verdict == "No findings in 500 steps. 1 step held by the flight recorder."
    lines = summary.to_text().splitlines()
    assert lines[2] == "  held           step 8: The gradient of fc.weight is not finite."
    assert lines[-1] == "  again     barograph replay file:///tmp/run"
    assert summary.to_json()["held"] == [
        {"step": 8, "optimizer": "", "held": "not finite", "text": "The gradient of fc.weight is not finite.",
         "capsule": "0000-00000008-p0"}]


def test_of_many_held_steps_the_first_are_named() -> None:
    lines = replace(CLEAN, held=tuple(map(held_at, (8, 9, 10, 11, 12)))).to_text().splitlines()

    assert lines[4].startswith("                 step 10: ")
    assert lines[5] == "                 and 2 steps more"
    assert lines[-1] == "  again     barograph capsules file:///tmp/run"


def test_where_a_training_can_go_on_the_command_is_told() -> None:
    summary = replace(CLEAN, url="my runs/first", go_on_from=1200)

    assert summary.to_text().endswith("\n  go on     barograph resume 'my runs/first'   (from step 1,200)")
    assert summary.to_json()["go_on_from"] == 1200


@pytest.mark.parametrize(("end", "told"), [(EndState.STOPPED, 10), (EndState.FAILED, 10), (EndState.FINISHED, None)])
def test_a_training_goes_on_from_its_checkpoint_unless_it_has_finished(
    store: Store, training: Training, high: type[Rule], end: EndState, told: int | None
) -> None:
    write_checkpoint(store, attempt=0, steps=10, who="p", content={"place": {"passes": [{}]}}, tensors={})
    training.heartbeat = SEEN
    training.steps(0.5)
    training.end(end)

    assert summary_of(store, Watcher(store, [high()], clock=training.clock)).go_on_from == told


def test_the_json_is_strict_json() -> None:
    last = replace(LAST, loss=math.nan, step_secs=math.inf, cost=replace(LAST.cost, budget=math.nan))
    data = replace(CLEAN, findings=(FINDING,), workers=(replace(DONE, last=last),)).to_json()

    text = json.dumps(data, allow_nan=False)

    assert json.loads(text)["workers"][0]["capture_share"] == 0.01
    assert json.loads(text)["workers"][0]["last"]["step_secs"] == "inf"
    assert json.loads(text)["verdict"] == "1 finding, 1 of them open."


def summarized(store: Store, training: Training, rule: Rule, last: Heartbeat | None, *, end: bool = True) -> RunSummary:
    if last is not None:
        training.heartbeat = last
    training.steps(0.5)
    if end:
        training.end()
    watcher = Watcher(store, [rule], clock=training.clock)
    watcher.poll()
    return summary_of(store, watcher)


def test_a_whole_run_has_nothing_unseen(store: Store, training: Training, high: type[Rule]) -> None:
    summary = summarized(store, training, high(), SEEN)

    assert (summary.unseen, summary.verdict, summary.steps) == ((), "No findings in 1 step.", 1)
    assert [worker.state for worker in summary.workers] == [EndState.FINISHED]


@pytest.mark.parametrize(
    ("changes", "unseen"),
    [
        ({"reasons": ("layer fc is compiled",)}, "Layer fc is compiled."),
        ({"parameters_seen": 3}, "1 of 4 parameters were not recorded."),
        ({"gradients_seen": 0}, "4 of 4 gradients were not recorded."),
        ({"modules_seen": 1}, "2 of 3 modules' outputs were not recorded."),
        ({"loss_seen": False}, "No loss was seen."),
        ({"steps_seen": 0}, "The tensors of none of 1 step were recorded."),
        ({"steps": 0, "steps_seen": 0, "evaluations": 0},
         "No step of a training was seen. An optimizer of torch that is compiled with fullgraph=True is not seen: leave"
         " that away. A step of JAX is seen below barograph.jax.observe, a loop of TensorFlow below "
         "barograph.tensorflow.step. A script that moves weights itself says where a step ends, with run.step."),
        ({"steps": 0, "steps_seen": 0, "evaluations": 1},
         "No step of a training was seen, evaluations alone. If this script trains, by an optimizer that is none of "
         "torch's, it says where a step ends: attach(explicit_steps=True) and run.step(loss)."),
    ],
)
def test_every_gap_of_the_coverage_is_said(
    store: Store, training: Training, high: type[Rule], changes: dict[str, Any], unseen: str
) -> None:
    summary = summarized(store, training, high(), replace(LAST, coverage=replace(ONE_STEP, **changes)))

    assert summary.unseen == (unseen,)
    assert "No findings" not in summary.to_text()


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

    summary = summary_of(store, Watcher(store, [high()], clock=training.clock))

    assert chunk.name in summary.unseen[0]
    assert "No findings" not in summary.to_text()


def test_steps_that_were_recorded_and_never_judged_are_said(
    store: Store, training: Training, high: type[Rule]
) -> None:
    last = replace(LAST, coverage=replace(WHOLE, steps=9, steps_seen=9))

    summary = summarized(store, training, high(), last)

    assert summary.unseen == (
        "8 of the 9 steps whose tensors were recorded: they were removed (keep_last, max_bytes) or lost before they "
        "were judged, or are yet to be.",
    )
    assert "No findings" not in summary.to_text()


@pytest.mark.parametrize("key", [Key(Kind.TREE, "depth"), Key(Kind.IMPORTANCE, "age"), Key(Kind.OUTPUT, "fc")])
def test_steps_without_weights_that_were_judged_are_not_called_lost(
    store: Store, training: Training, high: type[Rule], key: Key
) -> None:
    training.heartbeat = replace(LAST, coverage=replace(WHOLE, steps=1, steps_seen=1))
    training.writer.put(StepRecords(Step(0, 0, time_unix=0.0), scalars={Key(Kind.LOSS, "total"): 0.5, key: 3.0}))
    training.end()
    watcher = Watcher(store, [high()], clock=training.clock)
    watcher.poll()

    assert summary_of(store, watcher).unseen == ()


@pytest.mark.parametrize(("rules", "why"), [
    ((), "no rule watched"), (("G101",), "the one rule could not"), (("G101", "L102"), "none of 2 rules could"),
])
def test_where_no_rule_could_judge_nothing_was_judged(rules: tuple[str, ...], why: str) -> None:
    mute = tuple(NotEvaluated(code, code, "Nothing was recorded of what it needs: loss.", "") for code in rules)

    assert replace(CLEAN, rules=rules, not_evaluated=mute).verdict == f"Nothing was judged: {why}."


def test_whoever_was_kept_from_seeing_the_rest_says_so() -> None:
    verdict = CLEAN.but_not_seen("What was not judged yet: the watching was interrupted.").verdict

    assert verdict == "Nothing was found in what was seen, which is not all of it."


def test_a_worker_that_was_killed_made_at_least_the_steps_that_it_published(
    store: Store, training: Training, high: type[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    training.heartbeat = replace(LAST, coverage=replace(WHOLE, steps=2, steps_seen=2))
    training.steps(*[0.5] * 9)
    watcher = Watcher(store, [high()], clock=training.clock)
    watcher.poll()
    monkeypatch.setattr("barograph.watch.summary.is_alive", lambda process: False)

    summary = summary_of(store, watcher)

    assert summary.workers[0].steps == 9
    assert "killed after 9 steps, 9 with tensors" in summary.to_text()
    assert summary.to_json()["workers"][0]["steps"] == 9


def test_a_rule_that_failed_is_a_gap(store: Store, training: Training, raises: type[Rule]) -> None:
    training.steps(0.5, 0.5, 0.5)
    summary = summarized(store, training, raises(), replace(LAST, coverage=replace(ONE_STEP, steps=4, steps_seen=4)))

    assert len(summary.unseen) == 1
    assert summary.unseen[0].startswith("The rule X902 raises is not used any more")


def test_a_worker_that_still_runs_is_called_running(store: Store, training: Training, high: type[Rule]) -> None:
    summary = summarized(store, training, high(), SEEN, end=False)

    assert [(worker.state, worker.word) for worker in summary.workers] == [(None, "running")]
    assert summary.unseen == ("What is yet to come: it is still running.",)
    assert "No findings" not in summary.to_text()


def test_where_nothing_was_recorded_that_is_what_is_not_seen(
    store: Store, clock: ManualClock, high: type[Rule]
) -> None:
    summary = summary_of(store, Watcher(store, [high()], clock=clock))

    assert summary.verdict == "Nothing was judged: nothing was recorded."
    (unseen,) = summary.unseen
    assert unseen.startswith("No training was recorded: no process made a step that Barograph hears")
    assert "not evaluated" not in summary.to_text()
    assert "No findings" not in summary.to_text()


def test_what_is_most_likely_stands_first_with_its_remedy() -> None:
    found = replace(
        FINDING, remedy="Look.", why="It costs.",
        causes=(Suspicion("learning-rate-too-high", 0.6, "the rate is 10", "lower it to 1"),
                Suspicion("no-warmup", 0.4)),
    )
    text = replace(CLEAN, findings=(found,)).to_text()
    assert "most likely    learning-rate-too-high: the rate is 10" in text
    assert text.index("do: lower it to 1") < text.index(found.message)
    assert "why it matters: It costs." in text
    assert "likely: learning-rate-too-high: the rate is 10" in text
    assert "or: no-warmup" in text
    assert "Look." not in text


def test_json_has_the_diagnosis() -> None:
    found = replace(FINDING, causes=(Suspicion("dead-relu", 0.5, "most units are dead"),))
    assert replace(CLEAN, findings=(found,)).to_json()["diagnosis"] == [
        {"cause": "dead-relu", "weight": 0.5, "why": "most units are dead", "remedy": "Use ReLU."}
    ]


def test_rules_that_one_thing_would_feed_share_a_line() -> None:
    gpu = [NotEvaluated(f"M10{number}", f"rule-{number}", "Nothing.", "It is for GPUs.") for number in (1, 2)]
    early = [NotEvaluated("A101", "dead-relu", "Too early."), NotEvaluated("G102", "spike", "10 of 20.")]
    text = replace(CLEAN, not_evaluated=(*gpu, *early)).to_text()
    assert "M101 rule-1, M102 rule-2: nothing was recorded of what they need. It is for GPUs." in text
    assert "A101, G102: met nothing that they judge, or too little of it so far; barograph show tells of each." in text
    assert not_evaluated_lines(early, whole=True) == ["A101 dead-relu: Too early.", "G102 spike: 10 of 20."]


def test_rounds_of_trees_that_were_judged_are_not_taken_for_lost() -> None:
    progress = Progress(attempt=0)
    progress.take(StepView.of(0, {Key(Kind.TREE, "depth"): 3.0}))
    progress.take(StepView.of(1, {Key(Kind.LOSS, "total"): 0.5}))
    assert (progress.made, progress.with_tensors) == (2, 1)
