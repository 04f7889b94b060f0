"""Search spaces: parsing, scales, conditions, constraints."""

from __future__ import annotations

import pytest

from barograph.errors import BadSpace
from barograph.tune.parameter import Choice, FloatRange, IntRange, Scale
from barograph.tune.space import Space, space_from


def test_texts_as_on_the_command_line() -> None:
    space = Space.from_texts(["lr=1e-5..1e-1:log", "width=16..256:int", "optimizer=adam,sgd", "batch=64,16,32"])
    assert [parameter.domain for parameter in space] == [
        FloatRange(1e-5, 0.1, Scale.LOG), IntRange(16, 256), Choice(("adam", "sgd")), Choice((16, 32, 64))]


def test_a_dictionary_as_in_python() -> None:
    space = space_from({"lr": "1e-5..1e-1:log", "width": (16, 256), "dropout": (0.0, 0.5), "optimizer": ["adam", "sgd"],
                        "momentum": FloatRange(0.5, 0.99, Scale.REVERSE_LOG)})
    assert [parameter.domain for parameter in space] == [
        FloatRange(1e-5, 0.1, Scale.LOG), IntRange(16, 256), FloatRange(0.0, 0.5), Choice(("adam", "sgd")),
        FloatRange(0.5, 0.99, Scale.REVERSE_LOG)]


@pytest.mark.parametrize(("domain", "middle"), [
    (FloatRange(0.0, 1.0), 0.5), (FloatRange(1e-4, 1e-2, Scale.LOG), 1e-3), (FloatRange(1e-4, 1e-2), 1e-3),
    (FloatRange(1.0, 50.0), 25.5), (FloatRange(0.9, 0.999, Scale.REVERSE_LOG), 0.99), (IntRange(1, 3), 2),
    (FloatRange(1e-4, 1e-2, Scale.LINEAR), 0.00505), (Choice(("a", "b", "c")), "b"),
])
def test_the_middle_of_each_scale(domain: FloatRange | IntRange | Choice, middle: object) -> None:
    assert domain.value(0.5) == middle
    assert domain.unit(middle) == pytest.approx(0.5)


@pytest.mark.parametrize("domain", [
    FloatRange(-3.0, 7.0), FloatRange(1e-6, 1.0), FloatRange(0.0, 0.999, Scale.REVERSE_LOG), IntRange(1, 1000),
    IntRange(-4, 4), IntRange(1, 64, Scale.LOG), Choice((False, True)), Choice(("x", "y", "z")),
])
def test_a_value_is_found_again_at_its_position(domain: FloatRange | IntRange | Choice) -> None:
    for unit in (0.0, 0.01, 0.3, 0.77, 0.999, 1.0):
        value = domain.value(unit)
        assert domain.allows(value)
        assert domain.value(domain.unit(value)) == value


def test_every_integer_is_as_likely_on_a_linear_scale() -> None:
    values = [IntRange(1, 4).value((index + 0.5) / 400) for index in range(400)]
    assert [values.count(value) for value in (1, 2, 3, 4)] == [100, 100, 100, 100]


@pytest.mark.parametrize(("text", "message"), [
    ("lr=0.1..0.001", "lr: The range 0.1..0.001 is reversed. Write 0.001..0.1."),
    ("lr=0.1..0.1", "lr: The range 0.1..0.1 has only one value"),
    ("lr=0..1:log", "lr: The range 0..1 contains values ≤ 0, which have no logarithm"),
    ("lr=-1..1:log", "no logarithm"),
    ("m=0.5..1:reverse-log", "is not in [0, 1)"),
    ("n=1..5:int:reverse-log", "not for integers"),
    ("n=1.5..5:int", "a bound that is not an integer"),
    ("n=1..inf:int", "a bound that is not an integer"),
    ("n=nan..5:int", "a bound that is not an integer"),
    ("lr=1e-5...1", '"1e-5...1" has three dots'),
    ("lr=a..1", '"a" is not a number in the range "a..1"'),
    ("lr=..", '"" is not a number'),
    ("lr=1..nan", "finite numbers"),
    ("lr=1..inf", "finite numbers"),
    ("lr=1..2:cubic", '"cubic" is unknown'),
    ("lr", "has no values"),
    ("lr=", "has no values"),
    ("optimizer=adam", "needs at least two values"),
    ("optimizer=,", "needs at least two values"),
    ("optimizer=adam,adam", "listed twice"),
    ("1lr=0..1", "cannot be the name"),
    ("m=0..1 if lr", "is not a condition"),
    ("m=0..1 if opt=sgd", 'there is no parameter "opt"'),
])
def test_what_is_wrong_with_a_space_is_said(text: str, message: str) -> None:
    with pytest.raises(BadSpace) as caught:
        Space.from_texts([text])
    assert message in str(caught.value)


@pytest.mark.parametrize(("texts", "message"), [
    ([], "The space is empty"),
    (["a=0..1", "a=0..2"], "a is listed twice"),
    (["a=x,y if b=x", "b=x,y if a=x"], "are circular"),
    (["a=0..1 if b=1", "b=0..2"], "b is a range, not a choice"),
    (["a=0..1 if b=z", "b=x,y"], "b is never z"),
])
def test_what_is_wrong_between_parameters_is_said(texts: list[str], message: str) -> None:
    with pytest.raises(BadSpace) as caught:
        Space.from_texts(texts)
    assert message in str(caught.value)


def test_a_conditional_parameter_is_there_only_if_it_applies() -> None:
    space = Space.from_texts(["momentum=0..0.9 if optimizer=sgd", "optimizer=adam,sgd"])
    assert space.names == ("optimizer", "momentum")
    assert space.values([0.1, 0.5]) == {"optimizer": "adam"}
    assert space.values([0.9, 0.5]) == {"optimizer": "sgd", "momentum": 0.45}
    assert space.units({"optimizer": "adam"}) == [0.25, 0.5]


def test_a_condition_names_numbers_and_booleans_as_they_are_typed() -> None:
    assert Space.from_texts(["deep=1,2", "rate=0..1 if deep=2"]).values([0.9, 0.5]) == {"deep": 2, "rate": 0.5}
    assert Space.from_mapping({"on": [True, False], "rate": "0..1 if on=True"}).values([0.1, 0.5]) == {
        "on": True, "rate": 0.5}


def test_constraints() -> None:
    space = Space.from_texts(["width=1..64:int", "depth=1..8:int"], ["width * depth <= 64 and not width == 3"])
    assert space.allows({"width": 8, "depth": 8})
    assert not space.allows({"width": 64, "depth": 2})
    assert not space.allows({"width": 3, "depth": 1})
    assert space.problem_of({"width": 64, "depth": 2}) == (
        "The constraint width * depth <= 64 and not width == 3 is not met.")


@pytest.mark.parametrize(("text", "message"), [
    ("width <", "is not an expression"), ("widht < 3", 'Did you mean "width"?'),
    ("__import__('os').system('true')", "may use names"), ("width ** 9999", "may use names"),
    ("(lambda: 1)()", "may use names"), ("width.real", "may use names"),
])
def test_a_wrong_constraint_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadSpace) as caught:
        Space.from_texts(["width=1..64:int"], [text])
    assert message in str(caught.value)


def test_the_grid_has_every_combination_once() -> None:
    space = Space.from_texts(["a=0..1", "optimizer=adam,sgd", "momentum=0..1 if optimizer=sgd"])
    found = list(space.grid(3))
    assert len(found) == 3 + 9
    assert {"a": 0.5, "optimizer": "adam"} in found
    assert len(list(Space.from_texts(["n=1..3:int"]).grid(5))) == 3
    assert len(list(Space.from_texts(["n=1..300:int:linear"]).grid(5))) == 5
    with pytest.raises(BadSpace, match="combinations"):
        list(Space.from_texts([f"p{index}=0..1" for index in range(20)]).grid(3))


def test_a_space_survives_json() -> None:
    space = Space.from_texts(["lr=1e-5..1e-1:log", "n=1..5:int", "optimizer=adam,sgd", "m=0..0.9 if optimizer=sgd"],
                             ["lr < 1"])
    assert Space.from_json(space.to_json()) == space


@pytest.mark.parametrize(("values", "problem"), [
    ({"lr": 0.5, "optimizer": "adam"}, ""),
    ({"lr": 5, "optimizer": "adam"}, "lr is 5, not in 0..1."),
    ({"lr": "high", "optimizer": "adam"}, "lr is 'high', not in 0..1."),
    ({"lr": True, "optimizer": "adam"}, "lr is True, not in 0..1."),
    ({"lr": 0.5}, "optimizer is missing."),
    ({"lr": 0.5, "optimizer": "adam", "m": 0.5}, "m applies only if optimizer=sgd."),
    ({"optimiser": "adam"}, 'There is no parameter "optimiser". Did you mean "optimizer"?'),
])
def test_values_that_do_not_belong_to_the_space_are_noticed(values: dict[str, object], problem: str) -> None:
    assert Space.from_texts(["lr=0..1", "optimizer=adam,sgd", "m=0..1 if optimizer=sgd"]).problem_of(values) == problem


def test_a_condition_on_a_boolean_is_written_as_in_toml() -> None:
    space = space_from({"amp": [True, False], "scale": "1..9:int if amp=true"})
    assert space.problem_of({"amp": False}) == ""
    assert space.problem_of({"amp": True}) == "scale is missing."
