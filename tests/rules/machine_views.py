"""Views of a machine and of the time of steps, as the rules about them see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from barograph.model.finding import Symptom
from barograph.model.key import Key, Kind
from barograph.model.step import Mode, Step
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.runs.reading.view import StepView

GIB = 2.0**30


def gpus(*busy: float, full: float = 50.0, **more: float) -> dict[str, float]:
    """Return the figures of a machine whose GPUs are so busy, each so full."""
    figures = {"cpu": 30.0, "cpu_busiest": 60.0, "cpu_iowait": 0.0, "memory": 10 * GIB, "memory_total": 64 * GIB}
    figures |= more
    for number, share in enumerate(busy):
        figures |= {f"gpu[{number}]": share, f"gpu_memory[{number}]": full,
                    f"gpu_memory_bytes[{number}]": full / 100 * 80 * GIB}
    return figures


def sample(number: int, figures: Mapping[str, float], *, worker: str = "p0") -> StepView:
    """Return the n-th sample, half a second after the one before."""
    step = Step(tick=number, number=3 * number, time_unix=1_800_000_000 + number / 2)
    return StepView.of(step, workers={worker: {Key(Kind.MACHINE, name): value for name, value in figures.items()}})


def samples(count: int, of: Callable[[int], Mapping[str, float]], *, worker: str = "p0") -> Iterator[StepView]:
    return (sample(number, of(number), worker=worker) for number in range(count))


def telling(number: int, by_worker: Mapping[str, Mapping[str, float]]) -> StepView:
    """Return what each worker tells of the time of its steps at a step."""
    step = Step(tick=number, number=number, mode=Mode.TRAIN, time_unix=1_800_000_000 + number / 2)
    records = {worker: {Key(Kind.TIME, name): value for name, value in times.items()}
               for worker, times in by_worker.items()}
    return StepView.of(step, workers=records)


def said(rule: Rule, views: Iterator[StepView] | list[StepView]) -> list[Symptom | None]:
    """Return what the rule said of each view that it judged; None: all is well."""
    memory: Memory = {}
    predictions: list[Symptom | None] = []
    for view in views:
        found = list(rule.judge(view, memory))
        if any(isinstance(item, Unjudged) for item in found):
            continue
        symptoms = [item for item in found if isinstance(item, Symptom)]
        predictions.append(symptoms[0] if symptoms else None)
    return predictions
