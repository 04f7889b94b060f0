"""ParametersAndOptimizer."""

from __future__ import annotations

import pytest

from barograph.model.facts import Fact
from barograph.model.finding import Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.step import Step
from barograph.model.summary import Summary
from barograph.rules.base import Unjudged
from barograph.rules.parameters import ParametersAndOptimizer
from barograph.runs.reading.view import StepView
from judging import causes, facts, said, symptoms

SOUND: dict[Fact | tuple[Fact, str], float] = {
    Fact.PARAMETERS: 6.0, Fact.FROZEN: 0.0, Fact.OUTSIDE_OPTIMIZER: 0.0, Fact.WITHOUT_GRADIENT: 0.0,
    Fact.UNREACHED: 0.0, Fact.FOREIGN: 0.0, Fact.OPTIMIZERS_MADE: 1.0,
}
LAYERS = {"a": "Linear", "act": "ReLU", "b": "Linear", "c": "Linear"}


def step(
    fault: dict[Fact | tuple[Fact, str], float], *, ran: dict[str, str] | None = None, number: int = 3
) -> StepView:
    outputs = {Key(Kind.OUTPUT, path): layer for path, layer in (ran or {}).items()}
    return StepView.of(Step(number, number), {**facts({**SOUND, **fault}), **dict.fromkeys(outputs, Summary(count=4))},
                       layers=outputs)


def unreached(*paths: str) -> dict[Fact | tuple[Fact, str], float]:
    return {Fact.UNREACHED: float(len(paths)), **{(Fact.UNREACHED, path): 1.0 for path in paths}}


def test_a_model_whose_parameters_fit_its_optimizer_is_well() -> None:
    assert said(ParametersAndOptimizer(), [step({}, ran=LAYERS)]) == [[]]


def test_parameters_in_no_optimizer_are_named() -> None:
    (symptom,) = symptoms(ParametersAndOptimizer(), [
        step({Fact.OUTSIDE_OPTIMIZER: 2.0, (Fact.OUTSIDE_OPTIMIZER, "b.weight"): 1.0}),
    ])

    assert symptom.message == '2 parameters get a gradient that no optimizer uses ("b.weight"): they never change.'
    assert (symptom.severity, causes(symptom)) == (Severity.COSTLY, ["parameter-not-in-optimizer"])


def test_frozen_layers_that_learnt_nothing_are_named() -> None:
    (symptom,) = symptoms(ParametersAndOptimizer(), [
        step({Fact.FROZEN: 4.0, Fact.UNTRAINED: 2.0, (Fact.UNTRAINED, "body.one"): 1.0}),
    ])

    assert symptom.message == ('2 frozen parameters ("body.one") still have their initial values: they were '
                               "never trained and only pass random features on.")
    assert "missing_keys" in symptom.remedy
    assert (symptom.severity, causes(symptom)) == (Severity.DOUBTFUL, ["frozen-parameter"])


@pytest.mark.parametrize(("name", "message"), [
    (Fact.OUTSIDE_OPTIMIZER, '1 parameter gets a gradient that no optimizer uses ("b.weight"): it never changes.'),
    (Fact.UNTRAINED, '1 frozen parameter ("b.weight") still has its initial values: it was never trained and only '
                     "passes random features on."),
    (Fact.UNREACHED, 'The graph of the loss does not reach 1 parameter ("b").'),
])
def test_one_parameter_is_not_several(name: Fact, message: str) -> None:
    (symptom,) = symptoms(ParametersAndOptimizer(), [step({Fact.PARAMETERS: 2.0, name: 1.0, (name, "b.weight"): 1.0})])

    assert symptom.message == message


def test_frozen_layers_that_were_trained_before_are_let_pass() -> None:
    assert said(ParametersAndOptimizer(), [step({Fact.FROZEN: 4.0, Fact.UNTRAINED: 0.0}, ran=LAYERS)]) == [[]]


def test_a_body_that_was_not_frozen_beside_a_head_that_learns_is_doubtful() -> None:
    (symptom,) = symptoms(ParametersAndOptimizer(), [step({Fact.OUTSIDE_OPTIMIZER: 4.0})])

    assert symptom.severity is Severity.DOUBTFUL


def test_an_optimizer_of_another_model_is_stale() -> None:
    (symptom,) = symptoms(ParametersAndOptimizer(), [
        step({Fact.FOREIGN: 6.0, Fact.OUTSIDE_OPTIMIZER: 6.0, (Fact.OUTSIDE_OPTIMIZER, "head.bias"): 1.0,
              Fact.WITHOUT_GRADIENT: 6.0}),
    ])

    assert symptom.message == ("The optimizer holds 6 parameters of no model that was called, and 6 parameters of the "
                               'trained model are in no optimizer ("head.bias").')
    assert (symptom.subject, symptom.severity, causes(symptom)) == ("stale", Severity.COSTLY, ["stale-optimizer"])


def test_a_parameter_of_its_own_beside_the_model_is_not_stale() -> None:
    assert symptoms(ParametersAndOptimizer(), [step({Fact.FOREIGN: 1.0})]) == []


def test_a_graph_that_is_cut_behind_the_first_layers_is_named() -> None:
    (symptom,) = symptoms(ParametersAndOptimizer(), [step(unreached("a.weight", "a.bias"), ran=LAYERS)])

    assert symptom.message == 'The graph of the loss does not reach 2 parameters ("a"), although their modules ran.'
    assert (symptom.subject, causes(symptom)) == ("cut", ["detached-graph"])
    assert symptom.causes[0].weight == 0.9


def test_the_order_of_layers_is_remembered_from_the_step_that_told_it() -> None:
    views = [step({}, ran=LAYERS), step(unreached("a.weight", "a.bias"), ran={"act": "ReLU"}, number=20)]

    assert [item.subject for item in symptoms(ParametersAndOptimizer(), views)] == ["cut"]


@pytest.mark.parametrize(
    ("paths", "ran"),
    [
        (("b.weight", "b.bias"), LAYERS),
        (("aux.weight", "aux.bias", "never.weight", "never.bias"), LAYERS),
        (("c.weight", "c.bias"), {}),
    ],
    ids=["a head that ran for nothing", "modules that never ran", "a small part, in unknown order"],
)
def test_heads_that_are_not_used_are_let_pass(paths: tuple[str, ...], ran: dict[str, str]) -> None:
    assert symptoms(ParametersAndOptimizer(), [step(unreached(*paths), ran=ran)]) == []


def test_half_of_all_that_should_learn_is_too_much_in_any_order() -> None:
    (symptom,) = symptoms(ParametersAndOptimizer(), [step(unreached("a.weight", "a.bias", "b.weight", "b.bias"))])

    assert causes(symptom) == ["detached-graph"]


def test_modules_that_never_ran_are_told_to_who_asks() -> None:
    view = step(unreached("aux.weight", "aux.bias"), ran=LAYERS)

    (symptom,) = symptoms(ParametersAndOptimizer(unused=True), [view])

    assert (symptom.severity, causes(symptom)) == (Severity.NOTE, ["unused-parameter"])


@pytest.mark.parametrize(
    ("made", "number", "severity"), [(21.0, 20, Severity.COSTLY), (6.0, 2000, Severity.DOUBTFUL), (3.0, 100, None)],
)
def test_an_optimizer_that_is_made_again_and_again_loses_its_state(
    made: float, number: int, severity: Severity | None
) -> None:
    found = symptoms(ParametersAndOptimizer(), [step({Fact.OPTIMIZERS_MADE: made}, number=number)])

    assert [(item.severity, causes(item)) for item in found] == (
        [(severity, ["optimizer-state-lost"])] if severity else []
    )


def test_an_optimizer_without_momentum_has_no_state_to_lose() -> None:
    views = [step({Fact.OPTIMIZERS_MADE: 21.0, (Fact.MOMENTUM, "group0"): 0.0})]

    assert symptoms(ParametersAndOptimizer(), views) == []


def test_without_facts_about_parameters_nothing_is_judged() -> None:
    assert said(ParametersAndOptimizer(), [StepView.of(0, facts({Fact.EPOCH: 1.0}))]) == [
        [Unjudged("no optimizer step recorded facts about the parameters")]
    ]


def test_a_momentum_that_is_told_by_itself_is_remembered() -> None:
    views = [StepView.of(0, facts({(Fact.MOMENTUM, "group0"): 0.0})),
             *(step({Fact.OPTIMIZERS_MADE: float(20 + number)}) for number in range(12))]
    assert symptoms(ParametersAndOptimizer(), views) == []
    assert symptoms(ParametersAndOptimizer(), views[1:])


@pytest.mark.parametrize(("count", "severity"), [(2.0, Severity.COSTLY), (6.0, Severity.DOUBTFUL)])
def test_layers_that_no_model_knows_are_told_by_their_shapes(count: float, severity: Severity) -> None:
    (symptom,) = symptoms(ParametersAndOptimizer(), [
        step({Fact.UNREGISTERED: count, (Fact.UNREGISTERED, "64x32"): count}),
    ])

    assert symptom.message == (f"{count:.0f} parameters of shape 64x32 get a gradient, but no model lists them and no "
                               "optimizer uses them: they never change.")
    assert "nn.ModuleList" in symptom.remedy
    assert (symptom.subject, symptom.severity) == ("unregistered", severity)
    assert causes(symptom) == ["parameter-not-in-optimizer"]


@pytest.mark.parametrize(("layer", "frozen", "severity"), [
    ("BatchNorm1d", 4.0, Severity.NOTE), ("BatchNorm1d", 0.0, Severity.COSTLY), ("Linear", 4.0, Severity.COSTLY),
])
def test_norms_of_a_frozen_body_in_no_optimizer_are_a_note(layer: str, frozen: float, severity: Severity) -> None:
    key = Key(Kind.WEIGHT, "body.1.weight")
    all_facts = facts({Fact.PARAMETERS: 10.0, Fact.FROZEN: frozen, Fact.OUTSIDE_OPTIMIZER: 1.0,
                  (Fact.OUTSIDE_OPTIMIZER, "body.1.weight"): 1.0})
    view = StepView.of(3, {key: Summary(count=1), **all_facts}, layers={key: layer})

    (found,) = ParametersAndOptimizer().judge(view, {})

    assert isinstance(found, Symptom)
    assert found.severity == severity


def test_backward_may_never_be_called_where_no_parameter_is_reached() -> None:
    (whole,) = symptoms(ParametersAndOptimizer(), [step({Fact.PARAMETERS: 2.0, **unreached("a.weight", "b.weight")})])
    (part,) = symptoms(ParametersAndOptimizer(), [step({Fact.PARAMETERS: 4.0, **unreached("a.weight", "b.weight")})])

    assert whole.remedy.startswith("Call loss.backward() before optimizer.step() (PyTorch)")
    assert part.remedy.startswith("Remove ")
