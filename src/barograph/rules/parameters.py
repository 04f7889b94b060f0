"""The rule about parameters that the optimizer does not train."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact, fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind, layer_path
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.clues import fact_value, facts_about
from barograph.rules.frameworks import either
from barograph.rules.suspects import remember_facts
from barograph.rules.weights import is_norm_on_purpose, remember_norms
from barograph.rules.words import FREEZING, UNFREEZING, joined, names, sentence
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_NAMES = (Fact.PARAMETERS, Fact.FROZEN, Fact.UNTRAINED, Fact.OUTSIDE_OPTIMIZER, Fact.UNREGISTERED,
          Fact.WITHOUT_GRADIENT, Fact.UNREACHED, Fact.FOREIGN, Fact.OPTIMIZERS_MADE, Fact.MOMENTUM)


@dataclass(frozen=True, kw_only=True)
class ParametersAndOptimizer(Rule):
    """P108: The model's parameters and the optimizer do not match.

    What it sees: facts about the parameters at an optimizer step. Each problem is its own finding. *Outside*:
      parameters get a gradient and are in no optimizer. *Unregistered*: parameters get a gradient, but no model lists
      them, as with layers in a plain list, and nothing updates them. *Untrained*: frozen layers still have their
      initial values: uniform up to the bound of the initialization or, in Keras, zero biases. *Stale*: the optimizer
      holds parameters of no model that was called, while the model's own are outside, or while those it holds get no
      gradient. *Cut*: the graph of the loss does not reach parameters of the first layers that ran, or at least half of
      all trainable ones. *Made anew*: the optimizer was recreated at least `optimizers_made` times for the same
      parameters. *Unused*: modules that did not run, if `unused` is set.
    Why it matters: such parameters keep their initial values while training seems to work. A recreated optimizer loses
      its momentum.
    What to do: create the model in its final place and with its final layers, then one optimizer with
      model.parameters(), before the loop; remove .detach(), .data and no_grad between layers and loss.
    When it is wrong: fine-tuning of a few layers without freezing the others, reported as doubtful if they are half of
      the model. Layers that are random on purpose, as in a reservoir, are reported as doubtful. Other frozen
      parameters, unused heads and optimizers that alternate, as in a GAN, are not reported, nor are recreated
      optimizers without momentum.
    Tested on: silent on 19 small healthy trainings, including a GAN, a policy gradient, Q-learning and batches of one
      (one seed each). A layer in no optimizer and layers in a plain list fire at step 3, a graph cut after the first or
      the second layer at step 2, an optimizer per batch at step 6.
    Source: TrainCheck, OSDI 2025, on silent errors in training; the PyTorch reference of torch.optim.
    """

    code: ClassVar[str] = "P108"
    name: ClassVar[str] = "parameters-and-optimizer"
    severity: ClassVar[Severity] = Severity.COSTLY

    optimizers_made: int = parameter(5, "Optimizers for the same parameters that are too many.", at_least=2)
    unused: bool = parameter(False, "Whether to report parameters of modules that did not run.")
    patience: int = parameter(3, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (
            # Rules that compare layers use the heads.
            Selection(kinds=frozenset({Kind.FACT}), include=tuple(f"{name.value}*" for name in (*_NAMES, Fact.HEADS)),
                      schedule=Schedule(every=20, steps=frozenset(range(1, 10)), modes=_IN_TRAINING)),
            # The execution order of layers.
            Selection(kinds=frozenset({Kind.OUTPUT}),
                      schedule=Schedule(every=0, steps=frozenset({3}), modes=_IN_TRAINING)),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        _note_order(view, memory)
        remember_norms(view, memory)
        values = {name: value for name in _NAMES if (value := fact_value(view, name)) is not None}
        if facts_about(view, Fact.MOMENTUM):
            # Recorded when it changes, possibly alone.
            memory["momentum"] = max(facts_about(view, Fact.MOMENTUM).values())
        if view.step.mode is not Mode.TRAIN or not values.keys() - {Fact.MOMENTUM}:
            yield Unjudged("no optimizer step recorded facts about the parameters")
            return
        for name in (Fact.PARAMETERS, Fact.FROZEN):
            if name in values:
                memory[name.value] = values[name]
        remember_facts(view, memory, Fact.OUTSIDE_OPTIMIZER, Fact.FROZEN)
        learn = memory.get(Fact.PARAMETERS.value, 0.0) - memory.get(Fact.FROZEN.value, 0.0)
        stale = self._stale(view, values)
        yield from stale
        if not stale:
            yield from self._outside(view, values, memory)
            yield from self._unregistered(view, values, memory.get(Fact.PARAMETERS.value, 0.0))
            yield from self._untrained(view, values)
            yield from self._cut(view, values, memory, learn)
        yield from self._made_anew(view, values, memory)

    def _stale(self, view: StepView, values: dict[Fact, float]) -> list[Symptom]:
        foreign, outside = values.get(Fact.FOREIGN, 0.0), values.get(Fact.OUTSIDE_OPTIMIZER, 0.0)
        idle = values.get(Fact.WITHOUT_GRADIENT, 0.0)
        if not foreign or not (outside or idle >= foreign):
            return []
        named = sorted(facts_about(view, Fact.OUTSIDE_OPTIMIZER))
        which = f" ({names(named)})" if named else ""
        trained = _counted(outside, "parameter of the trained model is in no optimizer",
                           "parameters of the trained model are in no optimizer")
        description = (f"the optimizer holds {_counted(foreign, 'parameter', 'parameters')} of no model that was called"
                       + (f", and {trained}{which}" if outside
                          else f", which {'gets' if foreign == 1 else 'get'} no gradient"))
        return [Symptom(
            message=f"{sentence(description)}.",
            remedy="Create the optimizer after the last change to the model (model.to(device), a new head, a "
                   "loaded copy): optimizer = SGD(model.parameters(), …).",
            evidence=(Evidence(fact(Fact.FOREIGN), view.step.number, "foreign", foreign, 0.0, description),),
            subject="stale", severity=Severity.COSTLY if outside else Severity.DOUBTFUL,
            causes=(Suspicion(Cause.STALE_OPTIMIZER, 0.95 if outside else 0.7, description),),
        )]

    def _outside(self, view: StepView, values: dict[Fact, float], memory: Memory) -> Iterable[Symptom]:
        parameters = memory.get(Fact.PARAMETERS.value, 0.0)
        outside = values.get(Fact.OUTSIDE_OPTIMIZER, 0.0)
        if not outside:
            return
        named = sorted(facts_about(view, Fact.OUTSIDE_OPTIMIZER))
        which = f" ({names(named)})" if named else ""
        description = _counted(outside, "parameter gets a gradient that no optimizer uses",
                               "parameters get a gradient that no optimizer uses") + which
        half = outside >= parameters / 2 > 0
        if is_norm_on_purpose(memory["facts"], memory):
            yield _norms_outside(description, outside, view.step.number)
            return
        yield Symptom(
            message=f"{sentence(description)}: {'it never changes' if outside == 1 else 'they never change'}.",
            remedy="Pass them to the optimizer (SGD(model.parameters(), …), or add_param_group). To freeze them, "
                   "set requires_grad_(False), which also saves computing their gradients.",
            evidence=(Evidence(fact(Fact.OUTSIDE_OPTIMIZER), view.step.number, "outside_optimizer", outside, 0.0,
                               description),),
            subject="outside", severity=Severity.DOUBTFUL if half else Severity.COSTLY,
            causes=(Suspicion(Cause.PARAMETER_NOT_IN_OPTIMIZER, 0.7 if half else 0.9, description),),
        )

    def _unregistered(self, view: StepView, values: dict[Fact, float], parameters: float) -> Iterable[Symptom]:
        unregistered = values.get(Fact.UNREGISTERED, 0.0)
        if not unregistered:
            return
        shapes = sorted(map(str, facts_about(view, Fact.UNREGISTERED)))
        of_shape = f" of shape {joined([*shapes[:3], *(['others'] if len(shapes) > 3 else [])])}" if shapes else ""
        description = _counted(
            unregistered, f"parameter{of_shape} gets a gradient, but no model lists it and no optimizer uses it",
            f"parameters{of_shape} get a gradient, but no model lists them and no optimizer uses them")
        half = unregistered >= parameters
        yield Symptom(
            message=f"{description}: {'it never changes' if unregistered == 1 else 'they never change'}.",
            remedy="Register the layers in the model: nn.ModuleList([…]) instead of a list, nn.ModuleDict instead of a "
            "dict, nn.ParameterList for parameters; then create the optimizer with model.parameters(). To freeze "
            "them, set requires_grad_(False).",
            evidence=(
                Evidence(fact(Fact.UNREGISTERED), view.step.number, "unregistered", unregistered, 0.0, description),
            ),
            subject="unregistered",
            severity=Severity.DOUBTFUL if half else Severity.COSTLY,
            causes=(Suspicion(Cause.PARAMETER_NOT_IN_OPTIMIZER, 0.7 if half else 0.9, description),),
        )

    def _untrained(self, view: StepView, values: dict[Fact, float]) -> Iterable[Symptom]:
        untrained = values.get(Fact.UNTRAINED, 0.0)
        if not untrained:
            return
        named = sorted(facts_about(view, Fact.UNTRAINED))
        which = f" ({names(named)})" if named else ""
        description = _counted(untrained, f"frozen parameter{which} still has its initial values",
                               f"frozen parameters{which} still have their initial values")
        why = ("it was never trained and only passes random features on" if untrained == 1
               else "they were never trained and only pass random features on")
        yield Symptom(
            message=f"{sentence(description)}: {why}.",
            remedy=f"Unfreeze them ({UNFREEZING}) to train them. If they should be pretrained, check {_SKIPPED}.",
            evidence=(Evidence(fact(Fact.UNTRAINED), view.step.number, "untrained", untrained, 0.0, description),),
            subject="untrained",
            severity=Severity.DOUBTFUL,
            causes=(Suspicion(Cause.FROZEN_PARAMETER, 0.8, description),),
        )

    def _cut(
        self, view: StepView, values: dict[Fact, float], memory: Memory, learn: float
    ) -> Iterable[Symptom]:
        unreached = values.get(Fact.UNREACHED, values.get(Fact.WITHOUT_GRADIENT, 0.0))
        name = Fact.UNREACHED if Fact.UNREACHED in values else Fact.WITHOUT_GRADIENT
        if not unreached:
            return
        paths = sorted({layer_path(path) for path in facts_about(view, name)})
        ran: list[str] = memory.get("ran", [])
        which = f" ({names(paths)})" if paths else ""
        description = f"the graph of the loss does not reach {_counted(unreached, 'parameter', 'parameters')}{which}"
        # The first layer feeds all others; an unused head comes last.
        upstream = bool(ran) and ran[0] in paths
        half = unreached >= learn / 2 > 0 and (not ran or set(paths) <= set(ran))
        if upstream or half:
            # No layer is reached: more likely than a cut is that backward was never called.
            first = f"{_BACKWARD}. Otherwise remove" if unreached >= learn > 0 else "Remove"
            yield Symptom(
                message=f"{sentence(description)}"
                + (", although their modules ran." if upstream else "."),
                remedy=f"{first} {_CUTTING} between these layers and the loss. To freeze layers, use {FREEZING}.",
                evidence=(Evidence(fact(name), view.step.number, name.value, unreached, 0.0, description),),
                subject="cut",
                causes=(Suspicion(Cause.DETACHED_GRAPH, 0.9 if upstream else 0.6, description),),
            )
        elif self.unused and ran and paths and not set(paths) & set(ran):
            yield Symptom(
                message=f"{_counted(unreached, 'parameter belongs', 'parameters belong')} to modules that did not run "
                        f"({names(paths)}).",
                remedy="Call these modules in forward, or remove them from the model.",
                evidence=(Evidence(fact(name), view.step.number, name.value, unreached, 0.0, description),),
                subject="unused", severity=Severity.NOTE,
                causes=(Suspicion(Cause.UNUSED_PARAMETER, 0.8, "their modules did not run"),),
            )

    def _made_anew(self, view: StepView, values: dict[Fact, float], memory: Memory) -> Iterable[Symptom]:
        made = values.get(Fact.OPTIMIZERS_MADE, 1.0)
        if made < self.optimizers_made or memory.get("momentum") == 0:
            return
        often = made >= _OFTEN * view.step.number
        description = f"{int(made)} optimizers have stepped for the same parameters in {view.step.number + 1} steps"
        yield Symptom(
            message=f"The optimizer is recreated repeatedly: {description}.",
            remedy="Create the optimizer once, before the loop: each new one loses momentum and second moments.",
            evidence=(Evidence(fact(Fact.OPTIMIZERS_MADE), view.step.number, "optimizers_made", made,
                               float(self.optimizers_made), description),),
            subject="made anew", severity=Severity.COSTLY if often else Severity.DOUBTFUL,
            causes=(Suspicion(Cause.OPTIMIZER_STATE_LOST, 0.9 if often else 0.7, description),),
        )


def _counted(count: float, one: str, several: str) -> str:
    return f"{int(count)} {one if count == 1 else several}"


def _norms_outside(description: str, outside: float, step: int) -> Symptom:
    return Symptom(
        message=f"{sentence(description)}. All belong to normalization layers of an otherwise frozen body.",
        remedy="Set requires_grad_(False) on them: that saves their gradients. To train them, pass them to the "
        "optimizer.",
        evidence=(Evidence(fact(Fact.OUTSIDE_OPTIMIZER), step, "outside_optimizer", outside, 0.0, description),),
        subject="outside",
        severity=Severity.NOTE,
        causes=(Suspicion(Cause.PARAMETER_NOT_IN_OPTIMIZER, 0.3, description),),
    )


_OFTEN = 0.01
"""Optimizers per step: more than one in a hundred steps loses their state too often."""
_MOST_REMEMBERED = 200
_SKIPPED = either(torch="the missing_keys that load_state_dict(…, strict=False) returns",
                  keras="what load_weights skipped", jax="which parameters the checkpoint lacks")
_BACKWARD = either(torch="Call loss.backward() before optimizer.step()", keras="Compute the gradients of this loss",
                   jax="Differentiate this loss")
_CUTTING = either(torch=".detach(), .data, .item(), .numpy(), torch.no_grad() or torch.tensor(…)",
                  keras="stop_gradient or .numpy()", jax="stop_gradient")


_WITHOUT_PARAMETERS = (
    "ReLU", "LeakyReLU", "GELU", "SiLU", "ELU", "Tanh", "Sigmoid", "Softmax", "LogSoftmax", "Dropout", "Flatten",
    "Unflatten", "Identity", "MaxPool", "AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool", "Upsample", "ZeroPad",
)


def _note_order(view: StepView, memory: Memory) -> None:
    """Remember the execution order of layers with parameters, from the step that recorded most."""
    if Kind.OUTPUT not in view.kinds:
        return
    subjects = view.columns(Kind.OUTPUT, histograms=False).subjects
    if len(subjects) > memory.get("told", 0):
        memory["told"] = len(subjects)
        memory["ran"] = [subject.key.path for subject in subjects
                         if not subject.layer.startswith(_WITHOUT_PARAMETERS)][:_MOST_REMEMBERED]
