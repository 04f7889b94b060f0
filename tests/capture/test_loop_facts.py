"""Facts about the loop: gradients that are reset, modes of layers, schedulers, the loss scale."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from barograph.capture.torch import resets as torch_resets
from barograph.model.facts import Fact
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection, every
from barograph.model.step import Mode

OF_DATA = ("batch_*", "full_batch", "seen_*", "samples_*", "target_*", "classes*", "label_*", "padding*")
"""These have forward passes listened to for the sake of what models are fed."""

FACTS = Selection(kinds=frozenset({Kind.FACT}), exclude=OF_DATA)
KEPT = "fact:gradients_kept"


def small():
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))


def batch(size=16):
    return torch.randn(size, 4), torch.randint(0, 3, (size,))


def loss_of(model):
    x, y = batch()
    return F.cross_entropy(model(x), y)


def facts(record, **settings):
    return record(**{"preset": "free", "collections": (FACTS,), **settings})


def values(tape, key, optimizer=None, mode=Mode.TRAIN):
    numbers = [{str(key): value for key, value in records.scalars.items()} for records in tape.steps(mode, optimizer)]
    return [scalars.get(key) for scalars in numbers]


# Gradients that are reset


def reset_before_forward(model, optimizer):
    optimizer.zero_grad()
    loss_of(model).backward()
    optimizer.step()


def reset_before_backward(model, optimizer):
    loss = loss_of(model)
    model.zero_grad()
    loss.backward()
    optimizer.step()


def reset_after_step(model, optimizer):
    loss_of(model).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)


def reset_behind_the_version(model, optimizer):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.data.zero_()
    loss_of(model).backward()
    optimizer.step()


def multiplied_by_zero(model, optimizer):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad *= 0
    loss_of(model).backward()
    optimizer.step()


def accumulated(model, optimizer):
    optimizer.zero_grad(set_to_none=False)
    for _ in range(4):
        loss_of(model).backward()
    optimizer.step()


def clipped(model, optimizer):
    optimizer.zero_grad(set_to_none=False)
    loss_of(model).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    optimizer.step()


def attacked(model, optimizer):
    """An adversarial sample is made first: that puts gradients into the model."""
    x, y = batch()
    x.requires_grad_()
    F.cross_entropy(model(x), y).backward()
    optimizer.zero_grad(set_to_none=False)
    F.cross_entropy(model((x + x.grad.sign()).detach()), y).backward()
    optimizer.step()


@pytest.mark.parametrize("loop", [
    reset_before_forward, reset_before_backward, reset_after_step, reset_behind_the_version, multiplied_by_zero,
    accumulated, clipped, attacked,
])
def test_a_loop_that_resets_its_gradients_somewhere_keeps_none(record, loop):
    tape = facts(record)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for _ in range(60):
        loop(model, optimizer)
    assert values(tape, KEPT) == [None] + [0.0] * 59


@pytest.mark.parametrize("backwards", [1, 3])
def test_a_loop_that_never_resets_its_gradients_is_seen_from_its_second_step(record, backwards):
    tape = facts(record)
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    for _ in range(60):
        for _ in range(backwards):
            loss_of(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert values(tape, KEPT) == [None] + [1.0] * 59
    assert values(tape, "fact:backwards") == [float(backwards)] * 60


@pytest.mark.parametrize("to_none", [True, False])
def test_a_generator_that_puts_gradients_into_the_discriminator_keeps_none(record, to_none):
    tape = facts(record)
    maker, judge = nn.Linear(4, 16), nn.Linear(16, 1)
    of_maker, of_judge = torch.optim.Adam(maker.parameters(), 0.1), torch.optim.Adam(judge.parameters(), 0.1)
    for _ in range(5):
        of_judge.zero_grad(set_to_none=to_none)
        judge(torch.randn(8, 16)).mean().backward()
        judge(maker(torch.randn(8, 4)).detach()).mean().neg().backward()
        of_judge.step()
        of_maker.zero_grad(set_to_none=to_none)
        judge(maker(torch.randn(8, 4))).mean().backward()
        of_maker.step()
    for label in {records.step.optimizer for records in tape.steps()}:
        assert values(tape, KEPT, label) == [None] + [0.0] * 4
    assert set(values(tape, "fact:backwards")) == {1.0, 2.0}


def test_of_two_optimizers_the_one_whose_gradients_are_kept_is_named(record):
    tape = facts(record)
    body, head = nn.Linear(4, 16), nn.Linear(16, 3)
    of_body, of_head = torch.optim.SGD(body.parameters(), 0.1), torch.optim.Adam(head.parameters(), 0.1)
    for _ in range(4):
        x, y = batch()
        of_head.zero_grad()
        F.cross_entropy(head(body(x)), y).backward()
        of_body.step()
        of_head.step()
    assert values(tape, KEPT, tape.steps()[0].step.optimizer) == [None, 1.0, 1.0, 1.0]
    assert values(tape, KEPT, tape.steps()[1].step.optimizer) == [None, 0.0, 0.0, 0.0]


def test_two_optimizers_over_the_same_parameters_are_both_well(record):
    tape = facts(record)
    model = small()
    first, second = torch.optim.SGD(model.parameters(), 0.1), torch.optim.Adam(model.parameters(), 0.1)
    for _ in range(4):
        first.zero_grad()
        loss_of(model).backward()
        first.step()
        second.step()
    assert set(values(tape, KEPT)) == {None, 0.0}


@pytest.mark.parametrize(("resets", "expected"), [(True, 0.0), (False, 1.0)])
def test_a_closure_that_resets_is_told_from_one_that_does_not(record, resets, expected):
    tape = facts(record)
    model = small()
    x, y = batch()
    optimizer = torch.optim.LBFGS(model.parameters(), 1e-3, max_iter=3)

    def again():
        if resets:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(again)
    assert values(tape, KEPT) == [None, expected, expected]
    assert min(values(tape, "fact:backwards")) >= 1


def test_an_optimizer_made_anew_over_gradients_that_are_kept_is_seen(record):
    tape = facts(record)
    model = small()
    for _ in range(3):
        loss_of(model).backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
    assert values(tape, KEPT) == [None, 1.0, 1.0]
    assert values(tape, "fact:optimizers_made") == [1.0, 2.0, 3.0]


def test_steps_without_a_backward_pass_are_not_judged(record):
    tape = facts(record)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        for parameter, gradient in zip(
            model.parameters(), torch.autograd.grad(loss_of(model), list(model.parameters())), strict=True
        ):
            parameter.grad = gradient
        optimizer.step()
    assert values(tape, KEPT) == [None, None, None]


def test_a_step_whose_backward_pass_was_passed_over_is_not_judged(record):
    tape = facts(record)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        tape.integration._allowance.light = step == 2
        optimizer.zero_grad(set_to_none=True)
        loss_of(model).backward()
        tape.integration._allowance.light = False
        optimizer.step()
    assert values(tape, KEPT) == [None, 0.0, None, 0.0]


def test_a_step_of_which_one_backward_pass_was_passed_over_is_not_judged(record):
    tape = facts(record)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        optimizer.zero_grad()
        tape.integration._allowance.light = step == 2
        loss_of(model).backward()
        tape.integration._allowance.light = False
        loss_of(model).backward()
        optimizer.step()
    assert values(tape, KEPT) == [None, 0.0, None, 0.0]


def test_a_layer_that_is_not_used_does_not_stand_for_those_that_are(record):
    tape = facts(record)
    model = nn.ModuleList([nn.Linear(4, 16), nn.Linear(4, 3)])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(30):
        x, y = batch()
        # The first layer takes part in the first step alone.
        F.cross_entropy(model[1](x) + (model[0](x).mean() if step == 0 else 0), y).backward()
        model[0].zero_grad()
        optimizer.step()
    assert values(tape, KEPT)[-10:] == [1.0] * 10


def test_sparse_gradients_are_looked_into(record):
    tape = facts(record)
    model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(6):
        if step < 3:
            optimizer.zero_grad()
        model(torch.arange(5)).sum().backward()
        optimizer.step()
    assert values(tape, KEPT) == [None, 0.0, 0.0, 1.0, 1.0, 1.0]


def test_in_steps_of_plain_numbers_only_changes_are_recorded(record):
    rare = Selection(kinds=frozenset({Kind.FACT}), schedule=every(10))
    tape = facts(record, collections=(rare,))
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(8):
        if step < 5:
            optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    assert values(tape, KEPT) == [None, 0.0, None, None, None, 1.0, None, None]


def test_a_device_is_asked_a_few_times_only(record, monkeypatch):
    looks = []
    monkeypatch.setattr(torch_resets, "_LOOKS", {"cpu": 3})
    inside = torch_resets._is_zero
    monkeypatch.setattr(torch_resets, "_is_zero", lambda gradient: looks.append(1) or inside(gradient))
    tape = facts(record)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(30):
        reset_after_step(model, optimizer)
    assert values(tape, KEPT) == [None] + [0.0] * 29
    assert len(looks) <= 6


# Modes


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Dropout(0.1), nn.Dropout(0.0))
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.body(x))


def step(model, optimizer):
    optimizer.zero_grad()
    loss_of(model).backward()
    optimizer.step()


@pytest.mark.parametrize("wrap", [lambda model: model, torch.nn.DataParallel])
def test_training_in_eval_mode_is_a_fact(record, wrap):
    tape = facts(record)
    inner = Net()
    model = wrap(inner)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step(model, optimizer)
    inner.eval()
    step(model, optimizer)
    inner.train()
    inner.body[1].eval()
    step(model, optimizer)
    assert values(tape, "fact:layers_in_eval") == [0.0, 1.0, 0.5]
    assert values(tape, "fact:model_in_eval") == [0.0, 1.0, 0.0]


def test_modes_are_known_in_steps_whose_forward_pass_is_not_heard(record):
    tape = facts(record)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step(model, optimizer)
    model.eval()
    assert not tape.integration._forwards.observing
    step(model, optimizer)
    assert values(tape, "fact:layers_in_eval") == [0.0, 1.0]


def test_batch_normalisation_that_is_frozen_is_in_eval_mode_on_purpose(record):
    tape = facts(record)
    model = Net()
    model.body[1].requires_grad_(False).eval()
    step(model, torch.optim.SGD(model.parameters(), 0.1))
    assert values(tape, "fact:layers_in_eval") == [0.0]


def test_a_model_that_is_evaluated_before_its_step_is_in_training(record):
    tape = record(preset="moments", collections=(FACTS,))
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        loss = loss_of(model)
        model.eval()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.train()
    assert values(tape, "fact:model_in_eval") == [0.0, 0.0]


@pytest.mark.parametrize(("training", "expected"), [(True, 1.0), (False, 0.0)])
@pytest.mark.parametrize("preset", ["free", "moments"])
def test_an_evaluation_in_training_mode_is_a_fact(record, training, expected, preset):
    tape = facts(record, preset=preset)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        step(model, optimizer)
    model.train(training)
    with torch.no_grad():
        for _ in range(3):
            loss_of(model)
    model.train()
    step(model, optimizer)
    assert values(tape, "fact:layers_in_train", mode=Mode.EVAL) == [expected]


def test_a_forward_pass_without_gradients_inside_every_step_is_no_evaluation(record):
    tape = record(preset="moments", collections=(FACTS,))
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(30):
        with torch.no_grad():
            guess = model(torch.randn(16, 4)).mean()
        optimizer.zero_grad()
        (loss_of(model) + guess).backward()
        optimizer.step()
    assert set(values(tape, "fact:layers_in_train", mode=Mode.EVAL)) <= {None}


def test_an_evaluation_without_a_loss_after_many_steps_is_judged(record):
    tape = record(preset="moments", collections=(FACTS,))
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(10):
        step(model, optimizer)
    with torch.no_grad():
        model(torch.randn(16, 4)).argmax(1)
    step(model, optimizer)
    assert values(tape, "fact:layers_in_train", mode=Mode.EVAL) == [1.0]


@pytest.mark.parametrize("gradients_off", [torch.no_grad, torch.inference_mode])
def test_an_evaluation_without_a_loss_is_heard_where_no_forward_pass_is(record, gradients_off):
    tape = facts(record)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(10):
        step(model, optimizer)
    assert not tape.integration._forwards.observing
    with gradients_off():
        model(torch.randn(16, 4)).argmax(1)
    assert tape.integration._forwards.observing
    step(model, optimizer)
    assert not tape.integration._forwards.observing
    assert values(tape, "fact:layers_in_train", mode=Mode.EVAL) == [1.0]


def test_gradients_that_are_turned_off_at_every_step_have_nobody_listen_for_long(record):
    tape = facts(record)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    heard = 0
    for _ in range(60):
        with torch.no_grad():
            heard += tape.integration._forwards.observing
        step(model, optimizer)
    assert 10 < heard <= 20


def test_a_step_of_numbers_alone_stops_listening_when_it_ends(record):
    tape = facts(record)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        step(model, optimizer)
    tape.integration._allowance.light = True
    with torch.no_grad():
        model(torch.randn(16, 4))
    assert tape.integration._forwards.observing
    step(model, optimizer)
    assert not tape.integration._forwards.observing


def test_gradients_turned_off_inside_a_compiled_function_are_none_of_ours(record):
    facts(record)
    model = nn.Linear(4, 3)

    def answer(x):
        with torch.no_grad():
            shift = x.mean()
        return model(x - shift)

    assert torch.compile(answer, backend="aot_eager", fullgraph=True)(torch.randn(8, 4)).requires_grad


def test_an_evaluation_without_a_loss_after_few_steps_is_not_judged(record):
    tape = record(preset="moments", collections=(FACTS,))
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(4):
        for _ in range(3):
            step(model, optimizer)
        with torch.no_grad():
            model(torch.randn(16, 4)).argmax(1)
    step(model, optimizer)
    assert set(values(tape, "fact:layers_in_train", mode=Mode.EVAL)) <= {None}


def test_what_is_asked_of_evaluations_alone_is_told_of_them(record):
    of_evaluations = Selection(kinds=frozenset({Kind.FACT}), include=("layers_in_train*",),
                               schedule=Schedule(modes=frozenset({Mode.EVAL})))
    tape = record(preset="free", collections=(of_evaluations,))
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step(model, optimizer)
    with torch.no_grad():
        loss_of(model)
    step(model, optimizer)
    assert values(tape, "fact:layers_in_train", mode=Mode.EVAL) == [1.0]


def test_training_in_eval_mode_from_the_start_is_no_evaluation(record):
    tape = facts(record)
    model = Net().eval()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        step(model, optimizer)
    tape.close()
    assert tape.steps(Mode.EVAL) == []
    assert values(tape, "fact:layers_in_eval") == [1.0, 1.0, 1.0]


# Schedulers, groups, scale


def test_schedulers_are_counted_with_their_horizon(record):
    tape = facts(record)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    for _ in range(3):
        step(model, optimizer)
        scheduler.step()
    assert values(tape, "fact:scheduler_steps") == [0.0, 1.0, 2.0]
    assert values(tape, "fact:scheduler_steps[CosineAnnealingLR]") == [None, 1.0, 2.0]
    assert values(tape, "fact:scheduler_horizon") == [None, 20.0, 20.0]


SCHEDULES = torch.optim.lr_scheduler


@pytest.mark.parametrize(("make", "horizon"), [
    (lambda given: SCHEDULES.StepLR(given, 7), 70.0),
    (lambda given: SCHEDULES.MultiStepLR(given, [3, 9]), 9.0),
    (lambda given: SCHEDULES.OneCycleLR(given, 0.1, total_steps=50), 50.0),
    (lambda given: SCHEDULES.ExponentialLR(given, 0.5), math.log(1e-3) / math.log(0.5)),
    (lambda given: SCHEDULES.ReduceLROnPlateau(given), None),
    (lambda given: SCHEDULES.CosineAnnealingWarmRestarts(given, 5), None),
    (lambda given: SCHEDULES.LambdaLR(given, lambda epoch: 0.9**epoch), None),
    (lambda given: SCHEDULES.SequentialLR(
        given, [SCHEDULES.LinearLR(given), SCHEDULES.CosineAnnealingLR(given, 30)], [5]), 35.0),
    (lambda given: SCHEDULES.ChainedScheduler([SCHEDULES.StepLR(given, 2), SCHEDULES.StepLR(given, 3)]), 30.0),
])
def test_a_scheduler_of_each_sort_is_counted_once_a_step(record, make, horizon):
    tape = facts(record)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = make(optimizer)
    for _ in range(3):
        step(model, optimizer)
        scheduler.step(*[1.0] * isinstance(scheduler, SCHEDULES.ReduceLROnPlateau))
    assert values(tape, "fact:scheduler_steps") == [0.0, 1.0, 2.0]
    assert values(tape, "fact:scheduler_horizon")[-1] == (None if horizon is None else pytest.approx(horizon))


def test_a_scheduler_that_comes_with_a_checkpoint_goes_on_counting(record):
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    for _ in range(8):
        optimizer.step()
        scheduler.step()
    saved = copy.deepcopy(scheduler.state_dict())
    tape = facts(record)
    again = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    again.load_state_dict(saved)
    again.step()
    step(model, optimizer)
    assert values(tape, "fact:scheduler_steps") == [9.0]


def test_a_subclass_of_the_scripts_own_is_counted(record):
    class Own(torch.optim.lr_scheduler.LRScheduler):
        def get_lr(self):
            return [0.1 for _ in self.base_lrs]

        def step(self, epoch=None):
            super().step()

    tape = facts(record)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = Own(optimizer)
    for _ in range(2):
        step(model, optimizer)
        scheduler.step()
    assert values(tape, "fact:scheduler_steps[Own]") == [None, 1.0]


def test_what_is_wrapped_for_facts_is_itself_again_after_the_end(record):
    def wrapped():
        steps = [vars(kind)["step"] for kind in (SCHEDULES.LRScheduler, SCHEDULES.ReduceLROnPlateau)]
        return [*steps, *(vars(kind)["__enter__"] for kind in (torch.no_grad, torch.inference_mode))]

    before = wrapped()
    tape = facts(record)
    assert not set(wrapped()) & set(before)
    tape.close()
    assert wrapped() == before


def test_the_scale_of_a_gradient_scaler_is_recorded_also_where_it_skips(record):
    tape = facts(record)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for number in range(3):
        optimizer.zero_grad()
        loss = loss_of(model) * (math.inf if number == 1 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert values(tape, "fact:loss_scale") == [1024.0, 1024.0, 512.0]
    assert values(tape, KEPT) == [None, 0.0, 0.0]


def test_facts_are_looked_for_where_they_are_asked_for(record):
    reset = Selection(kinds=frozenset({Kind.FACT}), include=("weight_decay*",), schedule=Schedule(every=0,
                      steps=frozenset({1})))
    tape = facts(record, collections=(reset,))
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, weight_decay=0.5)
    for _ in range(3):
        step(model, optimizer)
    assert [tape.names(at, kind="fact") for at in range(3)] == [[], ["fact:weight_decay[group0]"], []]


def test_without_a_selection_no_fact_is_looked_for(record):
    tape = record()
    model = Net()
    step(model, torch.optim.SGD(model.parameters(), 0.1))
    assert tape.names(kind="fact") == []
    assert len(Fact) > 30
