"""What would feed a rule says what is so in the framework at hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import barograph.capture
from barograph.judging.feeding import CALL_BACKWARD, EVALUATE, FRAMEWORKS_OF, JUDGE_TRAINING_DATA, PRESET, feed
from barograph.model.finding import Unmet
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode

NETWORK = frozenset({Kind.LOSS, Kind.WEIGHT, Kind.GRADIENT})
TREES = frozenset({Kind.LOSS, Kind.TREE, Kind.IMPORTANCE})
IN_EVALUATION = Schedule(modes=frozenset({Mode.EVAL}))


@pytest.mark.parametrize(("need", "around", "status", "said"), [
    (Selection(kinds=frozenset({Kind.FACT}), include=("gradients_kept*",)), NETWORK, Unmet.NOT_APPLICABLE,
     "Only some trainings with PyTorch have it."),
    (Selection(kinds=frozenset({Kind.FACT}), include=("frozen*", "foreign*")), NETWORK, Unmet.NOT_APPLICABLE,
     "Only some trainings with PyTorch, Keras, JAX and MXNet have it."),
    (Selection(kinds=frozenset({Kind.FACT}), include=("layers_in_train*",), schedule=IN_EVALUATION), NETWORK,
     Unmet.NEEDS_SETTING, EVALUATE),
    (Selection(kinds=frozenset({Kind.FACT, Kind.TREE}), include=("early_stopping*", "depth")), NETWORK,
     Unmet.NOT_APPLICABLE, "Boosted trees only."),
    (Selection(kinds=frozenset({Kind.GRADIENT})), TREES, Unmet.NOT_APPLICABLE,
     "Networks only; boosted trees have none of it."),
    (Selection(kinds=frozenset({Kind.FACT}), include=("gradients_kept*",)), TREES, Unmet.NOT_APPLICABLE,
     "Networks only; boosted trees have none of it."),
    (Selection(kinds=frozenset({Kind.LOSS})), TREES, Unmet.NEEDS_SETTING, JUDGE_TRAINING_DATA),
    (Selection(kinds=frozenset({Kind.FACT, Kind.LOSS}), include=("rounds_planned", "total")), NETWORK,
     Unmet.NEEDS_SETTING, CALL_BACKWARD),
    (Selection(kinds=frozenset({Kind.GRADIENT})), frozenset({Kind.SCALAR, Kind.MACHINE}), Unmet.NOT_ENOUGH_DATA,
     "No training step was recorded."),
    (Selection(kinds=frozenset({Kind.GRADIENT})), frozenset({Kind.LOSS}), Unmet.NEEDS_SETTING, PRESET),
    (Selection(kinds=frozenset({Kind.MACHINE}), include=("gpu*",)), NETWORK, Unmet.NOT_APPLICABLE,
     "NVIDIA GPUs only; none was in use, or machine_hz is 0."),
    (Selection(kinds=frozenset({Kind.MACHINE, Kind.TIME}), include=("loader_processes", "data")), NETWORK,
     Unmet.NOT_ENOUGH_DATA, "Set machine_hz above 0 and train for at least some seconds."),
    (Selection(kinds=frozenset({Kind.OPTIMIZER_STATE})), NETWORK, Unmet.NOT_APPLICABLE,
     "Only for optimizers with state, such as momentum or Adam."),
    (Selection(kinds=frozenset({Kind.LABEL})), NETWORK, Unmet.NOT_APPLICABLE,
     "Classification only: a cross-entropy of torch, Keras or Optax, or run.save_predictions(targets, predictions)."),
])
def test_what_does_not_apply_is_told_from_what_the_user_can_change(
    need: Selection, around: frozenset[Kind], status: Unmet, said: str
) -> None:
    assert feed([need], around) == (status, said)


def test_who_evaluates_is_not_told_to_evaluate() -> None:
    confusion = Selection(kinds=frozenset({Kind.CONFUSION}), schedule=IN_EVALUATION)

    assert feed([confusion], NETWORK) == (Unmet.NEEDS_SETTING, EVALUATE)
    assert feed([confusion], NETWORK, evaluated=True) == (
        Unmet.NOT_APPLICABLE, "The evaluations of this run have none of it.")


@pytest.mark.parametrize(("name", "folder"), [("Keras", "keras"), ("JAX", "jax"), ("MXNet", "mxnet")])
def test_which_frameworks_tell_a_fact_is_what_their_doors_do(name: str, folder: str) -> None:
    files = (Path(barograph.capture.__file__).parent / folder).rglob("*.py")
    named = {found for file in files for found in re.findall(r"\bFact\.([A-Z_]+)", file.read_text(encoding="utf-8"))}
    assert {fact.name for fact, places in FRAMEWORKS_OF.items() if name in places} == named
