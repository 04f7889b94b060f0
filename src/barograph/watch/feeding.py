"""What would feed a rule that met nothing it needs, in one sentence; what a framework cannot tell is said as that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from barograph.model.facts import Fact
from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.model.step import Mode

OF_TREES = frozenset({Kind.TREE, Kind.IMPORTANCE})
OF_NETWORKS = frozenset({Kind.WEIGHT, Kind.GRADIENT, Kind.GRADIENT_CLIPPED, Kind.UPDATE, Kind.OPTIMIZER_STATE,
                         Kind.INPUT, Kind.BATCH})

_BESIDE = frozenset({Kind.SCALAR, Kind.CUSTOM, Kind.TIME, Kind.MACHINE, Kind.VITAL})
"""What comes without a step of training, too."""

_TORCH, _KERAS, _JAX, _MXNET = "PyTorch", "Keras", "JAX", "MXNet"
_NETWORKS_OF_SKLEARN, _TREES = "the networks of scikit-learn", "boosted trees"
TOLD_OF: Mapping[Fact, tuple[str, ...]] = {
    **dict.fromkeys(Fact, (_TORCH,)),
    Fact.LAYERS_IN_EVAL: (_TORCH, _KERAS, _MXNET),
    Fact.LAYERS_IN_TRAIN: (_TORCH, _KERAS, _MXNET),
    Fact.MODEL_IN_EVAL: (_TORCH, _KERAS, _MXNET),
    Fact.PARAMETERS: (_TORCH, _KERAS, _JAX, _MXNET),
    Fact.FROZEN: (_TORCH, _KERAS, _JAX, _MXNET),
    Fact.UNTRAINED: (_TORCH, _KERAS),
    Fact.UNREACHED: (_TORCH, _JAX),
    Fact.MOMENTUM: (_TORCH, _JAX),
    Fact.LOSS_SCALE: (_TORCH, _MXNET),
    Fact.BROADCAST: (_TORCH, _KERAS),
    Fact.BAD_OPERATION: (_TORCH, _KERAS, _JAX),
    Fact.LOGITS_AS_PROBABILITIES: (_TORCH, _KERAS),
    Fact.PROBABILITIES_AS_LOGITS: (_TORCH, _KERAS),
    Fact.LOSS_WEIGHTED: (_TORCH, _KERAS),
    Fact.BATCH_SIZE: (_TORCH, _KERAS, _MXNET, _NETWORKS_OF_SKLEARN),
    Fact.ROUNDS_PLANNED: (_TREES,),
    Fact.EARLY_STOPPING: (_TREES,),
}
"""By which trainings each fact is told."""


def feed(unmet: Sequence[Selection], around: frozenset[Kind]) -> str:
    """Return what would feed these needs, a sentence that stands by itself; "" where nothing would.

    Args:
        unmet: Needs that met nothing.
        around: Kinds that steps of training recorded, whoever needs them.
    """
    modes = frozenset().union(*(need.schedule.modes for need in unmet))
    # Facts that are asked for together with the loss are told of few trainings: the loss is what is missing.
    kinds = frozenset().union(*(need.kinds - {Kind.FACT} if Kind.LOSS in need.kinds else need.kinds for need in unmet))
    if kinds & OF_TREES or (Kind.FACT in kinds and told_of(unmet) == (_TREES,)):
        return "It is for boosted trees."
    if any(need.kinds == {Kind.MACHINE} and all(name.startswith("gpu") for name in need.include) for need in unmet):
        return "It is for trainings on GPUs of NVIDIA; none was seen in use, or machine_hz is 0."
    if kinds == {Kind.MACHINE}:
        return "Set machine_hz above 0, and train for some seconds at least."
    if kinds == {Kind.TIME}:
        return "Train for some seconds at least: where the time of a step goes is told twice a second."
    if around & OF_TREES and kinds & (OF_NETWORKS | {Kind.FACT}):
        return "It is for networks: boosted trees have none of it."
    if kinds == {Kind.FACT}:
        return f"It is told of {_listed(told_of(unmet))}{'' if modes != {Mode.EVAL} else ', of an evaluation'}."
    if modes == {Mode.EVAL}:
        return _EVALUATE
    return _of_losses(kinds, around) or _of_tensors(kinds, around)


def _of_losses(kinds: frozenset[Kind], around: frozenset[Kind]) -> str:
    if kinds <= {Kind.LABEL, Kind.CONFUSION, Kind.FACT}:
        return ("Use a loss that takes classes (a cross-entropy of torch, Keras or Optax), or name labels and answers: "
                "run.save_predictions(targets, predictions).")
    if kinds == {Kind.LOSS} and around & OF_TREES:
        return "Have the training data judged, too: evals=[(data, \"train\")], valid_sets or eval_set."
    if kinds == {Kind.LOSS}:
        return "Call backward on one number, or say it where steps end: run.step(loss)."
    if kinds <= {Kind.LABEL, Kind.CONFUSION, Kind.FACT, Kind.TARGET, Kind.LOSS}:
        return ("Use a loss of torch, Keras or Optax over classes, or over distances from targets, such as a "
                "cross-entropy or a mean squared error.")
    return ""


def _of_tensors(kinds: frozenset[Kind], around: frozenset[Kind]) -> str:
    if around and not around - _BESIDE:
        return "No step of a training was recorded."
    if kinds == {Kind.BATCH}:
        return 'It is for models that are fed numbers with a fraction, under the preset "standard".'
    if kinds == {Kind.OPTIMIZER_STATE}:
        return 'It is for optimizers that keep something (momentum, Adam), under the preset "standard".'
    # One sentence for many rules: they are then told in one line.
    if kinds & {Kind.INPUT, Kind.OUTPUT, Kind.BATCH}:
        return ('It is for networks whose layers are modules, under the preset "standard" or a collection with these '
                "kinds.")
    return ('It is for networks, under the preset "standard" or a collection with these kinds, and a budget that lets '
            "tensors be recorded.")


_EVALUATE = ("Evaluate within the run: PyTorch in model.eval() with torch.no_grad() and a loss function of torch; "
             "Keras with validation_data or evaluate; JAX with observe(…, evaluation=True); trees with a data set to "
             "judge by.")


def told_of(needs: Iterable[Selection]) -> tuple[str, ...]:
    """Return which trainings tell any of the facts that are needed, in one order."""
    wanted = [name for need in needs if Kind.FACT in need.kinds for name in need.include]
    found = {where for fact, places in TOLD_OF.items() for where in places
             if any(fnmatchcase(fact.value, name) for name in wanted)}
    return tuple(where for where in (_TORCH, _KERAS, _JAX, _MXNET, _NETWORKS_OF_SKLEARN, _TREES) if where in found)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "no training"
