"""Sections on layer health and distributions."""

from __future__ import annotations

import math

from barograph.queries.curves import Curve
from barograph.report.content import Distribution, LayerHealth, Report, TensorFigures
from barograph.report.markup import Markup, element, joined
from barograph.report.page_findings import severity_class
from barograph.report.small_charts import band_chart, heat_rows, sparkline
from barograph.report.tables import table
from barograph.watch.figures import count, figure, share

_MOST_ROWS = 40
_SIGNS = {"ok": "●", "not judged": "○"}

_KINDS = {"weight": "Weights", "gradient": "Gradients", "update": "Updates", "output": "Outputs"}


def layers(report: Report) -> Markup:
    """Return a table of layers, and a heat map of gradient norms over the steps."""
    heads = ("layer", "health", "findings", "gradient norm over time", "weight", "gradient", "update",
             "update / weight", "output")
    rows = [_row(layer) for layer in report.layers]
    more = f"{count(report.layers_left_out, 'more layer')}: barograph show lists all."
    with_norms = [(layer.path or "(model)", layer.gradient_norms) for layer in report.layers
                  if layer.gradient_norms is not None][:_MOST_ROWS]
    heat = heat_rows("Gradient norm by layer", "One row per layer, in execution order; steps from left to right.",
                     with_norms) if len(with_norms) > 1 else None
    return joined(
        table("Norm ± standard deviation at the last recorded step; share of zeros; NaN and infinite elements", heads,
              rows, numbers=5),
        element("p", more, class_="note") if report.layers_left_out else None, heat,
    )


def distributions(report: Report) -> Markup:
    """Return distributions by tensor; those of one kind share a scale."""
    parts = [element("p", "Magnitudes of the nonzero elements, within a factor of two: median, the middle half "
                          "(dark) and 5% to 95% (pale). All tensors of a kind share one scale.", class_="note")]
    for kind, title in _KINDS.items():
        of_kind = [item for item in report.distributions if item.key.startswith(f"{kind}:")]
        if of_kind:
            parts += [element("h3", title), _bands(of_kind), _behind(of_kind)]
    if report.distributions_left_out:
        parts.append(element("p", f"And {count(report.distributions_left_out, 'tensor')} more.", class_="note"))
    return joined(parts)


def _row(layer: LayerHealth) -> list[Markup | str]:
    sign = _SIGNS.get(layer.health, "●")
    norms = layer.gradient_norms
    return [
        joined(layer.path or "(model)", " ", element("span", layer.layer, class_="note")),
        element("span", f"{sign} {layer.health}", class_=f"badge {severity_class(layer.health)}"),
        " ".join(layer.codes) or "–",
        _norms(norms, layer.path or "the model") if norms is not None else "–",
        _cell(layer.weight), _cell(layer.gradient), _cell(layer.update),
        "–" if math.isnan(layer.update_ratio) else figure(layer.update_ratio), _cell(layer.output),
    ]


def _norms(norms: Curve, name: str) -> Markup:
    if norms.nonfinite == norms.count:
        return element("b", "never finite", class_="badge bad-level")
    return sparkline(norms, f"Gradient norm of {name}")


def _cell(seen: TensorFigures | None) -> Markup | str:
    if seen is None:
        return "–"
    # A tensor without finite elements has no norm.
    known = f"{figure(seen.norm)} ± {figure(seen.std)}" if not math.isnan(seen.std) else None
    return joined(
        known, joined(element("br"), f"{share(seen.zeros)} zero") if seen.zeros > 0 else None,
        joined(element("br") if known else None, element("b", f"{seen.nonfinite:,} NaN/inf", class_="badge bad-level"))
        if seen.nonfinite else None,
    )


def _bands(of_kind: list[Distribution]) -> Markup:
    values = [value for item in of_kind for moment in item.quantiles for value in moment
              if math.isfinite(value) and value > 0]
    low, high = min(values, default=0.1), max(values, default=1.0)
    if high / low < 10:
        low, high = low / 3, high * 3
    return element("div", [band_chart(item, low, high) for item in of_kind], class_="charts small")


def _behind(of_kind: list[Distribution]) -> Markup:
    heads = ("tensor", "step", "5%", "25%", "median", "75%", "95%", "zeros", "NaN/inf")
    rows = [(item.key, f"{item.steps[at]}", *(figure(value) for value in item.quantiles[at]), share(item.zeros[at]),
             f"{item.nonfinite[at]:,}") for item in of_kind for at in dict.fromkeys((0, len(item.steps) - 1))]
    return element("details", element("summary", "Data"),
                   table("First and last histogram", heads, rows, numbers=8))
