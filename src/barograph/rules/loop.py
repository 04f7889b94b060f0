"""Rules about mistakes in the training loop itself."""

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
from barograph.rules.frameworks import either
from barograph.rules.words import percent, sentence
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_FIRST = frozenset(range(10))


@dataclass(frozen=True, kw_only=True)
class GradientsNotReset(Rule):
    """P101: Gradients are not reset between steps and accumulate.

    What it sees: whether anything reset the gradients (zero_grad, or setting them to None or zero) between an optimizer
      step and the last backward pass before the next one. If nothing did in `patience` consecutive recorded steps, each
      step uses the sum of all gradients so far.
    Why it matters: the updates grow and follow stale gradients. It looks like a learning rate that is too high, or
      momentum without decay, and often still learns a little.
    What to do: call optimizer.zero_grad() before loss.backward(), once per optimizer.step().
    When it is wrong: optimizers that reset or average gradients themselves. Accumulation over micro-batches is not
      reported: it resets after each step.
    Tested on: silent on 19 small healthy trainings, including a GAN, a policy gradient, Q-learning and batches of one
      (one seed each). A loop without zero_grad fires at step 3.
    Source: TrainCheck, OSDI 2025, on silent errors in training; the PyTorch reference of Optimizer.zero_grad.
    """

    code: ClassVar[str] = "P101"
    name: ClassVar[str] = "gradients-not-reset"
    severity: ClassVar[Severity] = Severity.COSTLY

    patience: int = parameter(3, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.FACT}), include=(f"{Fact.GRADIENTS_KEPT.value}*",),
                          schedule=Schedule(every=20, steps=_FIRST, modes=_IN_TRAINING)),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        kept = fact_value(view, Fact.GRADIENTS_KEPT)
        if kept is None or view.step.number == 0:
            yield Unjudged("no step after the first recorded whether gradients were reset")
            return
        if not kept:
            return
        whose = f'"{view.step.optimizer}".' if view.step.has_rivals else "optimizer."
        yield Symptom(
            message=f"Gradients were not reset before step {view.step.number}: they accumulate over steps.",
            remedy=f"Call {whose}zero_grad() before loss.backward(), once per step.",
            evidence=(Evidence(fact(Fact.GRADIENTS_KEPT), view.step.number, "gradients_kept", kept, 0.0,
                               "no reset since the previous step"),),
            causes=(Suspicion(Cause.GRADIENTS_NOT_RESET, 0.9,
                              f"nothing reset the gradients between steps {view.step.number - 1} and "
                              f"{view.step.number}", "Call optimizer.zero_grad() before loss.backward()."),),
        )


@dataclass(frozen=True, kw_only=True)
class TrainEvalMode(Rule):
    """P102: The model trains in evaluation mode, or is evaluated in training mode.

    What it sees: in training, whether the model and all layers that depend on the mode (dropout, batch normalization)
      were in eval mode. In an evaluation that computes a loss, whether all such layers were in training mode. Models
      without such layers are not checked.
    Why it matters: training without dropout and with frozen running averages trains a different model from the one you
      meant. In training mode, evaluation results depend on the other samples of the batch, and the running averages
      learn from the validation data.
    What to do: call model.train() at the start of each epoch, after the evaluation, and model.eval() before it. In
      Keras, call self(x, training=True) in a custom train_step, and let call() accept `training`.
    When it is wrong: dropout at evaluation on purpose (Monte Carlo dropout), reported as doubtful. Models that keep a
      part in eval mode or are mostly frozen, as in fine-tuning, are not reported.
    Tested on: silent on 19 small healthy trainings, including a GAN, a policy gradient, Q-learning and batches of one
      (one seed each). A loop in eval mode fires at step 2, evaluation in training mode at the third evaluation.
    Source: the PyTorch notes on autograd mechanics, "Evaluation mode".
    """

    code: ClassVar[str] = "P102"
    name: ClassVar[str] = "train-eval-mode"
    severity: ClassVar[Severity] = Severity.COSTLY

    patience: int = parameter(3, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

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
            yield Unjudged("no training step recorded the mode of dropout or normalization layers")
            return
        if not model or layers < 1.0 or memory.get("frozen", 0.0) >= _MOSTLY:
            return
        description = "the model is in eval mode during training"
        yield Symptom(
            message=f"{sentence(description)}: dropout is off, and batch normalization uses averages that it no "
            "longer updates.",
            remedy=either(
                torch="Call model.train() before the training loop and after each evaluation",
                keras="Call the model with training=True in train_step, and pass `training` on in call()",
            ) + ".",
            evidence=(
                Evidence(
                    fact(Fact.LAYERS_IN_EVAL),
                    view.step.number,
                    "layers_in_eval",
                    layers,
                    1.0,
                    f"{percent(layers)} of the dropout and normalization layers",
                ),
            ),
            subject="eval in training",
            causes=(Suspicion(Cause.EVAL_MODE_IN_TRAINING, 0.9, description),),
        )

    def _in_evaluation(self, view: StepView) -> Iterable[Symptom | Unjudged]:
        layers = fact_value(view, Fact.LAYERS_IN_TRAIN)
        if layers is None or Kind.LOSS not in view.kinds:
            yield Unjudged("no evaluation recorded a loss and the mode of dropout or normalization layers")
            return
        if layers < 1.0:
            return
        description = "dropout and normalization layers are in training mode during evaluation"
        yield Symptom(
            message=f"{sentence(description)}: dropout is on, and batch normalization learns from the "
                    "validation data.",
            remedy=either(torch="Call model.eval() before the evaluation and model.train() after it",
                          keras="Evaluate with model(inputs, training=False)") + ".",
            evidence=(Evidence(fact(Fact.LAYERS_IN_TRAIN), view.step.number, "layers_in_train", layers, 1.0,
                               f"{percent(layers)} of the dropout and normalization layers"),),
            subject="train in evaluation", severity=Severity.DOUBTFUL,
            causes=(Suspicion(Cause.TRAIN_MODE_IN_EVALUATION, 0.85, description),),
        )


_MOSTLY = 0.5
