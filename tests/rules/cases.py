"""A sick and a well run for every rule that comes with Barograph, of the builders that the tests of each rule have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from barograph.model.facts import Fact
from barograph.model.key import Key, Kind
from barograph.model.records import UnitSummaries
from barograph.rules.across_runs import SimilarAcrossRuns
from barograph.rules.activations import DeadRelu, SaturatedActivation
from barograph.rules.again import NonDeterminism
from barograph.rules.attention import AttentionCollapse
from barograph.rules.base import Rule
from barograph.rules.batches import LeakyValidation, RepeatedBatch, UnshuffledData
from barograph.rules.boosting import RoundsPastBest, Shrinkage
from barograph.rules.chance import Plateau, Underfit, WrongChance
from barograph.rules.collapse import ActivationCollapse
from barograph.rules.confusion import Confusion
from barograph.rules.decay import WeightDecay
from barograph.rules.divergence import Divergence
from barograph.rules.exploding import ExplodingGradient
from barograph.rules.fed import NonFiniteInput
from barograph.rules.gradients import GradientNormSpike, VanishingGradient
from barograph.rules.imbalance import ClassImbalance
from barograph.rules.initialization import PoorWeightInitialization
from barograph.rules.inputs import NLPSequenceRatio, NotNormalizedInput, TargetInInput
from barograph.rules.label_range import LabelRange
from barograph.rules.layer_imbalance import LayerImbalance
from barograph.rules.learning_rates import LearningRate
from barograph.rules.loop import GradientsNotReset, TrainEvalMode
from barograph.rules.loss_scale import AmpScale
from barograph.rules.losses import LossNotDecreasing, Overfit
from barograph.rules.memory_growth import GPUMemoryIncrease, HostMemoryLeak
from barograph.rules.mismatch import LossMismatch
from barograph.rules.narrow import UnderflowOverflow
from barograph.rules.nonfinite_origin import NonFiniteOrigin
from barograph.rules.numbers import NonFinite
from barograph.rules.optimizer_state import OptimizerState
from barograph.rules.overtraining import Overtraining
from barograph.rules.parameters import ParametersAndOptimizer
from barograph.rules.replicas import ReplicasDiverge, SameDataOnAllWorkers
from barograph.rules.run_signs import MaxInitializationTime, RecordingDropped
from barograph.rules.spikes import LossSpike
from barograph.rules.step_time import Dataloader, OverallFrameworkMetrics, StepOutlier, Straggler
from barograph.rules.trees import FeatureImportanceOverweight, TreeDepth
from barograph.rules.updates import WeightUpdateRatio
from barograph.rules.utilization import (
    BatchSize,
    CPUBottleneck,
    IOBottleneck,
    LoadBalancing,
    LowGPUUtilization,
    OverallSystemUsage,
)
from barograph.rules.values import AllZero, TensorVariance
from barograph.rules.vitals import ScriptError, StalledTraining
from barograph.rules.weights import FrozenParameter, UnchangedTensor
from barograph.runs.reading.view import StepView
from judging import confusion, evaluated, facts, labels
from literals import step, tensors
from rules import (
    test_activations,
    test_again,
    test_attention,
    test_batches,
    test_boosting,
    test_chance,
    test_collapse,
    test_decay,
    test_divergence,
    test_exploding,
    test_fed,
    test_gradients,
    test_initialization,
    test_inputs,
    test_label_range,
    test_layer_imbalance,
    test_learning_rates,
    test_loop,
    test_loss_scale,
    test_losses,
    test_mismatch,
    test_narrow,
    test_numbers,
    test_optimizer_state,
    test_overtraining,
    test_parameters,
    test_replicas,
    test_spikes,
    test_step_time,
    test_updates,
    test_utilization,
    test_weights,
)
from rules.machine_views import GIB, gpus, samples, telling
from rules.test_memory_growth import process

Views = Iterable[StepView]


@dataclass(frozen=True)
class Case:
    """What one rule is tested with; runs are made when they are asked for.

    Attributes:
        rule: With parameters that let a short run show the fault.
        sick, well: Of a run that has it, and of a close cousin that has not.
    """

    rule: Rule
    sick: Callable[[], Views]
    well: Callable[[], Views]


TENS = range(0, 200, 10)
SMALL_WINDOW = test_utilization.SMALL
GROWTH_WINDOW = {"window": 10, "skip": 5}
BUSY = (gpus(96, 91), gpus(88, 99), gpus(93, 85))


def used(*figures: dict[str, float]) -> Callable[[], Views]:
    """Return some windows of a machine whose figures take turns."""
    return lambda: samples(60, lambda number: figures[number % len(figures)])


def growing(figures: Callable[[int], dict[str, float]]) -> Callable[[], Views]:
    return lambda: samples(85, figures)


def vital(*values: tuple[str, float]) -> Callable[[], Views]:
    return lambda: [StepView.of(number, {Key(Kind.VITAL, path): value}) for number, (path, value) in enumerate(values)]


def timed(count: int, **more: float) -> Callable[[], Views]:
    return lambda: test_step_time.all_facts(count, **more)


def longest(every: int) -> Callable[[], Views]:
    return lambda: [telling(number, {"p0": test_step_time.times(0.6, longest=2.6) if number % every == 0
                                     else test_step_time.times(0.1, longest=0.11)}) for number in range(260)]


def working(backward: float) -> Callable[[], Views]:
    quick, other = ({"step": 0.2, "backward": secs, "capture": 0.0} for secs in (0.15, backward))
    return lambda: [telling(number, {"r0": quick, "r1": quick, "r2": other}) for number in range(60)]


def held_out(losses: Iterable[float]) -> Callable[[], Views]:
    return lambda: test_boosting.boosted([*test_boosting.FALLS, *losses], test_boosting.NO_STOPPING)


def repeated(view: Callable[[int], StepView], numbers: Iterable[int] = TENS) -> Callable[[], Views]:
    return lambda: [view(number) for number in numbers]


def facts_at(values: dict[Fact, float]) -> Callable[[int], StepView]:
    return lambda number: StepView.of(number, facts(values))


def parted(number: int) -> StepView:
    records = {Key(Kind.LOSS, "total"): 2.0 - 0.1 * number}
    other = {Key(Kind.LOSS, "total"): 2.0 - (0.1 if number < 3 else 0.2) * number}
    return StepView.of(number, records).with_beside({"runs/first": StepView.of(number, other)})


def same(number: int) -> StepView:
    view = StepView.of(number, {Key(Kind.LOSS, "total"): 2.0 - 0.1 * number})
    return view.with_beside({"runs/first": view})


def shuffled(classes: int = 10) -> list[StepView]:
    draw = np.random.default_rng(0)
    return test_batches.labelled([draw.integers(classes, size=64).tolist() for _ in range(30)])


def answered(pairs: dict[tuple[int, int], int]) -> Callable[[], Views]:
    return lambda: [evaluated(100 * number, confusion(pairs), tick=number) for number in range(4)]


def ratio(value: float) -> Callable[[], Views]:
    return lambda: [test_updates.updating(value, number) for number in range(10, 40)]


def weighed(*importance: float) -> Callable[[int], StepView]:
    return lambda number: StepView.of(number, {Key(Kind.IMPORTANCE, f"f{at}"): value
                                               for at, value in enumerate(importance)})


def initialized(units: UnitSummaries) -> Callable[[int], StepView]:
    return lambda number: test_initialization.step_of(number, units={"0": units, "1": test_initialization.DIFFERENT})


def noted(**loader: float) -> Callable[[], Views]:
    return lambda: test_step_time.loaders(400, **loader)  # type: ignore[arg-type]


def padded(share: float) -> Callable[[], Views]:
    return lambda: test_inputs.padded(share, steps=6)


def steps_of_loss(*losses: float) -> Callable[[], Views]:
    return lambda: test_divergence.trained(losses)


LEVEL = test_spikes.LEVEL
GROW = (1e4, 1e3, 1e2, 10.0, 1.0, 0.1)
SOUND_LOSS = test_mismatch.SOUND
CHANCE = test_chance.CHANCE
LABELS = dict.fromkeys(range(10), 6)
UNSEEN = {(name, name): 40 for name in range(3)}

CASES: tuple[Case, ...] = (
    Case(DeadRelu(), repeated(lambda number: test_activations.relu(number, 6, 4)),
         repeated(lambda number: test_activations.relu(number, 3, 7))),
    Case(SaturatedActivation(),
         repeated(lambda number: test_activations.squashed(
             number, "Tanh", test_activations.FLAT_TANH + test_activations.STEEP_TANH)),
         repeated(lambda number: test_activations.squashed(
             number, "Tanh", test_activations.FLAT_TANH[:4] + test_activations.STEEP_TANH))),
    Case(ActivationCollapse(),
         repeated(lambda number: test_collapse.layers(number, test_collapse.WELL, test_collapse.COLLAPSED)),
         repeated(lambda number: test_collapse.layers(number, test_collapse.WELL, test_collapse.outputs(0.03)))),
    Case(AttentionCollapse(), repeated(lambda number: test_attention.attending(number, 1e4)),
         repeated(lambda number: test_attention.attending(number, 1.0))),
    Case(ClassImbalance(), repeated(lambda number: StepView.of(number, labels({0: 990, 1: 10}))),
         repeated(lambda number: StepView.of(number, labels(LABELS)))),
    Case(Confusion(), answered({(0, 0): 40, (1, 0): 40, (2, 2): 40}), answered(UNSEEN)),
    Case(NotNormalizedInput(), lambda: test_inputs.fed(test_inputs.drawn(120.0, 70.0)),
         lambda: test_inputs.fed(test_inputs.drawn(0.5, 0.3))),
    Case(NLPSequenceRatio(), padded(0.97), padded(0.8)),
    Case(RepeatedBatch(), lambda: test_batches.fed([7.0] * 8, test_batches.LOADER),
         lambda: test_batches.fed([float(number) for number in range(8)], test_batches.LOADER)),
    Case(UnshuffledData(), lambda: test_batches.sorted_by_label(10, batches=22), shuffled),
    Case(LabelRange(),
         repeated(lambda number: StepView.of(number, test_label_range.seen(dict.fromkeys(range(11), 6), 10.0))),
         repeated(lambda number: StepView.of(number, test_label_range.seen(LABELS, 10.0)))),
    Case(LossMismatch(), repeated(facts_at({**SOUND_LOSS, Fact.SOFTMAX_TWICE: 1.0})), repeated(facts_at(SOUND_LOSS))),
    Case(LeakyValidation(), repeated(lambda number: test_batches.seen_again(1.0, number=number)),
         repeated(lambda number: test_batches.seen_again(0.0, number=number))),
    Case(TargetInInput(), lambda: test_inputs.compared(1.0, "0"), lambda: test_inputs.compared(0.6, "0")),
    Case(VanishingGradient(),
         repeated(lambda number: test_gradients.gradients({"a.weight": 5e-4, "c.weight": 1.0}, number)),
         repeated(lambda number: test_gradients.gradients({"a.weight": 2e-3, "b.weight": 1.0}, number))),
    Case(GradientNormSpike(),
         lambda: [*test_gradients.steady(30), test_gradients.gradients({"a.weight": 30.0}, 30, loss=3.0)],
         lambda: test_gradients.steady(30)),
    Case(ExplodingGradient(), repeated(lambda number: test_exploding.deep(number, *GROW)),
         repeated(lambda number: test_exploding.deep(number, *[1.0] * 6))),
    Case(LossNotDecreasing(), lambda: test_losses.trained([2.3] * 100),
         lambda: test_losses.trained([2.3 * 0.97**number for number in range(100)])),
    Case(Overfit(),
         lambda: test_losses.epochs((1.0, 0.5, 0.2, 0.1, 0.05, 0.04), (1.0, 0.6, 0.5, 0.8, 0.9, 1.0)),
         lambda: test_losses.epochs((1.0, 0.1, 0.01, 0.001, 0.001), (1.0, 0.3, 0.2, 0.2, 0.2))),
    Case(Overtraining(), lambda: test_overtraining.flat(13),
         lambda: test_overtraining.epochs([0.9**epoch for epoch in range(13)], [0.6] * 13)),
    Case(LossSpike(), lambda: test_spikes.trained([*LEVEL, 12.0, 0.7, 0.6, 0.6, 0.6]),
         lambda: test_spikes.trained(LEVEL)),
    Case(Divergence(), steps_of_loss(2.3, 2.4, 3.0, 5.0, *[8.0] * 8, 9.0, 12.0, 15.0, 20.0),
         steps_of_loss(*(2.3 * 0.9**number for number in range(16)))),
    Case(Plateau(patience=1), lambda: test_chance.trained(lambda number: 0.94 * CHANCE + 0.5 * 0.98**number, 1500),
         lambda: test_chance.trained(lambda number: 0.1 * CHANCE + CHANCE * 0.98**number, 300)),
    Case(WrongChance(), lambda: test_chance.first_step(27.0, 27.0), lambda: test_chance.first_step(2.3)),
    Case(Underfit(patience=1), lambda: test_chance.trained(lambda _: CHANCE, 220),
         lambda: test_chance.trained(lambda number: CHANCE * 0.99**number, 220)),
    Case(BatchSize(**SMALL_WINDOW), used(gpus(45, full=20.0), gpus(55, full=20.0)), used(*BUSY)),
    Case(CPUBottleneck(**SMALL_WINDOW), used(gpus(1, cpu_busiest=100.0)), used(*BUSY)),
    Case(IOBottleneck(**SMALL_WINDOW), used(gpus(3, cpu_iowait=80.0)), used(*BUSY)),
    Case(LowGPUUtilization(**SMALL_WINDOW), used(gpus(0), gpus(6)), used(*BUSY)),
    Case(GPUMemoryIncrease(**GROWTH_WINDOW), growing(lambda number: gpus(90, full=20 + 0.25 * number)),
         growing(lambda number: gpus(90, full=20.0))),
    Case(LoadBalancing(**SMALL_WINDOW), used(gpus(97, 95, 20), gpus(93, 96, 35)), used(*BUSY)),
    Case(Dataloader(), noted(processes=20, cores=8, data=0.0), noted(processes=4, cores=8, data=0.0)),
    Case(MaxInitializationTime(), vital(("waiting_secs", 1200.0)), vital(("waiting_secs", 1140.0))),
    Case(StepOutlier(), longest(5), longest(1000)),
    Case(Straggler(), working(0.05), working(0.149)),
    Case(HostMemoryLeak(**GROWTH_WINDOW), growing(lambda number: process(2 + 0.1 * number)),
         growing(lambda number: process(2.0))),
    Case(RecordingDropped(), vital(("dropped_steps", 3.0)), vital(("dropped_steps", 0.0))),
    Case(OverallSystemUsage(**SMALL_WINDOW), used({"cpu": 20.0, "memory": 63.5 * GIB, "memory_total": 64 * GIB}),
         used(*BUSY)),
    Case(OverallFrameworkMetrics(), timed(620, data=0.04), timed(620, data=0.01)),
    Case(NonFinite(), lambda: [test_numbers.view(number, loss=test_numbers.NAN) for number in range(3)],
         lambda: [test_numbers.view(number) for number in range(6)]),
    Case(NonFiniteOrigin(),
         lambda: [test_numbers.view(3, outputs=[test_numbers.FINE, test_numbers.POSINF, test_numbers.NAN],
                                    loss=test_numbers.NAN)],
         lambda: [test_numbers.view(number, outputs=[test_numbers.FINE] * 3) for number in range(6)]),
    Case(UnderflowOverflow(),
         repeated(lambda number: test_narrow.seen(number, test_narrow.sized(-10), test_narrow.sized(-22),
                                                  dtype="float16")),
         repeated(lambda number: test_narrow.seen(number, test_narrow.sized(-10), test_narrow.sized(-15),
                                                  out_dtype="float16"))),
    Case(NonFiniteInput(), lambda: [test_fed.fed(7, test_fed.NAN, loss=math.nan)],
         lambda: [test_fed.fed(number) for number in range(8)]),
    Case(OptimizerState(),
         lambda: [test_optimizer_state.adam(number, 1.0 + number, mean=0.3, square=0.1)
                  for number in range(100, 900, 100)],
         lambda: test_optimizer_state.healthy(test_optimizer_state.STEPS)),
    Case(LearningRate(), lambda: test_learning_rates.course(lambda _: 0.0, 20),
         lambda: test_learning_rates.course(lambda _: 0.1, 20)),
    Case(AmpScale(),
         lambda: [test_loss_scale.scaled(number, 65536.0 / 2**number, skipped=True) for number in range(15)],
         lambda: [test_loss_scale.scaled(number, 1024.0) for number in range(15)]),
    Case(WeightDecay(), lambda: test_decay.shrinking(10.0, 7.0, 4.0, 3.0),
         lambda: test_decay.shrinking(10.0, 9.9, 9.8)),
    Case(GradientsNotReset(), lambda: test_loop.kept(1.0), lambda: test_loop.kept(0.0)),
    Case(TrainEvalMode(), lambda: test_loop.modes(1.0, 1.0), lambda: test_loop.modes(0.0, 0.0)),
    Case(ReplicasDiverge(), repeated(lambda number: test_replicas.trained([1.0, 1.01], [0.1, 0.3]).at(
        StepView.of(number).step)), repeated(lambda number: test_replicas.trained([1.0, 1.0], [0.1, 0.1]).at(
            StepView.of(number).step))),
    Case(SameDataOnAllWorkers(), repeated(lambda number: test_replicas.fed(7.0, 7.0).at(StepView.of(number).step)),
         repeated(lambda number: test_replicas.fed(7.0, 8.0).at(StepView.of(number).step))),
    Case(NonDeterminism(),
         lambda: [*test_again.run(test_again.LOSSES, 0), *test_again.run((2.3, 2.2, 2.1, 1.9), 1)],
         lambda: [*test_again.run(test_again.LOSSES, 0), *test_again.run(test_again.LOSSES, 1)]),
    Case(StalledTraining(), vital(("silence_secs", 2000.0)), vital(("silence_secs", 100.0), ("silence_secs", 0.0))),
    Case(ScriptError(), vital(("failed[KeyError: 'lr']", 1.0)), vital(("silence_secs", 0.0))),
    Case(ParametersAndOptimizer(), lambda: [test_parameters.step({Fact.OUTSIDE_OPTIMIZER: 2.0}, number=number)
                                            for number in range(3, 8)],
         lambda: [test_parameters.step({}, number=number) for number in range(3, 8)]),
    Case(SimilarAcrossRuns(other="runs/first"), repeated(parted, range(8)), repeated(same, range(8))),
    Case(TreeDepth(), repeated(lambda number: StepView.of(number, {Key(Kind.TREE, "depth"): 60.0})),
         repeated(lambda number: StepView.of(number, {Key(Kind.TREE, "depth"): 6.0}))),
    Case(FeatureImportanceOverweight(), repeated(weighed(0.1, 98.0, 0.5, 0.4, 0.6, 0.4)),
         repeated(weighed(30.0, 30.0, 25.0, 10.0, 5.0))),
    Case(Shrinkage(), lambda: [test_boosting.planned(100.0, 0.001)], lambda: [test_boosting.planned(100.0, 0.1)]),
    Case(RoundsPastBest(), held_out(np.linspace(0.5, 0.7, 90)), held_out(np.linspace(0.5, 0.51, 90))),
    Case(WeightUpdateRatio(), ratio(1e-7), ratio(1e-3)),
    Case(PoorWeightInitialization(), repeated(initialized(test_initialization.EQUAL), range(3, 9)),
         repeated(initialized(test_initialization.DIFFERENT), range(3, 9))),
    Case(UnchangedTensor(), repeated(lambda number: test_weights.step_of(number, losses={"total": test_weights.ONES})),
         repeated(lambda number: step(number, {Key(Kind.LOSS, "total"): 2.0 * 0.9**number}))),
    Case(FrozenParameter(), lambda: test_weights.frozen(14), lambda: test_weights.frozen(14, gradient=None)),
    Case(AllZero(),
         repeated(lambda number: step(number, tensors(Kind.WEIGHT, a=1.0, b=0.0 if number else 1.0))),
         repeated(lambda number: step(number, tensors(Kind.WEIGHT, a=1.0, b=1.0)))),
    Case(TensorVariance(max_threshold=0.5), repeated(lambda number: step(number, tensors(Kind.WEIGHT, a=10.0))),
         repeated(lambda number: step(number, tensors(Kind.WEIGHT, a=1.0)))),
    Case(LayerImbalance(), repeated(lambda number: test_layer_imbalance.speeds(number, slow=1e-7)),
         repeated(lambda number: test_layer_imbalance.speeds(number, slow=1e-5))),
)
