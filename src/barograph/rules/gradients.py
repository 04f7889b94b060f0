"""Rules about gradients that are finite but wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
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
from barograph.rules.words import BY_ACTIVATION, CLIPPING, HE, SCALE_INPUTS, joined, lower_rate, number, sentence
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_APART_STEPS = 10
"""Steps between two judgments: a deep network may need a few steps to start learning."""
_SOON_STEPS, _LOST_WHOLLY, _GROWS_OUT, _GAINS = 3, 1e-6, 10.0, 1.5


@dataclass(frozen=True, kw_only=True)
class VanishingGradient(Rule):
    """G101: The gradient vanishes on its way back, and the first layers do not learn.

    What it sees: the gradients of each layer (all parameters of one module together), before clipping. A layer's
      gradient has vanished if its norm is less than `ratio` of the largest layer's, or if its mean magnitude is below
      `threshold` and its norm less than a hundredth of the largest. Only layers on one path to a loss are compared:
      actor and critic are judged separately (PyTorch). Every tenth step is judged; every third if the least ratio is
      below 1e-6. If the least ratio has grown by half within three judgments, it may recover by itself, as do layers
      initialized near zero on purpose (LayerScale): that step is not judged. The cause comes from what other rules
      recorded of inputs and outputs, if any.
    Why it matters: such a layer keeps its initial random weights, and the layers after it have to work with its output.
    What to do: scale the inputs if they are so large that sigmoid or tanh saturates; replace sigmoid and tanh between
      layers by ReLU or GELU; add normalization layers or residual paths; initialize weights for the activation (He for
      ReLU, Xavier for tanh); make the network shallower.
    When it is wrong: a layer whose gradient is exactly zero is not judged here (frozen and unused parameters, dead
      units; see A101 and W104), nor one near the loss that is small relative to those before it because the gradient
      grows on its way back (see G103), nor embeddings and normalization layers, whose gradients are small by nature.
      With Adam a small gradient still moves its weight; see also W101.
    Tested on: no finding on all 145 healthy trainings (see the list of rules): their lasting least ratio is 2e-2, and
      8e-4 in the first ten steps of ten layers without normalization. Chains of 4, 6 and 8 sigmoids (ratios 6e-4, 1e-5,
      3e-7) and 20 ReLU layers with PyTorch's default initialization are found at steps 20 to 50; weights initialized at
      1e-3, which grow a little at first, by step 120.
    Source: Bengio, Simard & Frasconi, "Learning long-term dependencies with gradient descent is difficult", 1994;
      Amazon SageMaker Debugger's VanishingGradient, which has `threshold` only.
    """

    code: ClassVar[str] = "G101"
    name: ClassVar[str] = "vanishing-gradient"
    severity: ClassVar[Severity] = Severity.COSTLY

    threshold: float = parameter(
        1e-7, "Mean magnitude of the nonzero elements below which a gradient is small.", above=0.0,
    )
    ratio: float = parameter(
        1e-3, "Share of the largest gradient norm of any layer below which a layer's gradient has vanished.",
        above=0.0, below=1.0,
    )
    patience: int = parameter(3, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

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
        # So small a share is no effect of the first steps. Judge it sooner, or a short training would end before.
        memory["next"] = view.step.number + (_SOON_STEPS if least < _LOST_WHOLLY else _APART_STEPS)
        # So small a share swings as much as the largest norm does; real growth is by orders of magnitude.
        gains = is_gaining(least, memory, times=_GROWS_OUT if least < _LOST_WHOLLY else _GAINS)
        small = (share < self.ratio) | ((layers.mean_abs_nonzero < self.threshold) & (share < 0.01))
        rows = np.flatnonzero(small & judged & (np.arange(len(layers)) != greatest))
        if not len(rows):
            return
        growth = growth_backwards(layers, memory)
        if growth is None:
            yield Unjudged("the order of the layers is unknown: the small gradient may be near the loss")
            return
        if growth >= 1 / self.ratio:
            yield Unjudged("the gradient grows on its way back: see G103")
            return
        if gains:
            # Noise grows now and then, so this is no proof of health: an open finding stays open.
            yield Unjudged("the gradient of a layer is far smaller than that of another, but growing")
            return
        worst = rows[np.argsort(share[rows], kind="stable")]
        yield Symptom(
            message=(
                f"The gradient vanishes in {len(rows)} of {int(judged.sum())} layers: its norm at "
                f"{layers.named(int(worst[0]))} is {number(float(norms[worst[0]]))}, "
                f"{number(float(share[worst[0]]))} of that at {layers.named(greatest[worst[0]])}."
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
    """Return the saturating activations between layers, and the RMS of the inputs if it saturates them, else 0.

    Both may come from an earlier step."""
    found, size = between_layers(view), size_of_inputs(view)
    if found.made_of:
        memory["between"] = list(found)
    if size is not None:
        memory["inputs"] = size
    between, inputs = Between(*memory.get("between", ({}, False))), memory.get("inputs", 0.0)
    return between, inputs if between.flat and inputs > LARGE_INPUT else 0.0


def _why_vanishing(view: StepView, share: float, between: Between, inputs: float) -> tuple[Suspicion, ...]:
    """Return the causes: saturating activations, inputs that saturate them, weights too small, or depth alone."""
    squashing = between.made_of
    small = small_weights(view)
    why = f"the gradient of one layer is {number(share)} of another's"
    made_of = _layers_in_words(squashing)
    return ranked(
        Suspicion(Cause.VANISHING_GRADIENT, 0.7 if squashing and not inputs else 0.5,
                  f"{why}, with {made_of}" if squashing else why),
        Suspicion(Cause.INPUT_NOT_NORMALIZED, 0.7, f"{why}, with {made_of}, and the model's inputs "
                  f"have an RMS of {number(inputs)}", SCALE_INPUTS) if inputs else None,
        Suspicion(Cause.INITIALIZATION_SCALE, 0.7 if small else 0.2,
                  f"{why}; the weights of {small} are far too small for their width" if small else why,
                  f"Initialize the weights for their activation ({BY_ACTIVATION})."),
    )


def small_weights(view: StepView) -> str:
    """Return the layer whose weights are smallest relative to kaiming_normal_, quoted; "" if none are far below it.

    kaiming_normal_ gives a mean square of 2 / inputs; inputs are estimated as those of a square layer of this size.
    """
    weights = table_of(view, Kind.WEIGHT)
    count = weights.column("count")
    usual = 1.0 / np.sqrt(np.maximum(count, 1.0))
    squares = weights.column("sum_sq")
    # Weights that are exactly zero were initialized so on purpose.
    mean_square = np.where((count > _FEW_WEIGHTS) & (squares > 0), squares / np.maximum(count, 1.0), np.inf)
    share = mean_square / usual
    if not len(share) or share.min() > _FAR_BELOW:
        return ""
    return f'"{weights.paths[int(share.argmin())]}"'


_FEW_WEIGHTS, _FAR_BELOW = 256, 1e-3


def _against_vanishing(view: StepView, layers: LayerTable, between: Between, inputs: float) -> str:
    classes = Counter(subject.layer for subject in view.columns(Kind.OUTPUT, histograms=False).subjects)
    if between.made_of:
        found = _layers_in_words(between.made_of)
        if inputs:
            alone = sum(between.made_of.values()) == 1
            which = f"the {next(iter(between.made_of))} layer" if alone else f"the first of {found}"
            return f"{SCALE_INPUTS} Their RMS is {number(inputs)}, and {which} passes almost no gradient."
        return (f"Replace {found} by ReLU or GELU, or add a normalization layer before each: each "
                "of them shrinks the gradient.")
    normed = any("Norm" in item for item in (*classes, *layers.classes))
    return (f"Initialize the weights for their activation ({HE} for ReLU), " +
            ("and add residual paths around blocks of layers that have none." if normed else
             "and add a normalization layer (BatchNorm, LayerNorm) after each layer, or residual paths around blocks."))


def _layers_in_words(made_of: Mapping[str, int]) -> str:
    return joined([f"{count} {name} layer{'s' if count > 1 else ''}" for name, count in made_of.items()])


@dataclass(frozen=True, kw_only=True)
class GradientNormSpike(Rule):
    """G102: The gradient norm has a spike far above its usual level.

    What it sees: the norm of all gradients together, before clipping, relative to its level over the last `window`
      recorded steps. A spike is `factor` times that level, `z` robust spreads above it (median and median absolute
      deviation of the logarithm), and three times above the highest level since the first window: a jump within the
      range that training has already seen is no spike. If the loss of the step was recorded, it must be three spreads
      above its level too: a gradient that grows while the loss falls is a model leaving a plateau.
    Why it matters: one such step can undo hours of training, and a growing series of them ends in NaN.
    What to do: look at the batch of that step; clip gradients just above their usual norm; lower the learning rate or
      lengthen the warmup.
    When it is wrong: a new phase on purpose (another data set, unfrozen layers, a reweighted loss). Training with
      clipping survives most spikes; they still point at odd batches.
    Tested on: no finding on all 145 healthy trainings, in which the norm reaches 32 times its level as deep networks
      leave a plateau, and 14 times in converged ones. One batch scaled 50 or 200 times is found at that step, a
      learning rate raised 80 times at the next.
    Source: Pascanu, Mikolov & Bengio, "On the difficulty of training recurrent neural networks", 2013; Rousseeuw
      & Croux, "Alternatives to the median absolute deviation", 1993.
    """

    code: ClassVar[str] = "G102"
    name: ClassVar[str] = "gradient-norm-spike"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    factor: float = parameter(10.0, "Multiple of its level that the norm must exceed.", above=1.0)
    z: float = parameter(6.0, "Robust spreads above its level that the norm must exceed.", above=0.0)
    window: int = parameter(50, "Recorded steps for the level; judging starts after 20.", at_least=20)
    recovery: int = parameter(20, "Consecutive evaluated steps without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # Each judged step must show whether gradients are clipped.
        return (Selection(kinds=GRADIENTS, schedule=Schedule(modes=_IN_TRAINING)),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        table = table_of(view, Kind.GRADIENT)
        norm = table.norm
        if view.step.skipped or not norm or not table.is_whole:
            yield Unjudged("no finite, nonzero gradient was recorded")
            return
        history: list[float] = memory.setdefault("log_norms", [])
        past = list(history)
        seen, unseen = len(history), view.step.number - memory.get("last", view.step.number)
        memory["last"] = view.step.number
        self._remember(math.log(norm), history, memory)
        past_losses = self._take_in_loss(view, memory.setdefault("losses", []))
        if seen < _LEAST_HISTORY:
            yield Unjudged(f"{seen + 1} gradients so far; needs {_LEAST_HISTORY}")
            return
        if unseen > _LONGEST_GAP:
            yield Unjudged(f"the {unseen - 1} steps before it were not recorded, so a sudden rise cannot be detected")
            return
        highest = math.exp(memory.get("highest", -math.inf))
        # This excludes nearly every step, so the level need not be computed.
        if norm < self.factor * math.exp(min(past)) or norm < _ABOVE_HIGHEST * highest:
            return
        level, z = _level_and_z(math.log(norm), past, _LEAST_SPREAD)
        usual = math.exp(level)
        if norm < self.factor * usual or z < self.z or not _loss_is_high(view, past_losses):
            return
        rows = np.argsort(-table.l2, kind="stable")[:3]
        yield Symptom(
            message=f"The gradient norm is {number(norm)}, {number(norm / usual)} times its usual level "
                    f"({number(usual)}).",
            remedy=_against_spike(view, usual), causes=_why_spike(view, table, norm / usual),
            evidence=(
                Evidence(None, view.step.number, "gradient_norm", norm, self.factor * usual,
                         f"{number(z)} spreads above the level of the last {seen} recorded steps"),
                *(Evidence(table.subjects[row].key, view.step.number, "l2", float(table.l2[row]), math.nan,
                           f"norm {number(float(table.l2[row]))}") for row in rows),
            ),
        )

    def _take_in_loss(self, view: StepView, history: list[float]) -> list[float]:
        """Record the loss; return the earlier ones."""
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
            # Not from the first window: initial gradients are always large.
            memory["highest"] = max(median(history), memory.get("highest", -math.inf))


_LEAST_HISTORY = 20
_OUT_OF_ALL_REASON = 1e3
"""A diverging gradient grows from step to step; a jump this high comes from a batch."""
_LONGEST_GAP = 100
_ABOVE_HIGHEST = 3.0
_LOSS_SPREADS = 3.0
_LEAST_SPREAD = 0.1
"""Least spread of the logarithm: 10% from step to step is noise."""


def _loss_is_high(view: StepView, past: list[float]) -> bool:
    """Return whether the loss is above the level of earlier ones, or unknown."""
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
    why = f"the gradient norm is {number(times)} times its usual level"
    batch = table_of(view, Kind.BATCH)
    largest = float(batch.max_abs.max()) if len(batch) and (batch.finite > 0).all() else math.nan
    clipped = len(table_of(view, Kind.GRADIENT_CLIPPED)) > 0
    slower = f"{sentence(lower_rate(learning_rate(view), 3))}."
    return ranked(
        Suspicion(Cause.BAD_SAMPLE, 0.7 if times > _OUT_OF_ALL_REASON else 0.3, why if math.isnan(largest) else
                  f"{why}; the largest value in the batch is {number(largest)}",
                  f"Look at the batch of step {view.step.number}."),
        Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.1 if times > _OUT_OF_ALL_REASON else 0.3, why, slower),
        None if clipped else Suspicion(
            Cause.NO_GRADIENT_CLIPPING, 0.4 if recurrent(gradients.layers.classes) else 0.2,
            f"{why}, and gradients are not clipped",
            f"Clip gradients to a norm of 1 ({CLIPPING})."),
    )


def _against_spike(view: StepView, usual: float) -> str:
    clipped = table_of(view, Kind.GRADIENT_CLIPPED)
    batch = f"Look at the batch of step {view.step.number}"
    if len(clipped):
        norm = clipped.norm
        return f"{batch}. Clipping reduced this gradient to a norm of {number(norm)}, so the step did little harm."
    slower = sentence(lower_rate(learning_rate(view), 3))
    return (f"{batch}, and clip gradients to a norm of {number(2 * usual)} ({CLIPPING}). "
            f"{slower} if spikes come back.")
