"""What the variables of a script held when a step began, kept and put back."""

from __future__ import annotations

import numpy as np
import torch

from barograph.capsule.torch.sameness import differs
from barograph.capture.torch.step_variables import VariableWatch, put_variables

HERE = "test_step_variables.py"


class Trainer:
    def __init__(self):
        self.step = 7
        self.model = torch.nn.Linear(1, 1)

    def look(self, watch):
        return {item.where: item.values for item in watch.now()}


def looked_at(watch, labels, number):
    rows = slice(number, number + 2)
    weight = torch.ones(2, requires_grad=True)
    made = weight * 2
    found = {item.where: dict(item.values) for item in watch.now()}[f"{HERE}:looked_at"]
    return found, (rows, made)


def test_numbers_and_texts_are_kept_and_tensors_that_are_new():
    watch, known = VariableWatch(), torch.zeros(3)
    first, _ = looked_at(watch, known, 3)
    assert first == {"number": 3, "rows": slice(3, 5)}
    again, _ = looked_at(watch, known, 4)
    assert again == {"number": 4, "rows": slice(4, 6)}
    fresh = torch.ones(3)
    assert looked_at(watch, fresh, 5)[0]["labels"] is fresh


def test_what_belongs_to_a_graph_or_is_a_weight_is_not_kept():
    watch = VariableWatch()
    looked_at(watch, 1, 1)
    found, _ = looked_at(watch, 2, 2)
    assert set(found) == {"labels", "number", "rows"}


def test_the_object_that_trains_is_asked_too():
    assert Trainer().look(VariableWatch())[f"{HERE}:Trainer.look.self"] == {"step": 7}


def test_variables_of_a_function_that_runs_are_put_back():
    def train():
        step, labels, rate = 0, torch.zeros(2), 0.5
        put_variables({f"{HERE}:{train.__qualname__}": {"step": 12, "labels": torch.ones(2), "gone": 1}}, differs)
        return step, labels.tolist(), rate

    # The qualified name of an inner function holds that of the outer.
    assert train() == (12, [1.0, 1.0], 0.5)


def test_what_is_the_same_or_belongs_to_a_graph_is_left_alone():
    labels, made = torch.zeros(2), torch.ones(2, requires_grad=True) * 2
    assert not differs(labels, torch.zeros(2))
    assert not differs(made, torch.zeros(2))
    assert differs(labels, torch.ones(2))
    assert differs(np.zeros(2), np.ones(2))
    assert not differs(np.zeros(2), np.zeros(2))
    assert differs(1, 1.0)
    assert differs(None, torch.ones(1))
