"""The command line of the benchmarks: parts, effort, and output."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import (
    asking,
    capsule,
    catalog,
    checkpoint,
    finding,
    frameworks,
    job_checkpoints,
    job_data,
    job_survival,
    jobs,
    judging,
    kernel_report,
    logs,
    networks,
    notice,
    opening,
    origin,
    reading,
    rerun,
    start,
    steps,
    together,
    trace,
    trees,
    turns,
    weights,
)
from benchmarks.coverage import driver as coverage
from benchmarks.environments import OWN, EnvironmentUnavailable, prepare
from benchmarks.faults import driver as faults
from benchmarks.models import MEASURED, WORKLOADS
from benchmarks.processes import WorkerFailed
from benchmarks.replay import driver as replay
from benchmarks.studio import driver as studio
from benchmarks.tables import heading, note, progress
from benchmarks.tune import driver as tune
from benchmarks.variants import VARIANTS


def measure_steps(choice: argparse.Namespace) -> dict[str, Any]:
    """Part (a): the cost of a step."""
    heading("Step time, as a ratio to the bare steps just before and after")
    effort = steps.QUICK if choice.quick else steps.Effort()
    effort = replace(effort, rounds=choice.rounds or effort.rounds)
    if choice.malloc == "system":
        effort = replace(effort, variables={})
    unavailable = _prepare({VARIANTS[name].environment for name in choice.variants})
    names = [name for name in choice.variants if VARIANTS[name].environment not in unavailable]
    reports = []
    for workload in choice.workloads:
        reports.append(steps.measure_steps(workload, names, effort, device=choice.device, seed=choice.seed))
        steps.print_steps(reports[-1])
    return {"workloads": reports, "unavailable": unavailable}


def measure_turns(choice: argparse.Namespace) -> dict[str, Any]:
    """The cost of recording within one process, with alternating bare and recorded steps."""
    heading("Cost of recording, alternating with bare steps in one process")
    effort = turns.QUICK if choice.quick else turns.Effort()
    report = turns.measure_turns(replace(effort, processes=choice.rounds or effort.processes), choice.workloads)
    turns.print_turns(report)
    return report


def measure_kernel(choice: argparse.Namespace) -> dict[str, Any]:
    """Part (b): the statistics loop compared with a plain read of the same memory."""
    heading("The statistics kernel, compared with a plain read of the same memory")
    report = kernel_report.measure_kernel(0.3 if choice.quick else 1.5)
    kernel_report.print_kernel(report)
    return report


def measure_log(choice: argparse.Namespace) -> dict[str, Any]:
    """Part (c): the cost of logging a number, and its size on disk."""
    heading("Logging numbers: cost for the caller")
    effort = logs.QUICK if choice.quick else logs.Effort()
    effort = replace(effort, rounds=choice.rounds or effort.rounds)
    unavailable = _prepare(choice.tools)
    report = logs.measure_logs([tool for tool in choice.tools if tool not in unavailable], effort, seed=choice.seed)
    logs.print_logs(report)
    return {**report, "unavailable": unavailable}


def measure_read(choice: argparse.Namespace) -> dict[str, Any]:
    """Part (d): reading a long series into NumPy."""
    return _reported(choice, "Reading one series back", reading, reading.measure_reading, reading.print_reading)


def measure_finding(choice: argparse.Namespace) -> dict[str, Any]:
    """Part (e): from the end of a step to its finding on the terminal."""
    return _reported(
        choice, "From a step's end to its finding", finding, finding.measure_findings, finding.print_findings,
    )  # fmt: skip


def measure_notice(choice: argparse.Namespace) -> dict[str, Any]:
    """From a finding to the webhook."""
    return _reported(choice, "From a finding to a webhook", notice, notice.measure_notices, notice.print_notices)


def measure_catalog(choice: argparse.Namespace) -> dict[str, Any]:
    """Queries in a catalog of many components."""
    return _reported(choice, "A catalog with many components", catalog, catalog.measure_catalog, catalog.print_catalog)


def measure_ask(choice: argparse.Namespace) -> dict[str, Any]:
    """Queries about many runs, compared with another tracker."""
    heading("Queries over many runs")
    effort = asking.QUICK if choice.quick else asking.Effort()
    effort = replace(effort, rounds=choice.rounds or effort.rounds)
    tools = [tool for tool in choice.tools if tool in asking.TOOLS]
    unavailable = _prepare(tools)
    report = asking.measure_asking([tool for tool in tools if tool not in unavailable], effort, seed=choice.seed)
    asking.print_asking(report)
    return {**report, "unavailable": unavailable}


def measure_judge(choice: argparse.Namespace) -> dict[str, Any]:
    """Speed of all rules together."""
    return _reported(choice, "Every rule over recorded data", judging, judging.measure_judging, judging.print_judging)


def measure_follow(choice: argparse.Namespace) -> dict[str, Any]:
    """The resources of a watcher that follows a long run."""
    return _reported(
        choice, "Watching a long run", judging, judging.measure_following, judging.print_following,
    )  # fmt: skip


def measure_faults(choice: argparse.Namespace) -> dict[str, Any]:
    """Detected faults, and false alarms."""
    programs = faults.chosen_programs("all", None)
    scores = faults.measure_faults(programs, seeds=1 if choice.quick else faults.SEEDS, jobs=1)
    faults.print_faults(scores)
    return faults.report_of(scores)


def measure_trace(choice: argparse.Namespace) -> dict[str, Any]:
    """The cost of the data trace per step, and its size on disk."""
    return _reported(choice, "The data trace", trace, trace.measure_trace, trace.print_trace)


def measure_trees(choice: argparse.Namespace) -> dict[str, Any]:
    """The cost of recording a training of boosted trees."""
    return _reported(choice, "Boosted trees", trees, trees.measure_trees, trees.print_trees)


def measure_frameworks(choice: argparse.Namespace) -> dict[str, Any]:
    """The cost of recording a step of Keras and of JAX."""
    heading("Keras and JAX steps")
    effort = replace(frameworks.QUICK if choice.quick else frameworks.Effort(), threads=choice.threads,
                     names=choice.frameworks)
    report = frameworks.measure_frameworks(effort)
    frameworks.print_frameworks(report)
    return report


def measure_capsule(choice: argparse.Namespace) -> dict[str, Any]:
    """The cost of writing a withheld step."""
    return _reported(choice, "A capsule", capsule, capsule.measure_capsule, capsule.print_capsule)


def measure_replay(choice: argparse.Namespace) -> dict[str, Any]:
    """How exactly withheld steps are replayed, and whether the cause is found."""
    heading("Saving and replaying failing steps")
    scores = replay.measure_replays(replay.chosen_programs(None), forked=choice.quick)
    replay.print_replays(scores)
    return replay.report_of(scores)


def measure_start(choice: argparse.Namespace) -> dict[str, Any]:
    """Time added to the start of a script."""
    heading("Script startup")
    report = start.measure_start(start.QUICK if choice.quick else start.FULL, seed=choice.seed)
    start.print_start(report)
    return report


def measure_origin(choice: argparse.Namespace) -> dict[str, Any]:
    """Time that recording the provenance adds to the start of a script."""
    return _reported(choice, "Recording the origin of a run", origin, origin.measure_origin, origin.print_origin)


def measure_open(choice: argparse.Namespace) -> dict[str, Any]:
    """Time of opening a run, compared with another tracker."""
    heading("Opening a run")
    unavailable = _prepare(set(opening.WAYS.values()))
    ways = {way: environment for way, environment in opening.WAYS.items() if environment not in unavailable}
    report = opening.measure_opening(ways, opening.QUICK if choice.quick else opening.Effort(), seed=choice.seed)
    opening.print_opening(report)
    return {**report, "unavailable": unavailable}


def measure_together(choice: argparse.Namespace) -> dict[str, Any]:
    """Speed of many processes that log to one run."""
    return _reported(choice, "Many processes logging to one run", together, together.measure_together,
                     together.print_together)


def measure_jobs(choice: argparse.Namespace) -> dict[str, Any]:
    """Times of a training job until it starts, ends, and trains again."""
    return _reported(choice, "Training jobs", jobs, jobs.measure_jobs, jobs.print_jobs)


def measure_coverage(choice: argparse.Namespace) -> dict[str, Any]:
    """How much of a training the default settings record."""
    heading("Coverage of the default settings")
    effort = coverage.QUICK if choice.quick else coverage.Effort()
    effort = replace(effort, rounds=choice.rounds or effort.rounds, programs=choice.programs)
    report = coverage.measure_coverage(effort, seed=choice.seed)
    coverage.print_coverage(report)
    return report


def measure_rerun(choice: argparse.Namespace) -> dict[str, Any]:
    """Whether reruns of the examples are identical to the last bit."""
    return _reported(choice, "Rerunning the examples", rerun, rerun.measure_rerun, rerun.print_rerun)


def measure_checkpoint(choice: argparse.Namespace) -> dict[str, Any]:
    """The cost of a checkpoint."""
    return _reported(
        choice, "Cost of a checkpoint", checkpoint, checkpoint.measure_checkpoint, checkpoint.print_checkpoint,
    )  # fmt: skip


def measure_job_checkpoints(choice: argparse.Namespace) -> dict[str, Any]:
    """The cost of interruptions and checkpoints of a job."""
    heading("A job under interruptions")
    effort = job_checkpoints.QUICK if choice.quick else job_checkpoints.Effort()
    report = job_checkpoints.measure_job_checkpoints(replace(effort, rounds=choice.rounds or effort.rounds))
    job_checkpoints.print_job_checkpoints(report)
    return report


def measure_job_data(choice: argparse.Namespace) -> dict[str, Any]:
    """The speed of delivering the data of a job."""
    return _reported(choice, "Data of a job", job_data, job_data.measure_job_data, job_data.print_job_data)


def measure_job_survival(choice: argparse.Namespace) -> dict[str, Any]:
    """What jobs survive, and what remains of them."""
    heading("Jobs under kill -9")
    effort = job_survival.QUICK if choice.quick else job_survival.Effort()
    if choice.rounds:
        effort = replace(effort, trainings=choice.rounds, cleanups=choice.rounds, on_ray=0)
    report = job_survival.measure_job_survival(effort, seed=choice.seed, only=choice.survival)
    job_survival.print_job_survival(report)
    return report


def measure_tune(choice: argparse.Namespace) -> dict[str, Any]:
    """How good and how fast the search of a study is, compared with other searches."""
    heading("Tuning")
    return tune.measure_tune(tune.QUICK if choice.quick else tune.FULL)


def measure_studio(choice: argparse.Namespace) -> dict[str, Any]:
    """The web UI in a browser, compared with other tools."""
    heading("The web UI in Chromium")
    effort = studio.QUICK if choice.quick else studio.Effort()
    try:
        report = studio.measure_studio(replace(effort, rounds=choice.rounds or effort.rounds))
    except FileNotFoundError as error:
        raise WorkerFailed(str(error)) from error
    studio.show_studio(report)
    return report


def measure_weights(choice: argparse.Namespace) -> dict[str, Any]:
    """Whether the bits are the same."""
    return _reported(
        choice, "Identical bits with and without Barograph", weights, weights.measure_weights, weights.print_weights,
    )  # fmt: skip


def measure_networks(choice: argparse.Namespace) -> dict[str, Any]:
    """Whether random Keras networks train to the same bits."""
    return _reported(choice, "Random networks with and without Barograph", networks,
                     networks.measure_networks, networks.print_networks)


def _reported(
    choice: argparse.Namespace, title: str, part: Any, measure: Callable[[Any], dict[str, Any]],
    show: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Measure one part with the chosen effort; print and return it."""
    heading(title)
    report = measure(part.QUICK if choice.quick else part.Effort())
    show(report)
    return report


PARTS: Mapping[str, Callable[[argparse.Namespace], Any]] = {
    "steps": measure_steps,
    "turns": measure_turns,
    "kernel": measure_kernel,
    "log": measure_log,
    "read": measure_read,
    "finding": measure_finding,
    "notice": measure_notice,
    "judge": measure_judge,
    "follow": measure_follow,
    "faults": measure_faults,
    "trace": measure_trace,
    "trees": measure_trees,
    "frameworks": measure_frameworks,
    "coverage": measure_coverage,
    "capsule": measure_capsule,
    "replay": measure_replay,
    "start": measure_start,
    "origin": measure_origin,
    "open": measure_open,
    "together": measure_together,
    "rerun": measure_rerun,
    "jobs": measure_jobs,
    "catalog": measure_catalog,
    "ask": measure_ask,
    "checkpoint": measure_checkpoint,
    "job-checkpoints": measure_job_checkpoints,
    "job-data": measure_job_data,
    "job-survival": measure_job_survival,
    "tune": measure_tune,
    "studio": measure_studio,
    "weights": measure_weights,
    "networks": measure_networks,
}


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and return 0 if every part succeeded."""
    choice = _parser().parse_args(arguments)
    report: dict[str, Any] = {"machine": _machine(choice.device)}
    print(", ".join(f"{name} {value}" for name, value in report["machine"].items()))
    failed = False
    for part in choice.only or PARTS:
        try:
            report[part] = PARTS[part](choice)
        except WorkerFailed as error:
            report[part] = {"failed": str(error)}
            note(f"{part} failed: {error}")
            failed = True
        if choice.json:  # after each part: a later failure must not lose hours of measurements
            Path(choice.json).write_text(json.dumps(report, indent=1), encoding="utf-8")
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks/run.py", description="Measure what Barograph costs.")
    parser.add_argument("--only", type=_names_among(PARTS), help="parts, separated by commas: " + ", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements; wider intervals")
    parser.add_argument("--json", metavar="FILE", help="write all raw results to FILE")
    parser.add_argument("--rounds", type=int, help="number of rounds for steps, log and coverage")
    parser.add_argument("--seed", type=int, default=0, help="seed for the order of measurements")
    parser.add_argument("--device", default="cpu", help="device for steps: cpu, cuda, cuda:1")
    parser.add_argument(
        "--malloc", choices=("keep", "system"), default="keep",
        help="allocator for steps: keep freed memory (default, strictest), or system behavior",
    )  # fmt: skip
    parser.add_argument("--workloads", type=_names_among(WORKLOADS), default=list(MEASURED),
                        help="models for steps: " + ", ".join(WORKLOADS))
    parser.add_argument(
        "--variants", type=_names_among(VARIANTS), help="variants for steps: " + ", ".join(VARIANTS),
        default=[name for name, variant in VARIANTS.items() if not variant.asked],
    )  # fmt: skip
    parser.add_argument("--frameworks", type=_names_among(frameworks.FRAMEWORKS), default=list(frameworks.FRAMEWORKS),
                        help="cases for frameworks: " + ", ".join(f'"{name}"' for name in frameworks.FRAMEWORKS))
    parser.add_argument("--threads", type=int, default=1, help="threads of training and recording, for frameworks")
    parser.add_argument("--programs", type=_names_among(coverage.PROGRAMS), default=list(coverage.PROGRAMS),
                        help="programs for coverage: " + ", ".join(coverage.PROGRAMS))
    parser.add_argument("--survival", type=_names_among(job_survival.NAMES), default=list(job_survival.NAMES),
                        help="measurements of job-survival: " + ", ".join(job_survival.NAMES))
    parser.add_argument("--tools", type=_names_among(logs.TOOLS), default=list(logs.TOOLS), help="tools for log")
    return parser


def _names_among(known: Iterable[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in set(known)]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not among {', '.join(known)}")
        return names

    return parse


def _prepare(environments: Iterable[str]) -> dict[str, str]:
    """Create the environments; return and print those that cannot be created here, with the reason."""
    unavailable = {}
    for name in sorted(environments):
        progress(f"environment {name}") if name != OWN else None
        try:
            prepare(name)
        except EnvironmentUnavailable as error:
            unavailable[name] = str(error)
            note(f"{name} was not measured: {error}")
    return unavailable


def _machine(device: str) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": f"{os.getloadavg()[0]:.2f} before the first measurement",
        "device": device,
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
