"""The layers of a model and their health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from barograph.model.finding import Finding, FindingState
from barograph.model.key import Kind
from barograph.model.plain import plain
from barograph.model.summary import Summary
from barograph.queries.numbers import thinned
from barograph.runs.reading.layers import Layer, Trend, layers_of
from barograph.runs.reading.reader import RunReader

OK = "ok"
NOT_FINITE = "not finite"
NOT_JUDGED = "not judged"

_FIGURES = (
    "count", "nan", "posinf", "neginf", "zeros", "min", "max", "mean", "mean_abs", "std", "l2", "max_abs", "sparsity",
)


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer at the last steps that recorded it.

    Attributes:
        path: Path of the module; "" for the model itself.
        layer: Its class; "" if unknown.
        health: Severity of the worst open finding that names it; "not finite": no finding names it, and a recorded
            tensor of it holds NaN or infinities; "ok": evaluated, no open finding; "not judged": nothing was recorded
            of it, or not everything was judged.
        figures: Summary of each kind at its last recorded step.
        steps: That step, by kind.
        gradient_norms: Norm of the gradient of all its parameters, over the steps.
        findings: Findings that name it, open ones first, then the worst.
    """

    path: str
    layer: str
    health: str
    figures: Mapping[Kind, Summary]
    steps: Mapping[Kind, int]
    gradient_norms: Trend
    findings: tuple[Finding, ...]

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """Its open findings, worst first."""
        return tuple(item for item in self.findings if item.state is FindingState.OPEN)

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data, with at most 200 gradient norms."""
        steps, values = thinned(self.gradient_norms.steps, self.gradient_norms.values)
        data: dict[str, Any] = plain({
            "path": self.path, "class": self.layer, "health": self.health,
            "findings": [item.id for item in self.findings],
            "figures": {kind.value: {"step": self.steps[kind], **summary_to_json(seen)}
                        for kind, seen in self.figures.items()},
            "gradient_norms": {"steps": steps, "values": values},
        })
        return data


def layer_rows(
    run: RunReader, findings: Iterable[Finding] = (), *, judged: bool, norms: Mapping[str, Trend] | None = None
) -> list[LayerRow]:
    """Return the layers in the order in which they ran.

    Args:
        run: The run.
        findings: Its findings.
        judged: A watcher has judged everything that was published.
        norms: Gradient norms by path, if they were read already; None: read them.

    Raises:
        StoreError: The store cannot be read.
    """
    return [layer_row(layer, judged=judged) for layer in layers_of(run, findings, norms=norms)]


def layer_row(layer: Layer, *, judged: bool) -> LayerRow:
    """Return a layer with its health."""
    worst = next((item.severity.value for item in layer.findings if item.state is FindingState.OPEN), None)
    finite = not any(seen.nonfinite for seen in layer.figures.values())
    health = worst or (NOT_FINITE if not finite else OK if judged and layer.figures else NOT_JUDGED)
    return LayerRow(layer.path, layer.layer, health, layer.figures, layer.steps, layer.gradient_norms, layer.findings)


def health_of(layers: Iterable[LayerRow]) -> Counter[str]:
    """Return the number of layers by health; "ok" counts those that were not judged, too."""
    return Counter(OK if layer.health == NOT_JUDGED else layer.health for layer in layers)


def summary_to_json(summary: Summary) -> dict[str, Any]:
    """Return a Summary and what follows from it as strict JSON data, without the histogram."""
    data: dict[str, Any] = plain({name: getattr(summary, name) for name in _FIGURES})
    return data
