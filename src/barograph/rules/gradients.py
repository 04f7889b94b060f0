"""Rules about gradients that are finite and yet wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

import numpy as np

from barograph.measures.robust import SIGMA_PER_MAD
from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import GRADIENTS, LayerTable, Table, layers_of, learning_rate, stated_loss, table_of
from barograph.rules.depth import greatest_on_path, growth_backwards, heads_of, remember_order
from barograph.rules.recovery import is_gaining
from barograph.rules.scale import LARGE_INPUT, Between, between_layers, size_of_inputs
from barograph.rules.suspects import ranked, recurrent
from barograph.rules.words import CLIPPING, SCALE_INPUTS, joined, lower_rate, number, sentence
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_APART_STEPS = 10
"""Steps between two judgements: a deep network may need a few steps to come alive."""
_SOON_STEPS, _LOST_WHOLLY, _GROWS_OUT, _GAINS = 3, 1e-6, 10.0, 1.5


@dataclass(frozen=True, kw_only=True)
class VanishingGradient(Rule):
    """G101: The gradient is lost on its way back, and the first layers do not learn.

    What it sees: the gradients of each layer (all parameters of one module together), before clipping. A
      layer's gradient has vanished where its norm is less than `ratio` of that of the layer with the greatest,
      or where its mean magnitude is below `threshold` and its norm less than a hundredth of the greatest. Only layers
      on one path to a loss are compared: of an actor and a critic each by itself (PyTorch).
      Every tenth step is judged; every third where the least ratio is below 1e-6.
      Where the least ratio is half more than it was three judgements ago, it may recover by itself, as layers do that
      are begun at nearly zero on purpose (LayerScale): that step is not judged.
      Why it vanishes is told from what other rules have recorded of inputs and outputs, where they have.
    Why it matters: such a layer keeps its first random values, and those behind it can only work with what it
      happens to make of the input.
    What to do: scale the inputs, where they are large and drive sigmoid or tanh to where it is flat; replace sigmoid
      and tanh between layers by ReLU or GELU; put normalisation layers or residual
      paths in; initialise for the activation (He for ReLU, Xavier for tanh); make the network shallower.
    When it is wrong: a layer whose gradient is exactly zero is not judged here (frozen and unused parameters,
      units that are dead; see A101 and W104), nor one near the loss that is small beside those before it, where the
      gradient grows on its way back all along (see G103), nor are embeddings and normalisation layers, whose
      gradients are small by their make. With Adam a small gradient still moves its weight; look at W101 beside it.
    Tried on: silent on all 145 healthy trainings (see the list of rules): there the least ratio that lasts is 2e-2, and
      8e-4 in the first ten steps of ten layers without normalisation. Chains of 4, 6 and 8 sigmoids (ratios 6e-4,
      1e-5, 3e-7) and 20 ReLU layers at PyTorch's default initialisation fire at step 20 to 50; weights begun at 1e-3,
      which gain a little at first, by step 120.
    Source: Bengio, Simard & Frasconi, "Learning long-term dependencies with gradient descent is difficult",
      1994; Amazon SageMaker Debugger's VanishingGradient, which knows `threshold` alone.
    """

    code: ClassVar[str] = "G101"
    name: ClassVar[str] = "vanishing-gradient"
    severity: ClassVar[Severity] = Severity.COSTLY

    threshold: float = parameter(
        1e-7, "Mean magnitude (of the elements that are not zero) below which a gradient is small.", above=0.0,
    )
    ratio: float = parameter(
        1e-3, "Share of the greatest layer's gradient norm below which a layer's gradient has vanished.",
        above=0.0, below=1.0,
    )
    patience: int = parameter(3, "Judged steps in a row that must show the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.GRADIENT}), schedule=Schedule(every=10, modes=_IN_TRAINING)),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        between, inputs = _look_at_activations(view, memory)
        layers = layers_of(table_of(view, Kind.GRADIENT))
        remember_order(view, memory)
        if view.step.skipped or layers.carrying_count < 2:
            yield Unjudged("fewer than two layers with gradients were recorded")
            return
        if view.step.number < memory.get("next", 0):
            yield Unjudged(f"gradients are judged every {_APART_STEPS} steps")
            return
        judged = layers.carrying
        norms = np.where(judged, layers.l2, 0.0)
        greatest = greatest_on_path(norms, heads_of(layers, memory))
        share = norms / np.maximum(norms[greatest], np.finfo(float).tiny)
        least = float(share[judged].min())
        # So little is not of the first steps: a short training, or one whose first steps alone are recorded, ends else
        # before it is judged.
        memory["next"] = view.step.number + (_SOON_STEPS if least < _LOST_WHOLLY else _APART_STEPS)
        # So little swings by as much as the greatest does; what grows out of it does so by orders of magnitude.
        gains = is_gaining(least, memory, times=_GROWS_OUT if least < _LOST_WHOLLY else _GAINS)
        small = (share < self.ratio) | ((layers.mean_abs_nonzero < self.threshold) & (share < 0.01))
        rows = np.flatnonzero(small & judged & (np.arange(len(layers)) != greatest))
        if not len(rows):
            return
        growth = growth_backwards(layers, memory)
        if growth is None:
            yield Unjudged("the order of the layers was not recorded: a small gradient may be one near the loss")
            return
        if growth >= 1 / self.ratio:
            yield Unjudged("the gradient grows on its way back: that is for G103 to say")
            return
        if gains:
            # Noise gains now and then, so it is no proof of health: what was found stays found meanwhile.
            yield Unjudged("the gradient of a layer is far smaller than that of another, and grows")
            return
        worst = rows[np.argsort(share[rows], kind="stable")]
        yield Symptom(
            message=(
                f"The gradient vanishes in {len(rows)} of {int(judged.sum())} layers: at {layers.named(int(worst[0]))} "
                f"its norm is {number(float(norms[worst[0]]))}, {number(float(share[worst[0]]))} of that at "
                f"{layers.named(greatest[worst[0]])}."
            ),
            remedy=_against_vanishing(view, layers, between, inputs),
            causes=_why_vanishing(view, float(share[worst[0]]), between, inputs),
            evidence=tuple(
                Evidence(layers.keys[row], view.step.number, "l2_ratio", float(share[row]), self.ratio,
                         f"norm {number(float(norms[row]))}, mean magnitude "
                         f"{number(float(layers.mean_abs_nonzero[row]))}")
                for row in worst[:3]
            ),
        )


def _look_at_activations(view: StepView, memory: Memory) -> tuple[Between, float]:
    """Return what squashes between the layers, and how large the inputs are that drive it to where it is flat, else 0;
    both may have been seen in an earlier step alone."""
    found, size = between_layers(view), size_of_inputs(view)
    if found.made_of:
        memory["between"] = list(found)
    if size is not None:
        memory["inputs"] = size
    between, inputs = Between(*memory.get("between", ({}, False))), memory.get("inputs", 0.0)
    return between, inputs if between.flat and inputs > LARGE_INPUT else 0.0


def _why_vanishing(view: StepView, share: float, between: Between, inputs: float) -> tuple[Suspicion, ...]:
    """Return why: what squashes between the layers, or what drives it there; weights too small, or depth alone."""
    squashing = between.made_of
    small = small_weights(view)
    why = f"one layer's gradient is {number(share)} of another's"
    made_of = joined([f"{count} {name}" for name, count in squashing.items()])
    return ranked(
        Suspicion(Cause.VANISHING_GRADIENT, 0.7 if squashing and not inputs else 0.5,
                  f"{why}, with {made_of} between the layers" if squashing else why),
        Suspicion(Cause.INPUT_NOT_NORMALIZED, 0.7, f"{why}, with {made_of} between the layers, and the inputs of the "
                  f"model are {number(inputs)} in size", SCALE_INPUTS) if inputs else None,
        Suspicion(Cause.INITIALIZATION_SCALE, 0.7 if small else 0.2,
                  f"{why}; the weights of {small} are far too small for their width" if small else why,
                  "Initialise with kaiming_normal_ (ReLU) or xavier_uniform_ (tanh)."),
    )


def small_weights(view: StepView) -> str:
    """Return the path of the layer whose weights are smallest beside what kaiming_normal_ makes, if they are far below.

    The square of a weight is then 2 / inputs on average, and so is that of the weights of a square layer of this size.
    """
    weights = table_of(view, Kind.WEIGHT)
    count = weights.column("count")
    usual = 1.0 / np.sqrt(np.maximum(count, 1.0))
    squares = weights.column("sum_sq")
    # What is exactly zero was begun so on purpose.
    mean_square = np.where((count > _FEW_WEIGHTS) & (squares > 0), squares / np.maximum(count, 1.0), np.inf)
    share = mean_square / usual
    if not len(share) or share.min() > _FAR_BELOW:
        return ""
    return f'"{weights.paths[int(share.argmin())]}"'


_FEW_WEIGHTS, _FAR_BELOW = 256, 1e-3


def _against_vanishing(view: StepView, layers: LayerTable, between: Between, inputs: float) -> str:
    classes = Counter(subject.layer for subject in view.columns(Kind.OUTPUT, histograms=False).subjects)
    if between.made_of:
        found = " and ".join(f"{count} {name}" for name, count in between.made_of.items())
        if inputs:
            return (f"{SCALE_INPUTS} They are {number(inputs)} in size, and the first of {found} lets next to nothing "
                    "through.")
        return (f"The model has {found} between its layers, each of which shrinks the gradient: use ReLU or GELU "
                "there, or put a normalisation layer before each.")
    normed = any("Norm" in item for item in (*classes, *layers.classes))
    return ("Initialise the weights for their activation (kaiming_normal_ for ReLU), " +
            ("and put residual paths around blocks of layers that have none." if normed else
             "put a normalisation layer (BatchNorm, LayerNorm) after each layer, or residual paths around blocks."))


@dataclass(frozen=True, kw_only=True)
class GradientNormSpike(Rule):
    """G102: The gradient is suddenly far above its own level.

    What it sees: the norm of all gradients together, before clipping, beside its level over the last `window`
      recorded steps. A spike is `factor` times that level, `z` robust spreads above it (median and median
      absolute deviation of the logarithm), and three times above the highest level since the first window: a
      jump within what training has been through is no spike. Where the loss of the step was recorded, it must be
      three spreads above its level, too: a gradient that grows while the loss falls is a model leaving a plateau.
    Why it matters: one such step can undo hours of training, and a growing series of them ends in NaN.
    What to do: look at the batch of that step; clip gradients just above their usual norm; lower the learning
      rate or lengthen the warm-up.
    When it is wrong: a new phase on purpose (another data set, layers unfrozen, a loss re-weighted). Training
      that clips survives most spikes; they still point at odd batches.
    Tried on: silent on all 145 healthy trainings, in whose steps the norm reaches 32 times its level as deep networks
      leave a plateau, and 14 times in converged ones. One batch scaled 50 or 200 times fires in that step, a learning
      rate raised 80 times in the next.
    Source: Pascanu, Mikolov & Bengio, "On the difficulty of training recurrent neural networks", 2013; Rousseeuw
      & Croux, "Alternatives to the median absolute deviation", 1993.
    """

    code: ClassVar[str] = "G102"
    name: ClassVar[str] = "gradient-norm-spike"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    factor: float = parameter(10.0, "How many times above its level the norm must be.", above=1.0)
    z: float = parameter(6.0, "How many robust spreads above its level the norm must be.", above=0.0)
    window: int = parameter(50, "Recorded steps the level is taken over; judging begins after 20.", at_least=20)
    recovery: int = parameter(20, "Judged steps in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # Whether gradients are clipped must be known of each step that is judged.
        return (Selection(kinds=GRADIENTS, schedule=Schedule(modes=_IN_TRAINING)),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        table = table_of(view, Kind.GRADIENT)
        norm = table.norm
        if view.step.skipped or not norm or not table.is_whole:
            yield Unjudged("no gradient was recorded that is finite and not zero")
            return
        history: list[float] = memory.setdefault("log_norms", [])
        past = list(history)
        seen, unseen = len(history), view.step.number - memory.get("last", view.step.number)
        memory["last"] = view.step.number
        self._remember(math.log(norm), history, memory)
        past_losses = self._take_in_loss(view, memory.setdefault("losses", []))
        if seen < _LEAST_HISTORY:
            yield Unjudged(f"{seen + 1} gradients so far; it compares with {_LEAST_HISTORY}")
            return
        if unseen > _LONGEST_GAP:
            yield Unjudged(f"{unseen - 1} steps before it were not recorded; what is sudden cannot be told")
            return
        highest = math.exp(memory.get("highest", -math.inf))
        # In nearly every step this tells, and levels need not be known.
        if norm < self.factor * math.exp(min(past)) or norm < _ABOVE_HIGHEST * highest:
            return
        level, z = _level_and_z(math.log(norm), past, _LEAST_SPREAD)
        usual = math.exp(level)
        if norm < self.factor * usual or z < self.z or not _loss_is_high(view, past_losses):
            return
        rows = np.argsort(-table.l2, kind="stable")[:3]
        yield Symptom(
            message=f"The gradient norm is {number(norm)}, {number(norm / usual)} times its level of {number(usual)}.",
            remedy=_against_spike(view, usual), causes=_why_spike(view, table, norm / usual),
            evidence=(
                Evidence(None, view.step.number, "gradient_norm", norm, self.factor * usual,
                         f"{number(z)} spreads above the level of the last {seen} recorded steps"),
                *(Evidence(table.subjects[row].key, view.step.number, "l2", float(table.l2[row]), math.nan,
                           f"norm {number(float(table.l2[row]))}") for row in rows),
            ),
        )

    def _take_in_loss(self, view: StepView, history: list[float]) -> list[float]:
        """Take the loss in; return those before it."""
        past = list(history)
        found = stated_loss(view)
        if found is not None and math.isfinite(found[1]):
            history.append(found[1])
            del history[: -self.window]
        return past

    def _remember(self, log_norm: float, history: list[float], memory: Memory) -> None:
        history.append(log_norm)
        del history[: -self.window]
        memory["count"] = memory.get("count", 0) + 1
        if memory["count"] >= 2 * self.window and memory["count"] % self.window == 0:
            # Not of the first window: at the start gradients are large as a matter of course.
            memory["highest"] = max(median(history), memory.get("highest", -math.inf))


_LEAST_HISTORY = 20
_OUT_OF_ALL_REASON = 1e3
"""A training that diverges grows from step to step; a jump this high comes with a batch."""
_LONGEST_GAP = 100
_ABOVE_HIGHEST = 3.0
_LOSS_SPREADS = 3.0
_LEAST_SPREAD = 0.1
"""Least spread of the logarithm that is believed: 10 % from step to step is nothing."""


def _loss_is_high(view: StepView, past: list[float]) -> bool:
    """Return whether the loss is above the level of those before it, or not known."""
    found = stated_loss(view)
    if found is None or not math.isfinite(found[1]):
        return True
    level, z = _level_and_z(found[1], past, 0.01 * abs(found[1]))
    return math.isnan(level) or z >= _LOSS_SPREADS


def _level_and_z(value: float, history: list[float], least_spread: float) -> tuple[float, float]:
    if not history:
        return math.nan, math.nan
    level = median(history)
    spread = max(SIGMA_PER_MAD * median(abs(item - level) for item in history), least_spread)
    return level, (value - level) / spread


def _why_spike(view: StepView, gradients: Table, times: float) -> tuple[Suspicion, ...]:
    why = f"the gradient norm is {number(times)} times its level"
    batch = table_of(view, Kind.BATCH)
    largest = float(batch.max_abs.max()) if len(batch) and (batch.finite > 0).all() else math.nan
    clipped = len(table_of(view, Kind.GRADIENT_CLIPPED)) > 0
    slower = f"{sentence(lower_rate(learning_rate(view), 3))}."
    return ranked(
        Suspicion(Cause.BAD_SAMPLE, 0.7 if times > _OUT_OF_ALL_REASON else 0.3, why if math.isnan(largest) else
                  f"{why}; the greatest value of its batch is {number(largest)}",
                  f"Look at the batch of step {view.step.number}."),
        Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.1 if times > _OUT_OF_ALL_REASON else 0.3, why, slower),
        None if clipped else Suspicion(
            Cause.NO_GRADIENT_CLIPPING, 0.4 if recurrent(gradients.layers.classes) else 0.2,
            f"{why}, and nothing clips it",
            f"Clip gradients to a norm of 1 ({CLIPPING})."),
    )


def _against_spike(view: StepView, usual: float) -> str:
    clipped = table_of(view, Kind.GRADIENT_CLIPPED)
    batch = f"Look at the batch of step {view.step.number}"
    if len(clipped):
        norm = clipped.norm
        return f"{batch}. Clipping brought this gradient down to a norm of {number(norm)}, so the step did little harm."
    slower = sentence(lower_rate(learning_rate(view), 3))
    return (f"{batch}, and clip gradients to a norm of {number(2 * usual)} ({CLIPPING}). "
            f"{slower} if spikes come back.")
