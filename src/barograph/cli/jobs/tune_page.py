"""Output of `barograph tune`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from barograph.cli.jobs.submit_page import pairs, spec_of
from barograph.cli.jobs.tune_view import StudyView
from barograph.cli.printing import Cell, Column, Printer
from barograph.cli.signs import state_text
from barograph.cli.stray_options import OTHER_NAMES
from barograph.errors import BarographError, UnknownName, UnknownStudy
from barograph.jobs.controller_process import ensure_controller
from barograph.jobs.home import JobsHome
from barograph.jobs.spec import JobSpec, entries_of_file
from barograph.model.plain import plain
from barograph.rules.words import joined
from barograph.tune.about import start_of
from barograph.tune.analysis import hopeless_regions, importance
from barograph.tune.autotune import autotuned
from barograph.tune.completion import failure_of_all, tried_again
from barograph.tune.job_studies import start_study, stop_study, train_more
from barograph.tune.later_jobs import due
from barograph.tune.live_values import Latest
from barograph.tune.options import OPTIONS, better_error, check_positive, max_secs_of, split_entries
from barograph.tune.overview import best_of, best_trial, plan_of, state_of, value_text, verdict_of
from barograph.tune.studies import open_studies, open_study
from barograph.tune.study import BY_USER, Study
from barograph.tune.trial import Trial, TrialState
from barograph.tune.trial_job import adopted
from barograph.tune.trial_plan import TrialPlan, can_be_packed
from barograph.tune.tuner import Tuner
from barograph.watch.figures import count, duration, figure

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130
_SHOWN = 20


def start_typed(typed: Mapping[str, Any]) -> None:
    """Start the study that the options describe, and follow it to its end."""
    options, spec = _described(typed)
    if spec.algorithm:
        options, spec = autotuned(options, spec)
    home = JobsHome()
    study, plan = start_study(options, spec, home, to=typed["to"] or "",
                              packs=not options["cpus_given"] and can_be_packed(spec))
    _say(f"starting study {plan.name}: {count(len(study.space), 'parameter')}, up to "
         f"{count(study.spec.completion.trials or 0, 'trial')}, {plan.parallel} at a time")
    if options.get("seed") is not None and plan.parallel > 1:
        _say("note: with several trials at the same time, a seed does not make the study reproducible: the order in "
             "which trials end decides what is tried next.")
    if options.get("parent"):
        _say(start_of(study.heritage) or "No trial of the earlier studies has finished: starts from nothing.")
    _follow(study, plan, home, as_json=typed["as_json"])


def resume_named(
    name: str, *, jobs: int | None = None, parallel: int | None = None, max_time: str | None = None, as_json: bool
) -> None:
    """Continue a study, and follow it to its end."""
    from dataclasses import replace

    check_positive("jobs", jobs)
    secs = max_secs_of(max_time)
    home = JobsHome()
    study = open_study(name, home)
    plan = TrialPlan.from_json(study.spec.details)
    if parallel is not None:
        plan = replace(plan, parallel=parallel)
    if jobs is not None or secs is not None or study.over:
        limit = study.spec.completion
        limit = replace(limit, trials=limit.trials if jobs is None else jobs, secs=limit.secs if secs is None else secs)
        study.extend(tried_again(limit, study.trials, was_over=bool(study.over)))
    if study.over and not study.running:
        hint = " --jobs and --max-time set new limits." if study.is_at_limit else ""
        _say(f"no more trials: {study.over}.{hint}")
    else:
        ended, most = sum(trial.state.is_over for trial in study.trials), study.limit
        of_all = f"{ended} of {count(most, 'trial')}" if most else count(ended, "trial")
        _say(f"continuing study {plan.name}: {of_all} ended")
    _follow(study, plan, home, as_json=as_json)


def show_named(name: str, *, as_json: bool) -> None:
    """Print a study."""
    study, printer = open_study(name, JobsHome()), Printer()
    if as_json:
        printer.json(study_json(study))
        return
    _print_trials(study, printer)
    plan = plan_of(study)
    _print_end(study, plan, printer, name=name)
    if plan and (left := _left(study, plan)):
        printer.line(f"{left}:  barograph tune resume {name}")
    for sentence in study.about():
        printer.line(sentence)


def stop_named(name: str, *, as_json: bool) -> None:
    """Stop a study, its running trials, and the jobs that repeat or refit its best ones."""
    home, printer = JobsHome(), Printer()
    study = open_study(name, home)
    over = study.over
    goes_on, stopped = stop_study(study, home, BY_USER)
    if stopped:
        ensure_controller(home)  # otherwise jobs of a killed one get no request
    if as_json:
        printer.json({"name": name, "over": study.over, "stopping": stopped})
    elif goes_on:
        printer.line(f"Stopping {name} and {count(len(stopped), 'job')}. To continue later:  "
                     f"barograph tune resume {name}")
    else:
        printer.line(f"{name} has already ended: {over}.")


def list_all(*, as_json: bool) -> None:
    """Print all studies of this user, the newest first."""
    printer = Printer()
    rows: list[Sequence[Cell]] = []
    data: list[dict[str, Any]] = []
    for name, study in open_studies(JobsHome()):
        if isinstance(study, str):
            rows.append([name, state_text("unreadable"), "", "", study])
            data.append({"name": name, "error": study})
        else:
            best = best_of(study)
            rows.append([name, state_text(state_of(study)), str(len(study.trials)), figure(best.value) if best else "",
                         "; ".join(map(str, study.spec.objectives))])
            data.append({"name": name, **study_json(study)})
    if as_json:
        printer.json(data)
    elif rows:
        printer.table((Column("study"), Column("state"), Column("trials", right=True), Column("best", right=True),
                       Column("objective", prose=True, spare=1)), rows)
    else:
        printer.line("No studies. To start one:  barograph tune train.py --vary lr=1e-4..1e-1:log --minimize eval_loss")


def study_json(study: Study) -> dict[str, Any]:
    """Return a study as JSON data."""
    best = best_of(study)
    return {
        "state": state_of(study), "over": study.over,
        "objectives": [str(objective) for objective in study.spec.objectives], "strategy": study.spec.strategy,
        "seed": study.spec.seed, "space": [str(parameter) for parameter in study.space],
        "best": best.number if best else None, "front": [trial.number for trial in study.front],
        "importance": [one.to_json() for one in importance(study)],
        "hopeless": [region.to_json() for region in hopeless_regions(study)],
        "confirmation": plain(study.confirmation), "refitted": plain(study.refitted),
        "trials": [plain(trial) for trial in study.trials],
        "latest": {str(number): {"step": step, "value": value} for number, (step, value) in study.latest().items()},
    }


def _described(typed: Mapping[str, Any]) -> tuple[dict[str, Any], JobSpec]:
    """Return the options of the study, those typed on top of its file, and its job."""
    words = list(typed["command"] or ())
    entries: dict[str, Any] | None = None
    options: dict[str, Any] = {}
    if words and words[0].endswith(".toml"):
        options, entries = split_entries(entries_of_file(Path(words.pop(0))))
    given = {name: typed[name] for name in OPTIONS if name in typed and typed[name] not in (None, [], ())}
    if "metric" in given:
        given["metric"] = pairs(given["metric"], "--metric")
    of_job = {**typed, "command": words, "name": None, "to": None, "experiment": None, "trial": None}
    try:
        spec = spec_of(of_job, entries)
    except UnknownName as error:
        raise better_error(error, entries or {}, OTHER_NAMES) from error
    options["cpus_given"] = typed["cpus"] is not None or "cpus" in (entries or {})
    return {**options, **given}, spec


def _follow(study: Study, plan: TrialPlan, home: JobsHome, *, as_json: bool) -> None:
    tuner, printer = Tuner(study, plan, home), Printer()
    try:
        with StudyView(study, plan, quiet=as_json) as view:
            tuner.run(seen=view.draw)
        train_more(study, plan, home, say=_say)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        _say_how_to_continue(plan.name)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except UnknownStudy:  # deleted while it ran: nothing to continue
        raise
    except BarographError:
        _say_how_to_continue(plan.name)
        raise
    if as_json:
        printer.json(study_json(study))
    else:
        _print_end(study, plan, printer)
    if best_of(study) is None:
        raise typer.Exit(EXIT_FAILED)


def _left(study: Study, plan: TrialPlan) -> str:
    """Return what a study has not done yet, and when to resume it; "" if it has ended."""
    if study.running or not study.over:
        return "The study has not ended. If it was interrupted"
    if not (left := due(study, plan)):
        return ""
    has_failed = study.confirmation is not None and not study.was_repeated
    return f"Not done yet: {joined(left)}. {'Once the failure is fixed' if has_failed else 'If it was interrupted'}"


def _say_how_to_continue(name: str) -> None:
    _say(f"to continue the study:  barograph tune resume {name}\n"
         f"  its running jobs continue; to stop them:  barograph tune stop {name}")


def _say(text: str) -> None:
    print(f"barograph: {text}", file=sys.stderr, flush=True)


def _print_trials(study: Study, printer: Printer) -> None:
    shown = sorted((trial for trial in study.trials if trial.state is TrialState.FINISHED),
                   key=lambda trial: study.objective.loss(trial.value))
    rest = [trial for trial in study.trials if trial.state is not TrialState.FINISHED]
    names = [objective.name for objective in study.spec.objectives]
    columns = [Column("trial", right=True), Column("state"), *(Column(name, right=True) for name in names),
               *(Column(name, right=True, spare=2) for name in study.space.names),
               Column("reason", prose=True, spare=1)]
    latest = study.latest()
    limit = _SHOWN if printer.on_terminal else None
    rows = [row_of(study, trial, latest.get(trial.number)) for trial in [*shown, *reversed(rest)][:limit]]
    printer.table(columns, rows)
    if printer.on_terminal and len(study.trials) > _SHOWN:
        printer.line(f"{len(study.trials) - _SHOWN:,} more trials: --json")


def row_of(study: Study, trial: Trial, latest: Latest | None = None) -> Sequence[Cell]:
    """Return the cells of a trial; of a running one, `latest` is its last reported step and value."""
    values = [figure(value) for value in trial.values] or [""] * len(study.spec.objectives)
    note = trial.reason.partition("\n")[0]
    if latest and not trial.state.is_over:
        values[0], note = figure(latest[1]), f"so far, at step {latest[0]:,}"
    return [str(trial.number), state_text(str(trial.state)), *values,
            *(parameter_text(trial, name) for name in study.space.names), note]


def parameter_text(trial: Trial, name: str) -> str:
    """Return the value of a parameter in a few characters; "" if it does not apply."""
    return value_text(trial.parameters[name]) if name in trial.parameters else ""


def _print_end(study: Study, plan: TrialPlan | None, printer: Printer, *, name: str = "") -> None:
    states = [trial.state for trial in study.trials]
    counts = [f"{states.count(state)} {state}" for state in TrialState if states.count(state)]
    printer.line()
    # The tuner of running trials stores the time with its next event.
    took = "" if study.running else f" in {duration(study.secs)}"
    printer.line(f"{plan.name if plan else name}: {count(len(states), 'trial')} ({', '.join(counts)}){took}"
                 + (f"; {study.over}" if study.over else ""))
    for region in hopeless_regions(study):
        printer.line(str(region), indent=2)
    best = best_of(study)
    if best is None:
        cause = failure_of_all(study.trials)
        if not cause or cause != study.over:  # which has been printed
            printer.line(verdict_of(study))
        if cause and plan and study.over:
            printer.entries(_entries_after_failures(study, name or plan.name))
        return
    values = ", ".join(f"{objective.name} {figure(value)}"
                       for objective, value in zip(study.spec.objectives, best.values, strict=True))
    ranked = importance(study)
    printer.entries([
        (f"best {study.objective.name}" if len(study.spec.objectives) > 1 else "best",
         f"trial {best.number}: {values} with "
         f"{', '.join(f'{name}={parameter_text(best, name)}' for name in best.parameters)}"),
        *([("front", f"trials {', '.join(str(trial.number) for trial in study.front)}: no other is better in all "
                     "objectives")] if len(study.spec.objectives) > 1 else []),
        *([("repeated", study.confirmation.sentence)] if study.confirmation else []),
        *([("importance", ", ".join(f"{one.name} {one.share:.0%}" for one in ranked))] if ranked else []),
        *(_job_entries(study, plan, best) if plan else []),
    ])


def _job_entries(study: Study, plan: TrialPlan, best: Trial) -> list[tuple[str, Cell]]:
    use = best_trial(study, best)
    return [
        ("command", use.command),
        ("rerun", use.rerun),
        *([("model", f"{use.model} copies it{_rows(study)}")] if use.model else []),
        ("run", plan.url_of(best.job).removeprefix("file://")),
    ]


def _entries_after_failures(study: Study, name: str) -> list[tuple[str, Cell]]:
    jobs = JobsHome()
    failed = next((trial.job for trial in reversed(study.trials) if adopted(jobs, trial.job)), "")
    return [
        *([("output", f"barograph logs {failed} prints that of the last trial")] if failed else []),
        ("retry", f"barograph tune resume {name}, once the script is fixed; other options need another study"),
    ]


def _rows(study: Study) -> str:
    if study.refitted is None:
        return ""
    return f"; refitted on all {study.refitted.rows:,} rows" if study.refitted.rows else "; refitted on all rows"
