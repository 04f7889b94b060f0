"""`barograph show`: one run, as it stands; and one step among its neighbours."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.text import Text

import barograph
from barograph.cli.inspect.origin_entries import origin_facts
from barograph.cli.inspect.show_brief import print_brief
from barograph.cli.printing import Printer
from barograph.model.capsule import CapsuleHead, Held
from barograph.model.cause import Suspicion
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.key import key_from_text
from barograph.model.origin import Origin
from barograph.model.step import Mode
from barograph.queries.numbers import Number
from barograph.queries.problems import problems_of
from barograph.queries.titles import cause_in_words
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.series import Series
from barograph.runs.state.capsules import write_capsule
from barograph.runs.state.checkpoints import write_checkpoint
from barograph.store.urls import store_from_url

Call = Callable[..., Any]

FINDING = Finding(
    id="X100", code="X100", rule="a-rule", severity=Severity.COSTLY, state=FindingState.OPEN, message="It is wrong.",
    remedy="Mend it.", evidence=(), subject="", worker="p0", optimizer="", mode=Mode.TRAIN, since_step=1,
    opened_step=2, last_step=3, closed_step=None, opened_unix=0.0,
)


def test_the_head_tells_state_steps_coverage_and_cost(call: Call, healthy: Path) -> None:
    said = call("show", healthy, "--all")

    assert said.code == 0
    assert said.lines[0] == "ein lauf ü  finished"
    facts = {line.split()[0]: line.split(maxsplit=1)[1] for line in said.lines[1:7]}
    assert facts["place"] == str(healthy)
    assert facts["steps"].startswith("40, ")
    assert facts["coverage"] == (
        "tensors in 40 of 40 steps, 4 of 4 parameters, 4 of 4 gradients, 3 of 3 modules, the loss, 2 evaluations"
    )
    assert facts["cost"].endswith("to start")


def test_what_can_be_made_again_and_gone_on_from_is_told(call: Call, copy: Path) -> None:
    store = store_from_url(str(copy))
    write_capsule(store, CapsuleHead(0, "p0", 12, 12, "", Held.NORM, "The norm is high.", 0.0), {}, {})
    for steps in (10, 20):
        write_checkpoint(store, attempt=0, steps=steps, who="pid1", content={"place": {"passes": [{}]}}, tensors={})

    lines = [line.strip() for line in call("show", copy).lines]
    assert f"held      step 12: barograph capsules {copy}" in lines
    assert f"checkpoints 2, the last after 20 steps: barograph checkpoints {copy}" in lines
    lines = [line.strip() for line in call("show", copy, "--all").lines]
    assert f"held         step 12: barograph capsules {copy}" in lines
    assert f"checkpoints  2, the last after 20 steps: barograph checkpoints {copy}" in lines
    data = call("show", copy, "--json").json
    assert ([item["step"] for item in data["held"]], data["checkpoints"]) == ([12], [10, 20])


def test_a_run_that_nobody_watched_is_not_called_free_of_findings(call: Call, healthy: Path) -> None:
    said = call("show", healthy)

    assert "  This run has not been watched." in said.lines
    assert f"  To have it judged: barograph watch {healthy}" in said.lines
    assert "No problems" not in said.out
    assert {layer["health"] for layer in call("show", healthy, "--json").json["layers"]} == {"not judged"}


def test_a_run_that_was_judged_to_its_end_says_what_it_is_free_of(call: Call, copy: Path) -> None:
    call("watch", copy, "--rules", "non-finite,unchanged-tensor")

    said = call("show", copy)

    assert "  No problems found in 40 steps." in said.lines
    assert {layer["health"] for layer in call("show", copy, "--json").json["layers"]} == {"ok"}


def test_where_the_watcher_did_not_get_to_the_end_it_says_so(
    call: Call, tmp_path: Path, going_on: Callable[..., Any], await_: Callable[..., None]
) -> None:
    place = tmp_path / "run"
    with going_on(place) as (_, step):
        call("watch", place, "--once", "--rules", "non-finite")
        for _ in range(3):
            step()

    said = call("show", place)

    assert "  No problems found so far. Not everything was judged yet." in said.lines
    assert f"  Its last watcher did not get to the end. To go on: barograph watch {place}" in said.lines


def test_a_sick_run_is_one_screen_that_leads_with_its_problem(call: Call, sick: Path) -> None:
    call("watch", sick)

    said = call("show", sick)
    data = call("show", sick, "--json").json

    assert len(said.lines) <= 24
    (problem,) = data["problems"]
    assert f"  breaking  {problem['title']}" in said.out
    assert problem["evidence"][0] in said.out
    assert problem["remedy"]["text"] in said.out
    assert set(problem["findings"]) == {item["id"] for item in data["findings"]}
    assert said.lines[-1] == f"  more: barograph show {sick} --rules | --layers | --all"


def screen(width: int, **parts: Any) -> list[str]:
    """Return the lines of a run on one screen of a terminal."""
    written = io.StringIO()
    printer = Printer(Console(file=written, force_terminal=True, width=width, color_system=None))
    nothing: dict[str, Any] = {"facts": [], "verdict": "", "problems": (), "hint": "", "unseen": (), "unjudged": "",
                               "numbers": (), "layers": ()}
    print_brief(printer, "runs/first", head=Text("first  finished"), **{**nothing, **parts})
    return written.getvalue().splitlines()


def test_on_a_terminal_the_screen_is_folded_and_counts_its_lines() -> None:
    cause = Suspicion("my-own", 0.9, "because " * 16, "mend it " * 16)
    found = [replace(FINDING, id=f"X10{place}", code=f"X10{place}", causes=(replace(cause, cause=f"my-{place}"),))
             for place in range(9)]

    lines = screen(80, problems=problems_of(found), unseen=["much " * 20] * 3, unjudged="rules " * 20)

    assert len(lines) <= 24
    assert max(len(line) for line in lines) <= 80
    assert not any("…" in line for line in lines)
    assert any(line.startswith("  and ") and "more problems" in line for line in lines)


@pytest.mark.parametrize(("verdict", "lines"), [
    ("This run has not been watched.", ["  not seen  A part is lost. (and 1 more)"]),
    ("No problems found. A part is lost. (and 1 more)", ["  not seen  Another too."]),
])
def test_what_was_not_seen_is_shown_once_whatever_the_verdict(verdict: str, lines: list[str]) -> None:
    shown = screen(120, verdict=verdict, unseen=["A part is lost.", "Another too."])

    assert [line for line in shown if "not seen" in line] == lines


def test_the_worst_problem_is_whole_though_the_screen_is_full() -> None:
    cause = Suspicion("my-own", 0.9, "because " * 100, "mend it " * 100)

    text = "\n".join(screen(80, problems=problems_of([replace(FINDING, causes=(cause,))]),
                            facts=[("because", "so")] * 20))

    assert text.lower().count("because") == 120
    assert text.count("mend") == 100


def test_numbers_that_never_change_are_one_line() -> None:
    def number(key: str, *values: float) -> Number:
        count = len(values)
        return Number(Series(key_from_text(key), "value", np.arange(count), np.array(values), np.zeros(count)),
                      Mode.TRAIN, "")

    lines = screen(200, numbers=[number("loss:total", 2.0, 1.0), number("loss:mse", 2.0, 1.0),
                                 *(number(f"scalar:hyperparameter[{name}]", 0.5) for name in "abcd"),
                                 number("learning_rate:group0", 0.1, 0.1)])

    assert [line for line in lines if "loss" in line or "constant" in line] == [
        "  loss:mse: 2 to 1, min 1 at step 1",
        "  constant: learning_rate:group0 0.1, hyperparameter[a] 0.5, hyperparameter[b] 0.5, hyperparameter[c] 0.5, "
        "and 1 more (barograph keys runs/first --kind scalar)"]


def test_a_place_is_not_folded() -> None:
    place = "/runs/my runs/" + "deep " * 30 + "run"

    assert f"  place     {place}" in screen(60, facts=[("place", place)])


def test_a_finding_is_shown_with_evidence_and_remedy(call: Call, sick: Path) -> None:
    call("watch", sick)
    (finding,) = [item for item in barograph.open(sick).findings if item.rule == "non-finite"]

    said = call("show", sick, "--rules")

    assert f"  ● breaking  N101 non-finite since step {finding.since_step}" in said.out
    assert f": {finding.message}" in said.out
    assert f"· {finding.evidence[0].key} at step {finding.evidence[0].step}: {finding.evidence[0].text}" in said.out
    assert f"likely: {cause_in_words(finding.causes[0].cause)}: " in said.out
    (problem,) = problems_of(barograph.open(sick).findings)
    assert f"    problem: {problem.title}" in said.out
    assert said.out.count("fix: ") == 1, "two remedies of one run may contradict each other"
    assert "· not applicable: T101 tree-depth" in said.out


def test_a_layer_that_a_finding_names_carries_its_sign(call: Call, sick: Path) -> None:
    call("watch", sick, "--rules", "non-finite")

    layers = {layer["path"]: layer for layer in call("show", sick, "--json").json["layers"]}

    named = {item.key.path.rpartition(".")[0] or item.key.path
             for finding in barograph.open(sick).findings for item in finding.evidence if item.key}
    assert {path for path, layer in layers.items() if layer["health"] == "breaking"} == named & set(layers)
    assert {layer["health"] for layer in layers.values()} == {"breaking", "not finite"}


def test_layers_stand_in_the_order_they_ran(call: Call, healthy: Path) -> None:
    said = call("show", healthy, "--layers")
    table = said.lines[said.lines.index(next(line for line in said.lines if line.startswith("layer\t"))) + 1:]

    assert list(dict.fromkeys(line.split()[0] for line in table)) == ["first", "act", "last"]
    assert [line.split()[2] for line in table if line.startswith("first")] == [
        "weight", "gradient", "update", "output"
    ]


def test_figures_of_a_layer_are_those_of_its_last_step(call: Call, healthy: Path) -> None:
    run = barograph.open(healthy)
    weight, bias = (run.summary(f"weight:first.{name}", 39) for name in ("weight", "bias"))

    (layer,) = [item for item in call("show", healthy, "--json").json["layers"] if item["path"] == "first"]

    figures = layer["figures"]["weight"]
    assert (figures["step"], figures["count"]) == (39, weight.count + bias.count)
    assert figures["l2"] == pytest.approx(np.hypot(weight.l2, bias.l2), rel=1e-12)
    norms = np.hypot(*(run.series(f"gradient:first.{name}", "l2").values for name in ("weight", "bias")))
    assert layer["gradient_norms"]["values"] == pytest.approx(norms.tolist(), rel=1e-12)
    assert layer["gradient_norms"]["steps"] == list(range(40))


def test_losses_and_logged_numbers_are_told_from_first_to_last(call: Call, healthy: Path) -> None:
    losses = barograph.open(healthy).series("loss:total").values

    said = call("show", healthy, "--all")

    assert said.row("loss:total") == [
        "loss:total", "train", "-", "40", f"{losses[0]:.3g}", f"{losses[-1]:.3g}", f"{losses.min():.3g}",
        f"{int(losses.argmin())}",
    ]
    assert "scalar:accuracy [val/bold]" in said.out


def test_json_is_strict(call: Call, sick: Path) -> None:
    call("watch", sick)

    data = call("show", sick, "--json").json

    assert (data["state"], data["steps"], data["attempt"]) == ("finished", 12, 0)
    assert data["loss"] is None
    for what in ("problems", "findings"):
        assert data[f"open_{what}"] == len([item for item in data[what] if item["state"] == "open"])


def test_what_cannot_be_read_is_named_and_the_rest_is_shown(
    call: Call, copy: Path, flip: Callable[[Path], Path]
) -> None:
    victim = flip(copy)

    said = call("show", copy)

    assert said.code == 0
    assert said.lines[0] == "ein lauf ü  finished"
    assert victim.name in said.err


def test_of_a_damaged_run_it_is_not_said_that_it_has_no_findings(
    call: Call, copy: Path, flip: Callable[[Path], Path]
) -> None:
    call("watch", copy, "--rules", "non-finite,unchanged-tensor")
    assert "No problems found in" in call("show", copy).out

    victim = flip(copy)

    for said in (call("show", copy), call("show", copy, "--json")):
        assert "No problems found in" not in said.out
        assert victim.name in said.out


def test_a_run_that_goes_on_is_shown_as_it_stands(
    call: Call, tmp_path: Path, going_on: Callable[..., Any]
) -> None:
    with going_on(tmp_path / "run"):
        said = call("show", tmp_path / "run")

    assert said.lines[0] == "run  running"
    assert any(line.startswith("  started") and line.endswith("so far") for line in said.lines)


def test_a_run_without_any_worker_is_shown(call: Call, copy: Path) -> None:
    for folder in ("workers", "endings", "heartbeats", "records"):
        shutil.rmtree(copy / folder)

    said = call("show", copy)

    assert said.lines[0] == "ein lauf ü  empty"
    assert "0 training steps were recorded." in said.out


# One step among its neighbours


def test_the_steps_around_are_shown_with_loss_and_gradient_norm(call: Call, healthy: Path) -> None:
    run = barograph.open(healthy)
    loss = run.series("loss:total").values[30]
    squares = [run.series(key, "sum_sq").values[30] for key in run.keys("gradient")]

    said = call("show", healthy, "--around", "30")

    assert said.lines[0].startswith("step 30 of ein lauf ü, ")
    (row,) = [line.split() for line in said.lines if line.startswith(">")]
    assert row[1:6] == ["30", "train", "-", f"{loss:.3g}", f"{np.sqrt(sum(squares)):.3g}"]
    shown = [line.split()[1] for line in said.lines if line[:1] in "->" and line.split()[2:3] == ["train"]]
    assert shown == [str(step) for step in range(25, 36)]


def test_what_went_wrong_in_a_step_is_told_first(call: Call, sick: Path) -> None:
    data = call("show", sick, "--around", "7", "--json").json

    worst = data["changes"][0]
    assert worst["nonfinite"] > 0
    assert worst["nonfinite_before"] == 0
    row = next(step for step in data["steps"] if step["step"] == 7)
    assert (row["losses"]["total"], row["gradient_norm"]) == (None, None)


def test_a_change_is_measured_against_the_median_of_the_steps_before(call: Call, healthy: Path) -> None:
    norms = barograph.open(healthy).series("gradient:last.bias", "l2").values

    changes = {item["key"]: item for item in call("show", healthy, "--around", "30", "--json").json["changes"]}

    change = changes["gradient:last.bias"]
    assert change["compared_steps"] == 10
    assert change["usual"] == pytest.approx(np.median(norms[20:30]), rel=1e-12)
    assert change["factor"] == pytest.approx(norms[30] / np.median(norms[20:30]), rel=1e-12)


def test_findings_are_told_where_they_began(call: Call, sick: Path) -> None:
    call("watch", sick, "--rules", "non-finite")
    (finding,) = barograph.open(sick).findings

    said = call("show", sick, "--around", finding.since_step)

    (row,) = [line for line in said.lines if line.startswith(">")]
    assert row.endswith("N101 began")
    assert finding.message in said.out


def test_the_first_step_has_nothing_before_it(call: Call, healthy: Path) -> None:
    said = call("show", healthy, "--around", "0")

    assert said.code == 0
    assert "Largest changes  no tensors in this step, or none before it" in said.lines


@pytest.mark.parametrize(("step", "nearest"), [("41", "40"), ("-1", "0")])
def test_a_step_that_is_not_there_is_answered_with_the_nearest(
    call: Call, healthy: Path, step: str, nearest: str
) -> None:
    said = call("show", healthy, "--around", step)

    assert (said.code, said.out) == (2, "")
    assert said.err == f"barograph: No records of step {step}. The nearest recorded step is {nearest}. ({healthy})\n"


def test_where_a_passed_over_step_is_asked_for_it_says_which_one_is_shown(
    call: Call, healthy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if step 7 had been passed over.
    steps = RunReader.steps
    monkeypatch.setattr(RunReader, "steps", lambda self, *args: np.setdiff1d(steps(self, *args), [7]))

    said = call("show", healthy, "--around", "7")
    data = call("show", healthy, "--around", "7", "--json").json

    assert said.lines[1] == "Step 7 was not recorded. This is the nearest recorded step."
    assert said.lines[0].startswith("step 6 of")
    assert (data["asked"], data["step"]) == (7, 6)


def test_a_step_without_tensors_is_shown_and_it_is_said(
    call: Call, tmp_path: Path, trained: Callable[..., Path]
) -> None:
    place = trained(tmp_path / "run", steps=9, budget=None, preset="free", evaluate_every=4)
    tensors = barograph.open(place)
    assert tensors.steps("eval").tolist() == [4, 8]

    said = call("show", place, "--around", "4")

    assert said.code == 0
    assert "no tensors in this step" in said.out


def test_a_step_that_is_no_number_is_refused(call: Call, healthy: Path) -> None:
    said = call("show", healthy, "--around", "soon")

    assert said.code == 2
    assert "--around" in said.err


def test_a_machine_of_which_nothing_is_known_is_called_so() -> None:
    assert dict(origin_facts(Origin()))["machine"] == "unknown"
