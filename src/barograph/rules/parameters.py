"""The rule about parameters and the optimizer that should move them."""

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
from barograph.rules.suspects import remember_facts
from barograph.rules.weights import is_norm_on_purpose, remember_norms
from barograph.rules.words import names, sentence
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_NAMES = (Fact.PARAMETERS, Fact.FROZEN, Fact.UNTRAINED, Fact.OUTSIDE_OPTIMIZER, Fact.UNREGISTERED,
          Fact.WITHOUT_GRADIENT, Fact.UNREACHED, Fact.FOREIGN, Fact.OPTIMIZERS_MADE, Fact.MOMENTUM)


@dataclass(frozen=True, kw_only=True)
class ParametersAndOptimizer(Rule):
    """P108: The model's parameters and the optimizer do not fit each other.

    What it sees: facts about the parameters at a step of the optimizer. Each is a finding of its own. *Outside*:
      parameters get a gradient and are in no optimizer. *Unregistered*: so do parameters that no model has among its
      own, as those of layers in a plain list, and nothing changes them. *Untrained*: frozen layers are as an
      initialisation makes them: drawn evenly up to its bound, or, of Keras, with biases of zero. *Stale*: the optimizer
      holds parameters of no model that was called, while the model's own are outside, or while those it holds get no
      gradient. *Cut*: the graph of the loss does not reach parameters of the first layers that ran, or at least half
      of all that should learn. *Made anew*: the optimizer has been made again at least `optimizers_made` times for the
      same parameters. *Unused*: modules that did not run, where `unused` asks for it.
    Why it matters: such a parameter keeps its first values while everything looks as if it trained; an optimizer
      that is made anew forgets its momentum.
    What to do: make the model in its final place and with its final layers first, then one optimizer of
      model.parameters(), before the loop; take .detach(), .data and no_grad out of what lies between.
    When it is wrong: fine-tuning of a few layers that leaves the others to ask for gradients, which is told as doubtful
      where it is half of the model. Layers that are random on purpose, as in a reservoir, are told as doubtful.
      Other frozen parameters, unused heads and optimizers that take turns, as in a GAN, are let pass; so are
      optimizers without momentum that are made anew.
    Tried on: silent on 19 small healthy trainings, a GAN, a policy, Q-learning and batches of one among them (one seed
      each). A layer in no optimizer and layers in a plain list fire at step 3, a graph cut behind the first or the
      second layer at step 2, an optimizer for each batch at step 6.
    Source: TrainCheck, OSDI 2025, on silent errors in training; the PyTorch reference of torch.optim.
    """

    code: ClassVar[str] = "P108"
    name: ClassVar[str] = "parameters-and-optimizer"
    severity: ClassVar[Severity] = Severity.COSTLY

    optimizers_made: int = parameter(5, "Optimizers made for the same parameters that are a fault.", at_least=2)
    unused: bool = parameter(False, "Whether parameters of modules that did not run are told.")
    patience: int = parameter(3, "Judged steps in a row that must show the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (
            # The heads are for rules that compare layers.
            Selection(kinds=frozenset({Kind.FACT}), include=tuple(f"{name.value}*" for name in (*_NAMES, Fact.HEADS)),
                      schedule=Schedule(every=20, steps=frozenset(range(1, 10)), modes=_IN_TRAINING)),
            # In which order layers ran.
            Selection(kinds=frozenset({Kind.OUTPUT}),
                      schedule=Schedule(every=0, steps=frozenset({3}), modes=_IN_TRAINING)),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        _note_order(view, memory)
        remember_norms(view, memory)
        values = {name: value for name in _NAMES if (value := fact_value(view, name)) is not None}
        if facts_about(view, Fact.MOMENTUM):
            # Told where it changes, perhaps by itself.
            memory["momentum"] = max(facts_about(view, Fact.MOMENTUM).values())
        if view.step.mode is not Mode.TRAIN or not values.keys() - {Fact.MOMENTUM}:
            yield Unjudged("nothing was recorded of the parameters at a step of the optimizer")
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
        description = (f"the optimizer holds {int(foreign)} parameters of no model that was called"
                + (f", and {int(outside)} of the model that trains are in no optimizer{which}" if outside
                   else ", and they get no gradient"))
        return [Symptom(
            message=f"{sentence(description)}.",
            remedy="Make the optimizer after the model has its final layers and place (model.to(device), a new head, a "
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
        description = f"{int(outside)} parameters get a gradient and are in no optimizer{which}"
        half = outside >= parameters / 2 > 0
        if is_norm_on_purpose(memory["facts"], memory):
            yield _norms_outside(description, outside, view.step.number)
            return
        yield Symptom(
            message=f"{sentence(description)}: they never change.",
            remedy="Hand them to the optimizer (SGD(model.parameters(), …), or add_param_group); or, if they are to "
                   "stay as they are, set requires_grad_(False), which saves their gradients.",
            evidence=(Evidence(fact(Fact.OUTSIDE_OPTIMIZER), view.step.number, "outside_optimizer", outside, 0.0,
                               description),),
            subject="outside", severity=Severity.DOUBTFUL if half else Severity.COSTLY,
            causes=(Suspicion(Cause.PARAMETER_NOT_IN_OPTIMIZER, 0.7 if half else 0.9, description),),
        )

    def _unregistered(self, view: StepView, values: dict[Fact, float], parameters: float) -> Iterable[Symptom]:
        unregistered = values.get(Fact.UNREGISTERED, 0.0)
        if not unregistered:
            return
        shapes = [f"{shape} ({count:.0f})" for shape, count in sorted(facts_about(view, Fact.UNREGISTERED).items())]
        description = (
            f"{int(unregistered)} parameters get a gradient, and are in no optimizer and among those of no model"
            + (f", of shape {names(shapes)}" if shapes else "")
        )
        half = unregistered >= parameters
        yield Symptom(
            message=f"{description}: they never change.",
            remedy="Have the model know its layers: nn.ModuleList([…]) in place of a list, nn.ModuleDict in place of a "
            "dict, nn.ParameterList for parameters; then make the optimizer of model.parameters(). Where they "
            "are to stay as they are, set requires_grad_(False).",
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
        description = f"what is frozen is, in {int(untrained)} places{which}, as an initialisation makes it"
        yield Symptom(
            message=f"{sentence(description)}: it was never trained, hands on random features, and learns nothing.",
            remedy="Freeze what has been trained. If this is to learn, leave it trainable (requires_grad; trainable = "
            "True before compile); if trained weights were to be loaded, look at the missing_keys that "
            "load_state_dict(…, strict=False) returns, or at what load_weights passed over.",
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
        description = f"the graph of the loss does not reach {int(unreached)} parameters{which}"
        # What ran first feeds all that comes after; a head that is not used stands at the end.
        upstream = bool(ran) and ran[0] in paths
        half = unreached >= learn / 2 > 0 and (not ran or set(paths) <= set(ran))
        if upstream or half:
            yield Symptom(
                message=f"{sentence(description)}"
                + (", although their modules ran." if upstream else "."),
                remedy="Take .detach(), .data, .item(), .numpy(), torch.no_grad() and torch.tensor(…), or "
                "stop_gradient, out of what lies between these layers and the loss; freeze on purpose with "
                "requires_grad_(False), or a mask of Optax.",
                evidence=(Evidence(fact(name), view.step.number, name.value, unreached, 0.0, description),),
                subject="cut",
                causes=(Suspicion(Cause.DETACHED_GRAPH, 0.9 if upstream else 0.6, description),),
            )
        elif self.unused and ran and paths and not set(paths) & set(ran):
            yield Symptom(
                message=f"{int(unreached)} parameters are of modules that did not run ({names(paths)}).",
                remedy="Call these modules in forward, or take them out of the model.",
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
            message=f"The optimizer is made anew again and again: {description}.",
            remedy="Make the optimizer once, before the loop: each new one forgets momentum and second moments.",
            evidence=(Evidence(fact(Fact.OPTIMIZERS_MADE), view.step.number, "optimizers_made", made,
                               float(self.optimizers_made), description),),
            subject="made anew", severity=Severity.COSTLY if often else Severity.DOUBTFUL,
            causes=(Suspicion(Cause.OPTIMIZER_STATE_LOST, 0.9 if often else 0.7, description),),
        )


def _norms_outside(description: str, outside: float, step: int) -> Symptom:
    return Symptom(
        message=f"{sentence(description)}. All belong to normalization layers of a body that is frozen otherwise.",
        remedy="Set requires_grad_(False) on them: that saves their gradients. To train them, pass them to the "
        "optimizer.",
        evidence=(Evidence(fact(Fact.OUTSIDE_OPTIMIZER), step, "outside_optimizer", outside, 0.0, description),),
        subject="outside",
        severity=Severity.NOTE,
        causes=(Suspicion(Cause.PARAMETER_NOT_IN_OPTIMIZER, 0.3, description),),
    )


_OFTEN = 0.01
"""Optimizers for each step: more than one in a hundred steps costs what they had learnt."""
_MOST_REMEMBERED = 200


_WITHOUT_PARAMETERS = (
    "ReLU", "LeakyReLU", "GELU", "SiLU", "ELU", "Tanh", "Sigmoid", "Softmax", "LogSoftmax", "Dropout", "Flatten",
    "Unflatten", "Identity", "MaxPool", "AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool", "Upsample", "ZeroPad",
)


def _note_order(view: StepView, memory: Memory) -> None:
    """Remember the layers that have parameters in the order in which they ran, of the step that told most."""
    if Kind.OUTPUT not in view.kinds:
        return
    subjects = view.columns(Kind.OUTPUT, histograms=False).subjects
    if len(subjects) > memory.get("told", 0):
        memory["told"] = len(subjects)
        memory["ran"] = [subject.key.path for subject in subjects
                         if not subject.layer.startswith(_WITHOUT_PARAMETERS)][:_MOST_REMEMBERED]
