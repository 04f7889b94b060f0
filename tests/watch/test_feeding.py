"""What would feed a rule says what is so in the framework at hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import barograph.capture
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.watch.feeding import TOLD_OF, feed

NETWORK = frozenset({Kind.LOSS, Kind.WEIGHT, Kind.GRADIENT})
TREES = frozenset({Kind.LOSS, Kind.TREE, Kind.IMPORTANCE})
IN_EVALUATION = Schedule(modes=frozenset({Mode.EVAL}))


@pytest.mark.parametrize(("need", "around", "said"), [
    (Selection(kinds=frozenset({Kind.FACT}), include=("gradients_kept*",)), NETWORK, "It is told of PyTorch."),
    (Selection(kinds=frozenset({Kind.FACT}), include=("frozen*", "foreign*")), NETWORK,
     "It is told of PyTorch, Keras, JAX and MXNet."),
    (Selection(kinds=frozenset({Kind.FACT}), include=("layers_in_train*",), schedule=IN_EVALUATION), NETWORK,
     "It is told of PyTorch, Keras and MXNet, of an evaluation."),
    (Selection(kinds=frozenset({Kind.FACT, Kind.TREE}), include=("early_stopping*", "depth")), NETWORK,
     "It is for boosted trees."),
    (Selection(kinds=frozenset({Kind.GRADIENT})), TREES, "It is for networks: boosted trees have none of it."),
    (Selection(kinds=frozenset({Kind.FACT}), include=("gradients_kept*",)), TREES,
     "It is for networks: boosted trees have none of it."),
    (Selection(kinds=frozenset({Kind.LOSS})), TREES,
     'Have the training data judged, too: evals=[(data, "train")], valid_sets or eval_set.'),
    (Selection(kinds=frozenset({Kind.FACT, Kind.LOSS}), include=("rounds_planned", "total")), NETWORK,
     "Call backward on one number, or say it where steps end: run.step(loss)."),
    (Selection(kinds=frozenset({Kind.GRADIENT})), frozenset({Kind.SCALAR, Kind.MACHINE}),
     "No step of a training was recorded."),
    (Selection(kinds=frozenset({Kind.GRADIENT})), frozenset({Kind.LOSS}),
     'It is for networks, under the preset "standard" or a collection with these kinds, and a budget that lets tensors '
     "be recorded."),
])
def test_what_a_framework_cannot_tell_is_said_as_that(need: Selection, around: frozenset[Kind], said: str) -> None:
    assert feed([need], around) == said


@pytest.mark.parametrize(("name", "folder"), [("Keras", "keras"), ("JAX", "jax"), ("MXNet", "mxnet")])
def test_which_frameworks_tell_a_fact_is_what_their_doors_do(name: str, folder: str) -> None:
    files = (Path(barograph.capture.__file__).parent / folder).rglob("*.py")
    named = {found for file in files for found in re.findall(r"\bFact\.([A-Z_]+)", file.read_text(encoding="utf-8"))}
    assert {fact.name for fact, places in TOLD_OF.items() if name in places} == named
