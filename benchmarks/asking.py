"""Times of queries about many runs, compared with another tracker: a fresh process fills a store, then queries it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.interleave import interval_of
from benchmarks.processes import Result, run_worker
from benchmarks.rounds import in_rounds
from benchmarks.tables import Table, note, span_text

TOOLS = ("barograph", "mlflow")
_LONGEST_SECS = 3600.0
_FILLING = "filling"


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement: processes per tool, runs with 5 metrics, 5 parameters and 4 tags, points,
    repetitions."""

    rounds: int = 3
    components: int = 10_000
    points: int = 100_000
    times: int = 5


QUICK = Effort(rounds=2, components=1_000, points=20_000, times=3)


def measure_asking(tools: Sequence[str], effort: Effort, *, seed: int = 0) -> dict[str, Any]:
    """Return the times of each tool per round; `failures` has tools that fail, with the reason."""
    measured: dict[str, list[Result]] = defaultdict(list)

    def measure(tool: str, _: int) -> None:
        request = {"tool": tool, "components": effort.components, "points": effort.points, "times": effort.times}
        measured[tool].append(run_worker("ask_worker", request, environment=tool, timeout_secs=_LONGEST_SECS))

    failures = in_rounds("ask", tools, effort.rounds, measure, seed=seed)
    return {"components": effort.components, "points": effort.points, "measured": dict(measured), "failures": failures}


def print_asking(report: Mapping[str, Any]) -> None:
    """Print the table: medians, and the ratio of each other tool to Barograph per round."""
    tools = [tool for tool in report["measured"] if tool not in report["failures"]]
    if tools:
        _print_table(report, tools)
    for tool, reason in report["failures"].items():
        note(f"{tool} failed: {reason}")


def _print_table(report: Mapping[str, Any], tools: Sequence[str]) -> None:
    measured = report["measured"]
    own = measured["barograph"] if "barograph" in tools else []
    others = [tool for tool in tools if own and tool != "barograph"]
    table = Table("query", *tools, *(f"{tool} ÷ barograph" for tool in others))
    for question in [*measured[tools[0]][0]["taken"], _FILLING]:
        spans = [span_text(interval_of([secs for result in measured[tool] for secs in _taken(result, question)]), "ms",
                           scale=1e3) for tool in tools]
        ratios = [span_text(interval_of([median(_taken(theirs, question)) / median(_taken(ours, question))
                                         for theirs, ours in zip(measured[tool], own, strict=True)]), "×")
                  for tool in others]
        table.add(question, *spans, *ratios)
    table.print()
    note(f"{report['components']:,} runs with 5 metrics, 5 parameters and 4 tags each; a series of "
         f"{report['points']:,} points; SQLite, one process, warm; MLflow's client returns the whole series as a curve")


def _taken(result: Result, question: str) -> list[float]:
    taken: list[float] = [result["fill_secs"]] if question == _FILLING else result["taken"][question]
    return taken
