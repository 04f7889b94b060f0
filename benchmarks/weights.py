"""Whether training gives the same bits with and without Barograph: weights, buffers and random state."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.processes import WorkerFailed, run_worker
from benchmarks.tables import Table, note, progress
from benchmarks.variants import BASE, VARIANTS

COMPARED = (
    "barograph", "barograph-moments", "barograph-exact", "barograph-units", "barograph-updates", "barograph-everything"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One way to train.

    Attributes:
        workload: The workload.
        backend: Backend of `torch.compile`; "" for eager.
        compiled: "before" or "after" attaching. Before: two steps have been made by then, so the compiled code exists.
            After: it is compiled with the hooks installed.
        compiler: Whether a C++ compiler is available.
    """

    workload: str
    backend: str = ""
    compiled: str = ""
    compiler: bool = True

    def __str__(self) -> str:
        if not self.backend:
            return "eager"
        found = "" if self.compiler else ", no C++ compiler"
        return f"torch.compile({self.backend}) {self.compiled} attaching{found}"


EAGER = tuple(Case(workload) for workload in ("mlp", "resnet", "gpt"))
COMPILED = tuple(
    Case(workload, backend, compiled)
    for workload in ("tiny", "small-gpt")
    for backend in ("eager", "aot_eager", "inductor")
    for compiled in ("before", "after")
)
WITHOUT_COMPILER = (Case("tiny", "inductor", "before", compiler=False),)


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the comparison."""

    cases: Sequence[Case] = (*EAGER, *COMPILED, *WITHOUT_COMPILER)
    steps: int = 12


QUICK = Effort(cases=(Case("mlp"), Case("tiny", "inductor", "before"), Case("tiny", "inductor", "after")), steps=6)


def measure_weights(effort: Effort) -> dict[str, Any]:
    """Return, for each case, which variants gave the bits of the bare training; the control is a second bare
    training."""
    with tempfile.TemporaryDirectory(prefix="barograph-bench-") as caches:
        return {"cases": [_compare(case, effort.steps, caches) for case in effort.cases]}


def _compare(case: Case, steps: int, caches: str) -> dict[str, Any]:
    outcomes: dict[str, str] = {}
    expected = ""
    for name in (BASE, "control", *COMPARED):
        progress(f"weights, {case.workload}, {case}: {name}")
        try:
            digest = _digest(case, BASE if name == "control" else name, steps, caches)
        except WorkerFailed as error:
            outcomes[name] = f"failed: {error}"
            if name == BASE:
                break
            continue
        expected = expected or digest
        outcomes[name] = "same" if digest == expected else "differ"
    return {**asdict(case), "label": str(case), "outcomes": outcomes}


def _digest(case: Case, variant: str, steps: int, caches: str) -> str:
    request = {**asdict(case), "tool": VARIANTS[variant].tool, "options": dict(VARIANTS[variant].options),
               "steps": steps}  # fmt: skip
    variables = {"TORCHINDUCTOR_CACHE_DIR": caches, **({} if case.compiler else {"CXX": "no-such-compiler"})}
    return str(run_worker("weights_worker", request, variables=variables)["digest"])


def print_weights(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table("workload", "training", "control", *(name.removeprefix("barograph-") for name in COMPARED))
    failures = []
    for case in report["cases"]:
        outcomes = {name: text.split(":")[0] for name, text in case["outcomes"].items()}
        table.add(case["workload"], case["label"], *(outcomes.get(name, "–") for name in ("control", *COMPARED)))
        failures += [f"{case['workload']}, {case['label']}, {name} {text}"
                     for name, text in case["outcomes"].items() if text.startswith("failed")]  # fmt: skip
    table.print()
    note("same: identical bits of weights, buffers and random state; control: the bare training repeated")
    for failure in failures:
        note(failure)
