"""Rules about the training loop itself: what it forgets between two steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact, fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.clues import fact_value
from barograph.rules.words import percent, sentence
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_FIRST = frozenset(range(10))


@dataclass(frozen=True, kw_only=True)
class GradientsNotReset(Rule):
    """P101: Gradients are not reset between steps, and add up.

    What it sees: whether anything reset the gradients (zero_grad, or setting them to None or zero) between one step of
      an optimizer and the last backward pass before the next. Where nothing did in `patience` recorded steps in a
      row, each step goes along the sum of all gradients so far.
    Why it matters: the steps grow and point to where the model was long ago. It looks like a learning rate that
      is too high, or like momentum without decay, and often still learns a little.
    What to do: optimizer.zero_grad() before loss.backward(), once for each optimizer.step().
    When it is wrong: optimizers that reset or average gradients themselves. Accumulation over micro-batches is no
      fault: it resets after each step.
    Tried on: silent on 19 small healthy trainings, a GAN, a policy, Q-learning and batches of one among them (one seed
      each). A loop without zero_grad fires at step 3.
    Source: TrainCheck, OSDI 2025, on silent errors in training; the PyTorch reference of Optimizer.zero_grad.
    """

    code: ClassVar[str] = "P101"
    name: ClassVar[str] = "gradients-not-reset"
    severity: ClassVar[Severity] = Severity.COSTLY

    patience: int = parameter(3, "Judged steps in a row that must show the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.FACT}), include=(f"{Fact.GRADIENTS_KEPT.value}*",),
                          schedule=Schedule(every=20, steps=_FIRST, modes=_IN_TRAINING)),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        kept = fact_value(view, Fact.GRADIENTS_KEPT)
        if kept is None or view.step.number == 0:
            yield Unjudged("no step after the first was looked at for a reset of gradients")
            return
        if not kept:
            return
        whose = f'"{view.step.optimizer}".' if view.step.has_rivals else "optimizer."
        yield Symptom(
            message=f"Gradients were not reset before step {view.step.number}: they add up from step to step.",
            remedy=f"Call {whose}zero_grad() before loss.backward(), once for each step.",
            evidence=(Evidence(fact(Fact.GRADIENTS_KEPT), view.step.number, "gradients_kept", kept, 0.0,
                               "no reset since the step before"),),
            causes=(Suspicion(Cause.GRADIENTS_NOT_RESET, 0.9,
                              f"nothing reset the gradients between the steps {view.step.number - 1} and "
                              f"{view.step.number}", "Call optimizer.zero_grad() before loss.backward()."),),
        )


@dataclass(frozen=True, kw_only=True)
class TrainEvalMode(Rule):
    """P102: The model trains in evaluation mode, or is evaluated in training mode.

    What it sees: in training, whether the model as a whole was in eval mode, and with it all layers that mind the mode
      (dropout, batch normalisation). In evaluation, whether all such layers were in training mode, where a loss was
      computed. Models without such layers are not judged.
    Why it matters: without dropout and with the running averages of batch normalisation the model trains as another
      than the one that was meant; those averages are never updated. Evaluated in training mode, numbers depend on who
      shares the batch, and the averages learn from the validation data.
    What to do: model.train() at the start of each epoch, after the evaluation; model.eval() before it. In Keras
      self(x, training=True) in a train_step of your own, and a call() that takes `training`.
    When it is wrong: fine-tuning that keeps part of the model in eval mode on purpose is let pass, and so is a model
      that is mostly frozen. Dropout at evaluation on purpose (Monte Carlo dropout) is told as doubtful.
    Tried on: silent on 19 small healthy trainings, a GAN, a policy, Q-learning and batches of one among them (one seed
      each). A loop in eval mode fires at step 2, an evaluation in training mode at its third time.
    Source: the PyTorch notes on autograd mechanics, "Evaluation mode".
    """

    code: ClassVar[str] = "P102"
    name: ClassVar[str] = "train-eval-mode"
    severity: ClassVar[Severity] = Severity.COSTLY

    patience: int = parameter(3, "Judged steps in a row that must show the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        training = Schedule(every=20, steps=_FIRST, modes=_IN_TRAINING)
        names = (Fact.MODEL_IN_EVAL, Fact.LAYERS_IN_EVAL, Fact.FROZEN, Fact.PARAMETERS)
        return (
            Selection(kinds=frozenset({Kind.FACT}), include=tuple(f"{name.value}*" for name in names),
                      schedule=training),
            Selection(kinds=frozenset({Kind.FACT}), include=(f"{Fact.LAYERS_IN_TRAIN.value}*",),
                      schedule=Schedule(modes=frozenset({Mode.EVAL}))),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.mode is Mode.TRAIN:
            yield from self._in_training(view, memory)
        elif view.step.mode is Mode.EVAL:
            yield from self._in_evaluation(view)
        else:
            yield Unjudged("predictions may be made in any mode")

    def _in_training(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        frozen, parameters = fact_value(view, Fact.FROZEN), fact_value(view, Fact.PARAMETERS)
        if frozen is not None and parameters:
            memory["frozen"] = frozen / parameters
        model, layers = fact_value(view, Fact.MODEL_IN_EVAL), fact_value(view, Fact.LAYERS_IN_EVAL)
        if model is None or layers is None:
            yield Unjudged("no layers that mind the mode were looked at in a step of training")
            return
        if not model or layers < 1.0 or memory.get("frozen", 0.0) >= _MOSTLY:
            return
        description = "the whole model is in eval mode while it trains"
        yield Symptom(
            message=f"{sentence(description)}: dropout is off, and batch normalisation uses averages that it no "
            "longer updates.",
            remedy="Call model.train() before the training loop, and again after each evaluation; in Keras hand "
            "training=True to the model in train_step, and let its call() hand it on.",
            evidence=(
                Evidence(
                    fact(Fact.LAYERS_IN_EVAL),
                    view.step.number,
                    "layers_in_eval",
                    layers,
                    1.0,
                    f"{percent(layers)} of the layers that mind the mode",
                ),
            ),
            subject="eval in training",
            causes=(Suspicion(Cause.EVAL_MODE_IN_TRAINING, 0.9, description),),
        )

    def _in_evaluation(self, view: StepView) -> Iterable[Symptom | Unjudged]:
        layers = fact_value(view, Fact.LAYERS_IN_TRAIN)
        if layers is None or Kind.LOSS not in view.kinds:
            yield Unjudged("no evaluation with a loss was recorded whose layers mind the mode")
            return
        if layers < 1.0:
            return
        description = "all layers that mind the mode are in training mode during the evaluation"
        yield Symptom(
            message=f"{sentence(description)}: dropout is on, and batch normalisation learns from the "
                    "validation data.",
            remedy="Call model.eval() before the evaluation, and model.train() after it; with Keras, call the model "
                   "with training=False there.",
            evidence=(Evidence(fact(Fact.LAYERS_IN_TRAIN), view.step.number, "layers_in_train", layers, 1.0,
                               f"{percent(layers)} of the layers that mind the mode"),),
            subject="train in evaluation", severity=Severity.DOUBTFUL,
            causes=(Suspicion(Cause.TRAIN_MODE_IN_EVALUATION, 0.85, description),),
        )


_MOSTLY = 0.5
