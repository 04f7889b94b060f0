"""Section on the inside of the model: diagnosis of the learning curves, latent space over the training."""

from __future__ import annotations

import math

from barograph.queries.latent import Latent, LatentFrame
from barograph.queries.learning_curves import LearningCurves
from barograph.report.charts import COLORS, Line, figure_of, legend, line_chart, svg
from barograph.report.content import Report
from barograph.report.markup import Markup, element, joined
from barograph.watch.figures import count, figure, share

MOST_FRAMES = 6
_SIDE, _EDGE = 220, 8
_MOST_CLASSES = 20


def has_inside(report: Report) -> bool:
    """Return whether the section has content."""
    curves = report.learning_curves
    return report.latent is not None or (curves is not None and bool(curves.gaps))


def inside(report: Report) -> Markup:
    """Return the section."""
    curves, latent = report.learning_curves, report.latent
    return joined(_curves(curves) if curves is not None else None, _latent(latent) if latent is not None else None)


def _curves(curves: LearningCurves) -> Markup:
    said = element("p", element("b", f"Learning curves: {curves.diagnosis}. "), curves.text,
                   f" {curves.remedy}" if curves.remedy else None)
    if len(curves.gaps) < 2:
        return said
    steps = [float(step) for step, _, _ in curves.gaps]
    lines = [Line("training", steps, [value for _, value, _ in curves.gaps]),
             Line("validation", steps, [value for _, _, value in curves.gaps])]
    described = f"Lowest validation loss at step {curves.best_step:,}." if curves.best_step is not None else ""
    return joined(said, element("div", line_chart("Training and validation loss at each evaluation", described, lines),
                                class_="charts"))


def _latent(latent: Latent) -> Markup:
    last = latent.frames[-1]
    parts = [f"{count(len(latent.samples), 'sample')} of the evaluation data by the {latent.features} features of "
             f"“{latent.layer}”"]
    if math.isfinite(latent.explained[0]):
        parts.append(f"principal components with {share(sum(latent.explained))} of the variance")
    if math.isfinite(last.neighbor_accuracy):
        parts.append(f"at the last evaluation, {share(last.neighbor_accuracy)} lie among samples of their own class")
    classes = _classes(latent)
    frames = [_frame(latent, frame, classes) for frame in latent.frames]
    return joined(element("h3", "Latent space"), element("p", f"{', '.join(parts)}.", class_="note"),
                  element("div", frames, class_="charts frames"),
                  legend([f"{name} (squares)" if number >= COLORS else f"{name}"
                          for number, name in enumerate(classes)]))


def _classes(latent: Latent) -> list[int]:
    if not latent.is_classes or latent.targets is None:
        return []
    return sorted({int(target) for target in latent.targets if target >= 0})[:_MOST_CLASSES]


def _frame(latent: Latent, frame: LatentFrame, classes: list[int]) -> Markup:
    middle, sides = latent.box()
    reach = float(sides.max()) or 1.0
    half = _SIDE / 2 - _EDGE
    dots = []
    for row, (x, y) in enumerate(frame.points.tolist()):
        if not (math.isfinite(x) and math.isfinite(y)):
            continue
        target = latent.targets[row] if latent.targets is not None else -1
        number = classes.index(int(target)) if target in classes else 0
        across, down = _SIDE / 2 + (x - middle[0]) / reach * half, _SIDE / 2 - (y - middle[1]) / reach * half
        color = f"point s{number % COLORS}"
        dots.append(
            element("circle", cx=f"{across:.1f}", cy=f"{down:.1f}", r=2, class_=color) if number < COLORS else
            element("rect", x=f"{across - 1.8:.1f}", y=f"{down - 1.8:.1f}", width=3.6, height=3.6, class_=color))
    title = f"Step {frame.step:,}"
    said = f"Neighbor accuracy {figure(frame.neighbor_accuracy)}." if math.isfinite(frame.neighbor_accuracy) else ""
    return figure_of(title, svg(title, said or "Positions of the samples.", joined(dots), _SIDE, _SIDE))
