"""Why a rule lacked data, and what would provide it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from barograph.model.facts import Fact
from barograph.model.finding import Unmet
from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.model.step import Mode

OF_TREES = frozenset({Kind.TREE, Kind.IMPORTANCE})
OF_NETWORKS = frozenset({Kind.WEIGHT, Kind.GRADIENT, Kind.GRADIENT_CLIPPED, Kind.UPDATE, Kind.OPTIMIZER_STATE,
                         Kind.INPUT, Kind.BATCH})

_BESIDE = frozenset({Kind.SCALAR, Kind.CUSTOM, Kind.TIME, Kind.MACHINE, Kind.VITAL})
"""Kinds that are also recorded without a training step."""

_TORCH, _KERAS, _JAX, _MXNET = "PyTorch", "Keras", "JAX", "MXNet"
_NETWORKS_OF_SKLEARN, _TREES = "the networks of scikit-learn", "boosted trees"
FRAMEWORKS_OF: Mapping[Fact, tuple[str, ...]] = {
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
"""Trainings that record each fact."""

EVALUATE = ("Evaluate in the run: model.eval() and torch.no_grad() with a loss of torch (PyTorch), validation_data or "
            "evaluate (Keras), observe(…, evaluation=True) (JAX), a validation set (trees).")
CALL_BACKWARD = "Call backward on one number, or pass the loss where a step ends: run.step(loss)."
JUDGE_TRAINING_DATA = 'Evaluate on the training data, too: evals=[(data, "train")], valid_sets or eval_set.'
PRESET = 'Record tensors: the preset "standard", or a collection with these kinds.'

SHORT: Mapping[str, str] = {
    EVALUATE: "an evaluation", CALL_BACKWARD: "the loss: run.step(loss)",
    JUDGE_TRAINING_DATA: "an evaluation on the training data", PRESET: 'the preset "standard"',
}
"""Needs of a rule as short phrases."""


def feed(unmet: Sequence[Selection], around: frozenset[Kind], *, evaluated: bool = False) -> tuple[Unmet, str]:
    """Return why nothing was recorded for these needs, and a sentence about what would provide it ("" for none).

    Args:
        unmet: Needs without a match.
        around: Kinds that training steps recorded, for any rule.
        evaluated: The run has an evaluation.
    """
    modes = frozenset().union(*(need.schedule.modes for need in unmet))
    # Few trainings record the facts requested together with the loss, so the loss is what is missing.
    kinds = frozenset().union(*(need.kinds - {Kind.FACT} if Kind.LOSS in need.kinds else need.kinds for need in unmet))
    if kinds & OF_TREES or (Kind.FACT in kinds and frameworks_with(unmet) == (_TREES,)):
        return Unmet.NOT_APPLICABLE, "Boosted trees only."
    if any(need.kinds == {Kind.MACHINE} and all(name.startswith("gpu") for name in need.include) for need in unmet):
        return Unmet.NOT_APPLICABLE, "NVIDIA GPUs only; none was in use, or machine_hz is 0."
    if kinds == {Kind.MACHINE} or kinds == {Kind.MACHINE, Kind.TIME}:
        return Unmet.NOT_ENOUGH_DATA, "Set machine_hz above 0 and train for at least some seconds."
    if kinds == {Kind.TIME}:
        return Unmet.NOT_ENOUGH_DATA, "Train for at least some seconds: the time of steps is recorded twice a second."
    if around & OF_TREES and kinds & (OF_NETWORKS | {Kind.FACT}):
        return Unmet.NOT_APPLICABLE, "Networks only; boosted trees have none of it."
    if modes == {Mode.EVAL} and not evaluated:
        return Unmet.NEEDS_SETTING, EVALUATE
    if kinds == {Kind.FACT}:
        return Unmet.NOT_APPLICABLE, f"Only some trainings with {_listed(frameworks_with(unmet))} have it."
    if modes == {Mode.EVAL}:
        return Unmet.NOT_APPLICABLE, "The evaluations of this run have none of it."
    return _of_losses(kinds, around) or _of_tensors(kinds, around)


def _of_losses(kinds: frozenset[Kind], around: frozenset[Kind]) -> tuple[Unmet, str] | None:
    if kinds <= {Kind.LABEL, Kind.CONFUSION, Kind.FACT}:
        return Unmet.NOT_APPLICABLE, (
            "Classification only: a cross-entropy of torch, Keras or Optax, or run.save_predictions(targets, "
            "predictions).")
    if kinds == {Kind.LOSS}:
        return Unmet.NEEDS_SETTING, JUDGE_TRAINING_DATA if around & OF_TREES else CALL_BACKWARD
    if kinds <= {Kind.LABEL, Kind.CONFUSION, Kind.FACT, Kind.TARGET, Kind.LOSS}:
        return Unmet.NOT_APPLICABLE, (
            "Only for losses of torch, Keras or Optax over classes or distances, such as a cross-entropy or a mean "
            "squared error.")
    return None


def _of_tensors(kinds: frozenset[Kind], around: frozenset[Kind]) -> tuple[Unmet, str]:
    if around and not around - _BESIDE:
        return Unmet.NOT_ENOUGH_DATA, "No training step was recorded."
    if kinds == {Kind.BATCH} and around & {Kind.INPUT, Kind.OUTPUT}:
        return Unmet.NOT_APPLICABLE, "Only for models with floating-point inputs."
    if kinds == {Kind.OPTIMIZER_STATE} and around & {Kind.UPDATE, Kind.GRADIENT}:
        return Unmet.NOT_APPLICABLE, "Only for optimizers with state, such as momentum or Adam."
    return Unmet.NEEDS_SETTING, PRESET


def frameworks_with(needs: Iterable[Selection]) -> tuple[str, ...]:
    """Return the trainings that record any of the needed facts, in a fixed order."""
    wanted = [name for need in needs if Kind.FACT in need.kinds for name in need.include]
    found = {where for fact, places in FRAMEWORKS_OF.items() for where in places
             if any(fnmatchcase(fact.value, name) for name in wanted)}
    return tuple(where for where in (_TORCH, _KERAS, _JAX, _MXNET, _NETWORKS_OF_SKLEARN, _TREES) if where in found)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "no training"
