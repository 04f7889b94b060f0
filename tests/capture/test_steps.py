"""A step is an optimizer step, whatever the loop looks like."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import sys
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import barograph
from barograph.capture.buffer import StepBuffer
from barograph.capture.torch import losses as torch_losses
from barograph.capture.torch import optimizers as torch_optimizers
from barograph.capture.torch import parameters as torch_parameters
from barograph.capture.torch.forward import ForwardRecorder
from barograph.errors import TrainingStopped
from barograph.measures import native
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode


def small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def batch(size: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(size, 4), torch.randint(0, 3, (size,))


def train(model, optimizer, steps=1):
    for _ in range(steps):
        x, y = batch()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def test_a_plain_loop_gives_weights_gradients_outputs_and_loss_of_every_step(record):
    tape = record()
    model = small()
    train(model, torch.optim.SGD(model.parameters(), 0.1), steps=3)
    assert tape.numbers() == [0, 1, 2]
    assert set(tape.names()) == {
        "output:0", "output:1", "output:2", "loss:total", "loss:cross_entropy", "learning_rate:group0",
        "weight:0.weight", "weight:0.bias", "weight:2.weight", "weight:2.bias",
        "gradient:0.weight", "gradient:0.bias", "gradient:2.weight", "gradient:2.bias",
    }
    assert tape.coverage.complete


def test_a_weight_is_read_after_the_step_and_a_gradient_as_the_optimizer_used_it(record):
    tape = record()
    model = small()
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    weight, gradient = model[0].weight.double(), model[0].weight.grad.double()
    assert tape.summary("weight:0.weight").sum == pytest.approx(weight.sum().item(), rel=1e-5)
    assert tape.summary("gradient:0.weight").l2 == pytest.approx(gradient.norm().item(), rel=1e-5)


def test_the_parameters_of_a_model_that_was_converted_have_their_new_type(record):
    tape, model = record(preset="everything"), small()
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    model.to(torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    F.cross_entropy(model(batch()[0].bfloat16()), batch()[1]).backward()
    optimizer.step()
    types = [{records.subjects[row].dtype for row in records.moments[:, 0].nonzero()[0]
              if records.subjects[row].key.kind in (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE)}
             for records in tape.steps()]
    assert types == [{"float32"}, {"bfloat16"}]


def test_accumulated_micro_batches_are_one_step_whose_outputs_merge(record):
    tape = record()
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for _ in range(4):
        x, y = batch()
        loss = F.cross_entropy(model(x), y) / 4
        losses.append(loss.item())
        loss.backward()
    optimizer.step()
    assert tape.numbers() == [0]
    assert tape.summary("output:2").count == 4 * 16 * 3
    assert tape.scalar("loss:total") == pytest.approx(sum(losses) / 4)
    assert tape.summary("gradient:2.bias").sum_abs == pytest.approx(model[2].bias.grad.abs().sum().item(), rel=1e-5)


class Generator(nn.Sequential):
    pass


class Discriminator(nn.Sequential):
    pass


def test_two_optimizers_each_have_their_own_series(record):
    tape = record()
    generator, discriminator = Generator(nn.Linear(2, 4)), Discriminator(nn.Linear(4, 1))
    for_generator = torch.optim.Adam(generator.parameters(), 1e-3)
    for_discriminator = torch.optim.Adam(discriminator.parameters(), 1e-3)
    for _ in range(3):
        fake = generator(torch.randn(8, 2))
        for_discriminator.zero_grad()
        loss = discriminator(torch.randn(8, 4)).mean() - discriminator(fake.detach()).mean()
        loss.backward()
        for_discriminator.step()
        for_generator.zero_grad()
        discriminator(fake).mean().backward()
        for_generator.step()
    assert tape.numbers(optimizer="Discriminator") == [0, 1, 2]
    assert tape.numbers(optimizer="Generator") == [0, 1, 2]
    of_discriminator = tape.summaries(tape.steps(optimizer="Discriminator")[1])
    assert "gradient:Discriminator.0.weight" in of_discriminator
    assert "gradient:Generator.0.weight" not in of_discriminator
    assert "gradient:Generator.0.weight" in tape.summaries(tape.steps(optimizer="Generator")[1])


def test_each_of_two_optimizers_keeps_an_interval_of_its_own_steps(record):
    every_second = Selection(kinds=frozenset({Kind.WEIGHT}), schedule=Schedule(every=2))
    tape = record(preset="free", collections=(every_second,))
    first, second = Generator(nn.Linear(2, 2)), Discriminator(nn.Linear(2, 2))
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in (first, second)]
    for _ in range(4):
        for model, optimizer in zip((first, second), optimizers, strict=True):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    with_weights = [
        (records.step.optimizer, records.step.number)
        for records in tape.steps() if any(key.startswith("weight") for key in tape.summaries(records))
    ]
    assert with_weights == [("Generator", 0), ("Discriminator", 0), ("Generator", 2), ("Discriminator", 2)]


def test_two_optimizers_after_one_backward_count_the_same_steps(record):
    tape = record()
    model = small()
    optimizers = [torch.optim.SGD(model[0].parameters(), 0.1), torch.optim.Adam(model[2].parameters(), 0.1)]
    for _ in range(2):
        x, y = batch()
        F.cross_entropy(model(x), y).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    assert tape.numbers(optimizer="SGD") == tape.numbers(optimizer="Adam") == [0, 1]


def test_an_evaluation_inside_training_is_a_mode_of_its_own(record):
    tape = record()
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer, steps=2)
    model.eval()
    with torch.no_grad():
        losses = [F.cross_entropy(model(x), y).item() for x, y in (batch(), batch(), batch())]
    model.train()
    train(model, optimizer, steps=1)
    assert tape.numbers() == [0, 1, 2]
    assert tape.numbers(Mode.EVAL) == [2]
    assert tape.scalar("loss:cross_entropy", mode=Mode.EVAL) == pytest.approx(sum(losses) / 3)
    assert tape.scalar("loss:cross_entropy") == tape.scalar("loss:total")
    assert tape.coverage.evaluations == 1


def test_the_last_evaluation_is_published_when_the_run_closes(record):
    tape = record()
    model = small()
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    model.eval()
    with torch.no_grad():
        x, y = batch()
        F.cross_entropy(model(x), y)
    tape.close()
    assert tape.numbers(Mode.EVAL) == [1]


def test_training_in_eval_mode_is_training(record):
    tape = record()
    model = small().eval()
    train(model, torch.optim.SGD(model.parameters(), 0.1), steps=2)
    assert tape.numbers(Mode.EVAL) == []
    assert "output:2" in tape.names(1)  # of the first step, only `backward` tells that it was training
    assert "loss:total" in tape.names(0)


def test_a_frozen_teacher_makes_no_evaluations(record):
    tape = record()
    teacher, student = Generator(nn.Linear(4, 3)).eval(), small()
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    for _ in range(3):
        x, _ = batch()
        with torch.no_grad():
            target = teacher(x)
        optimizer.zero_grad()
        F.mse_loss(student(x), target).backward()
        optimizer.step()
    assert tape.numbers(Mode.EVAL) == []
    assert len(tape.numbers()) == 3


def test_a_closure_that_runs_many_times_is_one_step(record):
    tape = record()
    model = small()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
    x, y = batch()
    losses: list[list[float]] = []

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        losses[-1].append(loss.item())
        return loss

    for _ in range(2):
        losses.append([])
        optimizer.step(closure)
    assert tape.numbers() == [0, 1]
    assert tape.scalar("loss:total", 0) == pytest.approx(sum(losses[0]) / len(losses[0]))
    assert tape.summary("gradient:0.weight").l2 == pytest.approx(model[0].weight.grad.norm().item(), rel=1e-5)


def test_the_script_may_end_its_steps_itself(record):
    tape = record(explicit_steps=True)
    model = small()
    for _ in range(2):
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
        tape.integration.end_explicit_step(loss)
        model.zero_grad()
    assert tape.numbers() == [0, 1]
    assert {"weight:0.weight", "gradient:0.weight", "loss:total"} <= set(tape.names())


def test_an_optimizer_loaded_from_a_checkpoint_goes_on_counting(record):
    model = small()
    before = torch.optim.Adam(model.parameters(), 0.1)
    train(model, before, steps=7)
    state = copy.deepcopy(before.state_dict())
    tape = record()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    optimizer.load_state_dict(state)
    train(model, optimizer, steps=2)
    assert tape.numbers() == [7, 8]


def test_an_evaluation_before_the_first_step_belongs_to_the_steps_that_a_checkpoint_brought(record):
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    train(model, optimizer, steps=5)
    tape = record()
    again = torch.optim.Adam(model.parameters(), 0.1)
    again.load_state_dict(optimizer.state_dict())
    model.eval()
    with torch.no_grad():
        F.cross_entropy(model(batch()[0]), torch.zeros(16, dtype=torch.long))
    model.train()
    train(model, again)
    assert tape.numbers(Mode.EVAL) == [5]
    assert tape.steps()[-1].step.number == 5


def test_an_optimizer_that_keeps_no_count_begins_where_the_script_says(record):
    tape = record()
    tape.session.counts.begin_at(40)
    model = small()
    train(model, torch.optim.SGD(model.parameters(), 0.1), steps=2)
    assert tape.numbers() == [40, 41]


def test_an_optimizer_made_anew_goes_on_with_the_same_series(record):
    tape = record()
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer, steps=2)
    del optimizer
    train(model, torch.optim.SGD(model.parameters(), 0.01), steps=1)
    assert tape.numbers() == [0, 1, 2]
    assert len({records.step.optimizer for records in tape.steps()}) == 1


def test_learning_rates_are_recorded_for_each_group(record):
    tape = record()
    model = small()
    optimizer = torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.5}, {"params": model[2].parameters()}], 0.1)
    train(model, optimizer)
    assert tape.scalar("learning_rate:group0") == 0.5
    assert tape.scalar("learning_rate:group1") == 0.1


def test_gradients_before_clipping_are_named_apart_from_those_after(record):
    tape = record(preset="everything")
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = batch()
    F.cross_entropy(model(x), y).backward()
    before = model[0].weight.grad.norm().item()
    total = nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()
    assert tape.summary("gradient:0.weight").l2 == pytest.approx(before, rel=1e-5)
    assert tape.summary("gradient_clipped:0.weight").l2 == pytest.approx(model[0].weight.grad.norm().item(), rel=1e-5)
    assert tape.scalar("scalar:gradient_norm_before_clip") == pytest.approx(total.item())


def test_clipping_by_value_is_seen_too(record):
    tape = record(preset="everything")
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = batch()
    F.cross_entropy(model(x), y).backward()
    highest = model[2].weight.grad.abs().max().item()
    nn.utils.clip_grad_value_(model.parameters(), 1e-3)
    optimizer.step()
    assert tape.summary("gradient:2.weight").max_abs == pytest.approx(highest)
    assert tape.summary("gradient_clipped:2.weight").max_abs == pytest.approx(1e-3)


def test_an_update_is_weight_after_minus_weight_before(record):
    tape = record(preset="updates")
    model = small()
    before = model[0].weight.detach().clone()
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    update = (model[0].weight.detach() - before).double()
    assert tape.summary("update:0.weight").l2 == pytest.approx(update.norm().item(), rel=1e-5)
    assert tape.summary("update:0.weight").sum == pytest.approx(update.sum().item(), rel=1e-3, abs=1e-7)


@pytest.mark.parametrize(("most_bytes", "left"), [(2**20, 1), (1000, 0)])
def test_copies_of_large_weights_are_let_go_of_after_the_step(record, monkeypatch, most_bytes, left):
    monkeypatch.setattr(torch_parameters, "KEPT_BYTES", most_bytes)
    tape = record(preset="updates")
    model = nn.Linear(67, 59, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        model(torch.randn(2, 67)).square().mean().backward()
        optimizer.step()
    model.weight.grad = None
    alike = [item for item in gc.get_objects() if type(item) in (torch.Tensor, nn.Parameter) and item.shape == (59, 67)]
    assert len(alike) == 1 + left
    assert tape.summary("update:weight").l2 > 0


def test_the_state_of_the_optimizer_is_recorded_by_name(record):
    tape = record(preset="everything")
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    train(model, optimizer)
    moment = optimizer.state[model[0].weight]["exp_avg_sq"]
    assert tape.summary("optimizer_state:0.weight[exp_avg_sq]").sum == pytest.approx(moment.sum().item(), rel=1e-5)


def test_state_and_updates_of_all_parameters_are_each_read_in_one_call(record, monkeypatch):
    asked: list[tuple[str, int]] = []
    for called in (native.summarize_many, native.difference_many):
        def read(*args, called=called):
            asked.append((called.__name__, len(args[0])))
            called(*args)

        monkeypatch.setattr(native, called.__name__, read)
    tape = record(preset="everything")
    model = small()
    parameters = len(list(model.parameters()))
    optimizer = torch.optim.SGD([{"params": model[0].parameters(), "momentum": 0.0},
                                 {"params": model[2].parameters(), "momentum": 0.9}], 0.1)
    train(model, optimizer)
    assert ("difference_many", parameters) in asked
    assert tape.summary("optimizer_state:2.weight[momentum_buffer]").count == model[2].weight.numel()
    optimizer.param_groups[0]["momentum"] = 0.9
    for _ in range(2):
        asked.clear()
        train(model, optimizer)
        buffers = [optimizer.state[parameter]["momentum_buffer"] for parameter in model.parameters()]
        for name, buffer in zip(("0.weight", "0.bias", "2.weight", "2.bias"), buffers, strict=True):
            told = tape.summary(f"optimizer_state:{name}[momentum_buffer]")
            assert told.l2 == pytest.approx(buffer.double().norm().item(), rel=1e-5)
    assert asked.count(("summarize_many", parameters)) == 3, "with weights and gradients"


def test_a_tensor_of_the_scripts_own_is_kept_whole(record):
    tape = record()
    model = small()
    tape.integration.save("attention", torch.tensor([[1.5, -2.0]]))
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    raw = next(iter(tape.steps()[0].tensors.values()))
    assert (raw.dtype, raw.shape, raw.data) == ("float32", (1, 2), torch.tensor([[1.5, -2.0]]).numpy().tobytes())
    assert tape.summary("custom:attention").min == -2.0


def test_a_loss_that_turns_not_finite_has_everything_recorded_off_schedule(record):
    rare = Selection(kinds=frozenset({Kind.GRADIENT}), schedule=Schedule(every=1000))
    tape = record(preset="free", collections=(rare,))
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer, steps=2)
    x, y = batch()
    (F.cross_entropy(model(x), y) * math.nan).backward()
    optimizer.step()
    assert tape.names(1, kind="gradient") == []
    assert tape.summary("gradient:0.weight", 2).nan > 0


def test_a_stop_is_raised_between_two_steps_where_the_script_can_catch_it(record):
    tape = record()
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer)
    tape.session.steering.request_stop("finding G102 opened")
    with pytest.raises(TrainingStopped, match="finding G102 opened"):
        train(model, optimizer)
    train(model, optimizer)
    assert tape.numbers() == [0, 1, 2]


def test_a_model_that_raises_in_its_forward_does_not_confuse_the_next_step(record):
    class Fragile(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.broken = small(), True

        def forward(self, x):
            out = self.inner(x)
            if self.broken:
                raise RuntimeError("the user's own")
            return out

    tape = record()
    model = Fragile()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(RuntimeError, match="the user's own"):
        model(batch()[0])
    model.broken = False
    train(model, optimizer)
    assert tape.numbers() == [0]
    assert "output:inner.2" in tape.names()


def test_deepcopy_and_pickle_of_a_recorded_model_give_a_bare_one(record):
    tape = record()
    model = small()
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin[0].weight, model[0].weight)
        assert not twin._forward_hooks
    assert tape.numbers() == [0]


def test_a_model_built_after_the_start_is_recorded(record):
    tape = record()
    assert tape.writer.steps == []
    model = small()
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    assert "weight:0.weight" in tape.names()


def test_only_the_models_handed_over_are_recorded(record):
    tape = record(only=True)
    mine, other = small(), Generator(nn.Linear(4, 3))
    tape.integration.watch_model(mine)
    train(other, torch.optim.SGD(other.parameters(), 0.1))
    train(mine, torch.optim.SGD(mine.parameters(), 0.1))
    assert len(tape.steps()) == 1
    assert set(tape.names(kind="weight")) == {"weight:0.weight", "weight:0.bias", "weight:2.weight", "weight:2.bias"}


def test_nothing_is_left_in_torch_after_the_end(record):
    def places():
        hooks, optimizers = torch.nn.modules.module, sys.modules["torch.optim.optimizer"]
        return (
            len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks),
            len(optimizers._global_optimizer_pre_hooks),
            len(optimizers._global_optimizer_post_hooks),
            torch.autograd.backward, torch.amp.GradScaler.step, torch.amp.GradScaler.scale,
            F.cross_entropy.__code__, hasattr(F.cross_entropy, "__wrapped__"),
            nn.utils.clip_grad_value_, torch.nn.utils.clip_grad._clip_grads_with_norm_,
        )

    before = places()
    tape = record()
    assert places() != before
    tape.close()
    assert places() == before


def test_steps_that_record_no_tensors_hear_no_forward_passes_and_still_know_an_evaluation(record):
    rare = Selection(kinds=frozenset({Kind.OUTPUT}), schedule=Schedule(every=5, modes=frozenset({Mode.TRAIN})))
    tape = record(preset="free", collections=(rare,))
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    heard = []
    for _ in range(7):
        heard.append(bool(torch.nn.modules.module._global_forward_hooks))
        train(model, optimizer)
    model.eval()
    with torch.no_grad():
        x, y = batch()
        F.cross_entropy(model(x), y)
    model.train()
    train(model, optimizer)
    assert heard == [True, False, False, False, False, True, False]
    assert tape.numbers(Mode.EVAL) == [7]
    assert "loss:cross_entropy" in tape.names(mode=Mode.EVAL)
    assert all({"loss:total", "loss:cross_entropy"} <= set(tape.names(at)) for at in range(8))


def test_a_number_computed_on_the_side_is_no_evaluation(record):
    tape = record(preset="standard")
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(4):
        x, y = batch()
        optimizer.zero_grad()
        out = model(x)
        F.cross_entropy(out, y).backward()
        with torch.no_grad():
            F.l1_loss(out, torch.zeros_like(out))
        optimizer.step()
    assert tape.numbers(Mode.EVAL) == []
    assert "loss:l1_loss" in tape.names()


def test_an_evaluation_without_eval_and_with_gradients_off_is_one(record):
    tape = record(preset="free")
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer, steps=2)
    with torch.no_grad():
        x, y = batch()
        F.cross_entropy(model(x), y)
    train(model, optimizer)
    assert tape.numbers(Mode.EVAL) == [2]


def test_an_evaluation_that_forgot_to_turn_gradients_off_is_one(record):
    for preset in ("free", "moments"):
        tape = record(preset=preset)
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        train(model, optimizer, steps=2)
        model.eval()
        x, y = batch()
        F.cross_entropy(model(x), y)
        model.train()
        train(model, optimizer)
        tape.close()
        assert tape.numbers(Mode.EVAL) == [2]
        assert tape.numbers() == [0, 1, 2]


def test_the_loss_and_the_learning_rate_of_every_step_are_recorded_whatever_the_budget(record):
    tape = record(budget=1e-6, preset="standard")
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.99)
    losses = []
    for _ in range(3):
        for _ in range(100):
            x, y = batch()
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            F.cross_entropy(model(x), y)
        model.train()
    tape.close()
    steps = tape.steps(Mode.TRAIN)
    assert [records.step.number for records in steps] == list(range(300))
    assert [scalars(records)["loss:total"] for records in steps] == losses
    assert [scalars(records)["loss:cross_entropy"] for records in steps] == losses
    rates = [scalars(records)["learning_rate:group0"] for records in steps]
    assert rates == pytest.approx([0.1 * 0.99 ** step for step in range(300)])
    assert tape.numbers(Mode.EVAL) == [100, 200, 300]
    assert sum(records.moments is not None for records in steps) < 30
    assert any("the budget" in reason for reason in tape.coverage.reasons)


def test_losses_of_micro_batches_are_averaged_in_steps_of_numbers_alone_too(record):
    tape = record(budget=1e-6, preset="standard")
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    means = []
    for _ in range(60):
        optimizer.zero_grad()
        values = []
        for _ in range(3):
            x, y = batch()
            loss = F.cross_entropy(model(x), y) / 3
            values.append(loss.item())
            loss.backward()
        means.append(sum(values) / 3)
        optimizer.step()
    assert [scalars(records)["loss:total"] for records in tape.steps()] == pytest.approx(means)


def scalars(records):
    return {str(key): value for key, value in records.scalars.items()}


class WithLoss(nn.Module):
    def __init__(self, function=F.mse_loss):
        super().__init__()
        self.linear, self.function, self.criterion = nn.Linear(4, 3), function, nn.MSELoss()

    def forward(self, x, y):
        return self.function(self.linear(x), y)


def test_a_model_that_holds_a_loss_function_is_pickled_while_recorded_and_after(record):
    before = WithLoss()
    tape = record()
    during = WithLoss()
    for model in (before, during):
        assert pickle.loads(pickle.dumps(model)).function is F.mse_loss
    tape.close()
    for model in (before, during):
        assert pickle.loads(pickle.dumps(model)).function is F.mse_loss


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_module_with_a_loss_can_be_scripted_while_recorded(record):
    class Scripted(nn.Module):
        def __init__(self):
            super().__init__()
            self.criterion = nn.MSELoss()

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.criterion(x, y) + F.l1_loss(x, y)

    record()
    scripted = torch.jit.script(Scripted())
    assert scripted(torch.zeros(2), torch.ones(2)).item() == 2.0


def test_a_loss_function_imported_by_name_before_the_start_is_seen(record):
    cross_entropy = F.cross_entropy
    tape = record()
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = batch()
    cross_entropy(model(x), y, label_smoothing=0.1).backward()
    optimizer.step()
    assert "loss:cross_entropy" in tape.names()


def test_an_exception_in_a_step_does_not_silence_the_steps_after_it(record):
    tape = record()
    model = small()
    optimizer, other = torch.optim.SGD(model.parameters(), 0.1), torch.optim.Adam(model.parameters(), 1e-3)

    def closure():
        raise RuntimeError("the user's own")

    train(model, optimizer)
    with pytest.raises(RuntimeError, match="the user's own"):
        optimizer.step(closure)
    train(model, optimizer)
    with pytest.raises(RuntimeError, match="the user's own"):
        optimizer.step(closure)
    train(model, other)
    assert tape.session.counts.made("SGD") == 2
    assert tape.session.counts.made("Adam") == 1


def test_an_optimizer_that_wraps_another_makes_one_step(record):
    class Outer(torch.optim.SGD):
        def __init__(self, inner, parameters):
            super().__init__(parameters, lr=0.0)
            self.inner = inner

        def step(self, closure=None):
            self.inner.step()

    tape = record()
    model = small()
    train(model, Outer(torch.optim.Adam(model.parameters(), 0.1), model.parameters()), steps=2)
    assert len(tape.steps()) == 2
    assert tape.summary("gradient:0.weight").count == 32


def test_a_branch_that_is_used_from_some_step_on_is_recorded_from_there(record):
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.late = nn.Linear(4, 3), nn.Linear(4, 3), False

        def forward(self, x):
            return self.a(x) + self.b(x) if self.late else self.a(x)

    tape = record()
    model = Late()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(6):
        model.late = step >= 3
        train(model, optimizer)
    assert "gradient:b.weight" not in tape.names(2)
    assert "gradient:b.weight" in tape.names(3)
    assert "gradient:b.weight" in tape.names(5)


def test_steps_that_the_script_ends_itself_are_read_once_beside_an_optimizer(record):
    tape = record(explicit_steps=True)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        train(model, optimizer)
        tape.integration.end_explicit_step()
    assert tape.numbers() == [0, 1, 2]
    assert tape.summary("weight:0.weight").count == 32


def test_a_tensor_saved_while_steps_are_passed_over_is_kept_with_its_step(record):
    tape = record(budget=0.001, preset="standard")
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer)
    tape.session.price.charge(60.0)
    tape.session.price.end_step(0)
    for step in range(1, 40):
        if step % 10 == 0:
            tape.integration.save("state", torch.tensor([float(step)]))
        train(model, optimizer)
    saved = {records.step.number: len(records.tensors) for records in tape.steps() if records.tensors}
    assert saved == {10: 1, 20: 1, 30: 1}


def test_a_model_that_was_handed_over_is_seen_inside_a_wrapper_of_it(record):
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)

    tape = record(only=True)
    model = small()
    tape.integration.watch_model(model)
    train(Wrapper(model), torch.optim.SGD(model.parameters(), 0.1))
    assert "output:2" in tape.names()


def test_the_loss_of_a_model_that_was_not_handed_over_is_none_of_ours(record):
    tape = record(only=True)
    mine, other = small(), Generator(nn.Linear(4, 3))
    tape.integration.watch_model(mine)
    optimizer = torch.optim.SGD(mine.parameters(), 0.1)
    x, y = batch()
    (other(x).square().mean() + 1000).backward()
    F.cross_entropy(mine(x), y).backward()
    optimizer.step()
    assert tape.scalar("loss:total") < 100


def test_two_scaled_losses_are_each_unscaled(record):
    tape = record()
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    x, _ = batch()
    first, second = (model(x).mean() * 0 + 1), (model(x).mean() * 0 + 3)
    scaled = [scaler.scale(first), scaler.scale(second)]
    for loss in scaled:
        loss.backward()
    scaler.step(optimizer)
    assert tape.scalar("loss:total") == pytest.approx(2.0)


def test_two_modes_after_each_other_are_two_evaluations(record):
    tape = record()
    model = small()
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    for mode in (Mode.EVAL, Mode.PREDICT):
        tape.set_mode(mode)
        with torch.no_grad():
            x, y = batch()
            F.cross_entropy(model(x), y)
    tape.close()
    assert (len(tape.steps(Mode.EVAL)), len(tape.steps(Mode.PREDICT))) == (1, 1)


def test_a_dropped_model_is_not_kept_alive(record):
    record()
    model = small()
    train(model, torch.optim.SGD(model.parameters(), 0.1), steps=2)
    weight = weakref.ref(model[0].weight)
    del model
    gc.collect()
    assert weight() is None


def test_the_first_step_of_every_model_has_its_outputs(record):
    tape = record()
    generator, discriminator = Generator(nn.Linear(2, 4)), Discriminator(nn.Linear(4, 1))
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in (discriminator, generator)]
    discriminator(torch.randn(8, 4)).mean().backward()
    optimizers[0].step()
    discriminator(generator(torch.randn(8, 2))).mean().backward()
    optimizers[1].step()
    assert "output:Generator.0" in tape.names(1)


def test_an_evaluation_after_the_optimizer_is_gone_is_seen_though_others_live(record):
    other = torch.optim.SGD(Generator(nn.Linear(2, 2)).parameters(), 0.1)
    tape = record()
    model = small()
    train(model, torch.optim.Adam(model.parameters(), 0.1))
    gc.collect()
    model.eval()
    with torch.no_grad():
        x, y = batch()
        F.cross_entropy(model(x), y)
    tape.close()
    assert tape.numbers(Mode.EVAL) == [1]
    assert other is not None


def test_the_mode_that_is_set_holds_where_no_forward_passes_are_heard(record):
    tape = record(preset="free")
    model = small()
    train(model, torch.optim.SGD(model.parameters(), 0.1), steps=2)
    tape.set_mode(Mode.PREDICT)
    with torch.no_grad():
        x, y = batch()
        F.cross_entropy(model(x), y)
    tape.close()
    assert tape.numbers(Mode.PREDICT) == [2]


class Around(torch.optim.Optimizer):
    """Stands around an optimizer as those of training frameworks do, without beginning as one."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def param_groups(self):
        return self.inner.param_groups

    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad(set_to_none)

    def step(self, closure=None):
        self.inner.step(closure)


def test_an_optimizer_inside_a_wrapper_that_is_one_too_is_the_only_one(record, monkeypatch):
    tape = record()
    model = small()
    inner = torch.optim.SGD(model.parameters(), 0.1)
    outer = Around(inner)
    # Other tests may have left optimizers behind.
    monkeypatch.setattr(torch_optimizers, "instances_of", lambda base: [inner, outer])
    train(model, outer, steps=2)
    assert [(records.step.number, records.step.optimizer) for records in tape.steps()] == [(0, ""), (1, "")]


def test_what_runs_while_a_cuda_graph_is_captured_is_left_alone_and_named(record, monkeypatch):
    tape = record(budget=None)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer)
    capturing = [True]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing[0])
    train(model, optimizer)
    capturing[0] = False
    train(model, optimizer)
    assert tape.numbers() == [0, 1]
    assert any("CUDA graph" in reason for reason in tape.coverage.reasons)


class LateNumber:
    """A loss of one element on a device that answers later, as far as reading a loss looks at it."""

    device = torch.device("cuda")

    def is_floating_point(self):
        return True

    def detach(self):
        return self

    def numel(self):
        return 1


def test_a_loss_that_is_not_finite_alarms_also_when_its_device_tells_it_later(record, monkeypatch):
    tape = record(budget=None)
    answers = []
    monkeypatch.setattr(torch_losses, "fetch_number_later", lambda value, use: answers.append(use))
    buffer = StepBuffer()
    tape.integration._phase.train = buffer
    tape.integration._recorders.losses.add("total", LateNumber(), buffer)
    tape.integration._phase.take_step()
    answers[0](1.5)
    assert not tape.integration._allowance.alarmed
    answers[0](math.nan)
    assert tape.integration._allowance.alarmed


def test_a_loss_of_an_evaluation_alarms_nobody(record):
    tape = record(budget=None)
    tape.integration._recorders.losses.add("total", torch.tensor(math.nan), tape.integration._phase.evaluation)
    assert not tape.integration._allowance.alarmed


def test_torch_holds_no_hook_to_be_there_once_nobody_listens(record):
    tape, model = record(), small()
    train(model, torch.optim.SGD(model.parameters(), 0.1), steps=2)
    tape.close()
    assert not torch.nn.modules.module._has_any_global_hook()


@pytest.mark.parametrize("how", [iter, lambda losses: (a for a in losses), lambda losses: map(torch.mean, losses)])
@pytest.mark.parametrize("by_name", [False, True])
def test_losses_that_can_be_gone_through_once_reach_torch_all_the_same(record, how, by_name):
    tape, model = record(), small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    outputs = model(batch()[0])
    losses = how([outputs[:, 0].mean(), outputs[:, 1].mean()])
    torch.autograd.backward(tensors=losses) if by_name else torch.autograd.backward(losses)
    optimizer.step()
    assert model[0].weight.grad.abs().sum() > 0
    assert tape.numbers() == [0]


@pytest.mark.parametrize("budget", [None, 1e-9])
def test_a_complex_number_that_a_backward_pass_starts_from_is_no_loss_and_no_error(record, budget):
    tape = record(budget=budget)
    weight = nn.Parameter(torch.ones(1, dtype=torch.complex64))
    optimizer = torch.optim.SGD([weight], 0.01)
    for _ in range(40):
        optimizer.zero_grad()
        result = weight * 2
        result.backward(torch.ones_like(result))
        optimizer.step()
    assert weight.grad.abs().sum() > 0
    assert "loss:total" not in tape.names()


def test_a_loss_inside_vmap_is_passed_over(record):
    tape, model = record(), small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = batch()

    def loss_of(weights, inputs, label):
        return F.cross_entropy(torch.func.functional_call(model, weights, inputs), label)

    weights = {name: value.detach() for name, value in model.named_parameters()}
    each = torch.func.vmap(torch.func.grad(loss_of), in_dims=(None, 0, 0))(weights, x, y)
    for name, parameter in model.named_parameters():
        parameter.grad = each[name].mean(0)
    optimizer.step()
    assert tape.numbers() == [0]


def test_parameters_that_are_replaced_in_an_optimizer_are_let_go_of(record):
    tape = record(preset="standard", needs=(Selection(kinds=frozenset({Kind.UPDATE})),))
    model = nn.Module()
    model.points = nn.Parameter(torch.randn(5, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    gone = []
    for number in range(4):
        for _ in range(2):
            optimizer.zero_grad()
            model.points.square().sum().backward()
            optimizer.step()
        gone.append(weakref.ref(model.points))
        # As many as before, and more.
        model.points = nn.Parameter(torch.randn(5 + number, 3))
        optimizer.param_groups[0]["params"] = [model.points]
    model.points.square().sum().backward()
    optimizer.step()
    gc.collect()
    assert [reference() for reference in gone] == [None] * 4
    assert tape.numbers() == list(range(9))


class ReturnsItsLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.layer(x)
        return scores, (scores[:, 0] - y).square().mean()


def test_of_a_model_that_returns_its_loss_few_passes_are_looked_at_in_full(monkeypatch):
    looked_at = []
    enter = ForwardRecorder._enter

    def counted(self, module, args):
        looked_at.append(module)
        enter(self, module, args)

    monkeypatch.setattr(ForwardRecorder, "_enter", counted)
    torch.manual_seed(0)
    model = ReturnsItsLoss()
    optimizer, losses, evaluated = torch.optim.SGD(model.parameters(), lr=0.01), [], []
    with barograph.attach(to="memory://steps/returned", watch=False, strict=True, budget=1e-9):
        for step in range(48):
            x, y = batch()
            optimizer.zero_grad()
            _, loss = model(x, y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if step % 12 == 11:
                model.eval()
                with torch.no_grad():
                    evaluated.append(model(*batch())[1].item())
                model.train()
    run = barograph.open("memory://steps/returned")
    assert run.series("loss:model[1]").values == pytest.approx(losses)
    assert run.series("loss:total").values == pytest.approx(losses)
    assert run.series("loss:model[1]", mode=Mode.EVAL).values == pytest.approx(evaluated)
    # Those of steps with tensors, of evaluations and after them.
    assert len(looked_at) < 24
