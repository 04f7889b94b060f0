"""The layers of a model, as the run last saw them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from barograph.model.finding import Evidence, Finding, FindingState, Severity
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords, Subject
from barograph.model.step import Mode
from barograph.runs.reading.layers import Trend, layers_of

MakeStep = Callable[..., StepRecords]


def subject(kind: Kind, path: str, layer: str = "Linear", **more: Any) -> Subject:
    return Subject(Key(kind, path), layer, "float32", **more)


GRADIENTS = subject(Kind.GRADIENT, "fc.weight"), subject(Kind.GRADIENT, "fc.bias")


def finding(key: Key | None, severity: Severity = Severity.COSTLY) -> Finding:
    evidence = (Evidence(key, 0, "x", 1.0, 2.0),)
    return Finding("id", "X901", "x", severity, FindingState.OPEN, "m", "r", evidence, "", "p0", "", Mode.TRAIN,
                   0, 0, 0, None, 0.0)


def test_parameters_of_one_module_are_taken_together(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(make_step(5, {subject(Kind.WEIGHT, "fc.weight"): [3.0], subject(Kind.WEIGHT, "fc.bias"): [4.0]}))

    (layer,) = layers_of(workshop.run())

    assert (layer.path, layer.layer, layer.steps) == ("fc", "Linear", {Kind.WEIGHT: 5})
    assert (layer.figures[Kind.WEIGHT].count, layer.figures[Kind.WEIGHT].l2) == (2, 5.0)


def test_layers_stand_in_the_order_they_ran_and_others_beside_their_neighbours(
    workshop: Any, make_step: MakeStep
) -> None:
    outputs = {subject(Kind.OUTPUT, path): [1.0] for path in ("stem", "h.10", "h.2", "head")}
    weights = {subject(Kind.WEIGHT, f"{path}.weight"): [1.0] for path in ("positions", "h.2", "norm", "head")}
    workshop.finished(make_step(0, {**weights, **outputs}))

    assert [layer.path for layer in layers_of(workshop.run())] == ["positions", "stem", "h.10", "h.2", "norm", "head"]


def test_layers_of_several_ranks_stand_in_the_order_they_ran(workshop: Any, make_step: MakeStep) -> None:
    attempt = workshop.claim()
    for rank in (0, 1):
        writer = workshop.writer(workshop.worker(rank=rank, world_size=2, attempt=attempt))
        workshop.publish(writer, make_step(0, {subject(Kind.OUTPUT, path): [1.0] for path in ("stem", "act", "head")}))
        writer.close(EndState.FINISHED)

    assert [layer.path for layer in layers_of(workshop.run())] == ["stem", "act", "head"]


def test_models_with_optimizers_of_their_own_stand_one_after_the_other(workshop: Any, make_step: MakeStep) -> None:
    def outputs(model: str) -> dict[Subject, list[float]]:
        return {subject(Kind.OUTPUT, f"{model}.{name}"): [1.0] for name in ("in", "act", "out")}

    workshop.finished(
        make_step(0, outputs("faker"), tick=0, optimizer="b"), make_step(0, outputs("judge"), tick=1, optimizer="a")
    )

    assert [layer.path for layer in layers_of(workshop.run())] == [
        "judge.in", "judge.act", "judge.out", "faker.in", "faker.act", "faker.out",
    ]


def test_items_of_one_output_are_one_layer_unless_the_module_is_called_so(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(make_step(0, {
        subject(Kind.WEIGHT, "act[red].weight"): [1.0], subject(Kind.OUTPUT, "lstm[0]"): [1.0],
        subject(Kind.OUTPUT, "lstm[1][0]"): [2.0], subject(Kind.OUTPUT, "act[red]"): [3.0],
    }))

    layers = {layer.path: layer for layer in layers_of(workshop.run())}

    assert set(layers) == {"lstm", "act[red]"}
    assert layers["lstm"].figures[Kind.OUTPUT].count == 2
    assert set(layers["act[red]"].figures) == {Kind.WEIGHT, Kind.OUTPUT}


def test_the_gradient_over_time_is_that_of_all_parameters(workshop: Any, make_step: MakeStep) -> None:
    weight, bias = GRADIENTS
    workshop.finished(
        make_step(0, {weight: [3.0], bias: [4.0]}), make_step(2, {weight: [math.nan], bias: [4.0]}),
        make_step(4, {weight: [0.0], bias: [2.0]}),
    )

    (layer,) = layers_of(workshop.run())

    assert layer.gradient_norms.steps == (0, 2, 4)
    assert layer.gradient_norms.values[::2] == (5.0, 2.0)
    assert math.isnan(layer.gradient_norms.values[1])


def test_parts_of_a_split_gradient_are_merged_and_a_step_with_a_part_missing_is_left_out(
    workshop: Any, make_step: MakeStep
) -> None:
    part = subject(Kind.GRADIENT, "fc.weight", shard=True, whole=2)
    attempt = workshop.claim()
    for rank, steps in ((0, (0, 1)), (1, (0,))):
        writer = workshop.writer(workshop.worker(rank=rank, world_size=2, attempt=attempt))
        workshop.publish(writer, *(make_step(step, {part: [3.0 + rank]}) for step in steps))
        writer.close(EndState.FINISHED)

    (layer,) = layers_of(workshop.run())

    assert layer.gradient_norms == Trend((0,), (5.0,))


def test_replicas_of_a_gradient_count_once(workshop: Any, make_step: MakeStep) -> None:
    attempt = workshop.claim()
    for rank in (0, 1):
        writer = workshop.writer(workshop.worker(rank=rank, world_size=2, attempt=attempt))
        workshop.publish(writer, make_step(0, {GRADIENTS[0]: [3.0 + rank]}))
        writer.close(EndState.FINISHED)

    (layer,) = layers_of(workshop.run())

    assert layer.gradient_norms == Trend((0,), (3.0,))


def test_a_layer_carries_the_findings_whose_evidence_names_it_the_worst_first(
    workshop: Any, make_step: MakeStep
) -> None:
    workshop.finished(make_step(0, {subject(Kind.OUTPUT, "fc"): [1.0], subject(Kind.OUTPUT, "act"): [1.0]}))
    mild, bad = finding(GRADIENTS[0].key), finding(Key(Kind.OUTPUT, "fc"), Severity.BREAKING)
    gone = replace(bad, state=FindingState.CLOSED, closed_step=3)

    layers = {layer.path: layer for layer in layers_of(workshop.run(), [gone, mild, bad, finding(None)])}

    assert layers["fc"].findings == (bad, mild, gone)
    assert layers["act"].findings == ()


def test_a_layer_that_only_a_finding_names_is_there_too(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(make_step(0, {subject(Kind.OUTPUT, "fc"): [1.0]}))

    layers = layers_of(workshop.run(), [finding(Key(Kind.INPUT, "head"))])

    assert [(layer.path, bool(layer.figures)) for layer in layers] == [("fc", True), ("head", False)]


def test_what_is_recorded_in_evaluation_is_no_layers_health(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(make_step(0, {subject(Kind.OUTPUT, "fc"): [1.0]}, mode=Mode.EVAL))

    assert layers_of(workshop.run()) == []
