"""Models of every shape keep one set of keys and right numbers."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from barograph.model.key import Kind
from barograph.model.selection import Histogram, Selection
from barograph.model.step import Mode


def small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def train(model, optimizer, steps=1):
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(16, 4)), torch.randint(0, 3, (16,))).backward()
        optimizer.step()


def keys_of(record, model):
    tape = record()
    train(model, torch.optim.SGD(model.parameters(), 0.1), steps=2)
    tape.close()
    return {key for key in tape.names() if key.startswith(("weight", "gradient"))}, tape


def test_one_model_wrapped_each_way_has_one_set_of_keys(record):
    bare, _ = keys_of(record, small())
    parallel, _ = keys_of(record, nn.DataParallel(small()))
    assert parallel == bare


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_model_has_the_keys_of_the_bare_one_and_says_what_it_hides(record):
    bare, _ = keys_of(record, small())
    for compiled_first in (True, False):
        torch._dynamo.reset()
        model = small()
        before = torch.compile(model, backend="eager", fullgraph=True) if compiled_first else None
        tape = record()
        model = before if before is not None else torch.compile(model, backend="eager", fullgraph=True)
        train(model, torch.optim.SGD(model.parameters(), 0.1), steps=2)
        tape.close()
        assert {key for key in tape.names() if key.startswith(("weight", "gradient"))} == bare
        assert "output:model" in tape.names()
        assert "loss:total" in tape.names()
        assert any("compiled" in reason for reason in tape.coverage.reasons)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_model_compiled_in_place_is_found_by_its_parameters(record):
    torch._dynamo.reset()
    model = small()
    tape = record()
    model.compile(backend="eager", fullgraph=True)
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    assert "weight:0.weight" in tape.names()
    assert any("compiled" in reason for reason in tape.coverage.reasons)


def test_activation_checkpointing_counts_each_output_once(record):
    class Checkpointed(nn.Module):
        def __init__(self, reentrant):
            super().__init__()
            self.block, self.head, self.reentrant = small(), nn.Linear(3, 3), reentrant

        def forward(self, x):
            return self.head(checkpoint(self.block, x, use_reentrant=self.reentrant))

    for reentrant in (False, True):
        tape = record()
        model = Checkpointed(reentrant)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x = torch.randn(16, 4, requires_grad=True)
        loss = F.cross_entropy(model(x), torch.zeros(16, dtype=torch.long))
        loss.backward()
        optimizer.step()
        tape.close()
        assert tape.numbers(Mode.EVAL) == []
        assert tape.summary("output:block.0").count == 16 * 8
        assert tape.scalar("loss:total") == pytest.approx(loss.item())


def test_a_model_whose_whole_pass_is_checkpointed_trains(record):
    for reentrant in (False, True):
        tape = record()
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x = torch.randn(16, 4, requires_grad=True)
        F.cross_entropy(checkpoint(model, x, use_reentrant=reentrant), torch.zeros(16, dtype=torch.long)).backward()
        optimizer.step()
        tape.close()
        assert tape.numbers(Mode.EVAL) == []
        assert tape.summary("output:0").count == 16 * 8


@pytest.mark.parametrize("outer", [False, True], ids=["alone", "within another"])
def test_without_gradients_a_checkpointed_model_is_evaluated(record, outer):
    tape = record()
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer)

    def called(x):
        return checkpoint(model, x, use_reentrant=True)

    with torch.no_grad():
        x = torch.randn(16, 4, requires_grad=True)
        F.cross_entropy(checkpoint(called, x, use_reentrant=True) if outer else called(x),
                        torch.zeros(16, dtype=torch.long))
    train(model, optimizer)
    tape.close()
    assert len(tape.numbers(Mode.EVAL)) == 1


def test_tied_weights_are_recorded_once_under_their_first_name(record):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x):
            return self.head(self.embed(x))

    tape = record()
    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    F.cross_entropy(model(torch.tensor([1, 2])), torch.tensor([2, 3])).backward()
    optimizer.step()
    assert tape.names(kind="weight") == ["weight:embed.weight"]


def test_frozen_and_unused_parameters(record):
    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.unused = small(), nn.Linear(4, 4)
            self.none, self.parts = nn.ModuleList(), nn.ParameterList()  # never called
            self.body[0].requires_grad_(False)

        def forward(self, x):
            return self.body(x)

    tape = record()
    model = Partly()
    train(model, torch.optim.SGD(model.parameters(), 0.1), steps=2)
    assert "gradient:body.0.weight" not in tape.names()
    assert "gradient:unused.weight" not in tape.names()
    assert "weight:unused.weight" in tape.names()
    reasons = tape.coverage.reasons
    assert "1 of 4 leaf modules never ran in training: unused" in reasons
    assert "no gradient for 2 trainable parameters: unused.bias, unused.weight" in reasons
    assert not tape.coverage.complete


def test_a_branch_that_is_used_late_is_not_named_any_more_once_it_had_a_gradient(record):
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.late, self.used = small(), nn.Linear(4, 3), False

        def forward(self, x):
            return self.body(x) + self.late(x) if self.used else self.body(x)

    tape = record()
    model = Branching()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer)
    assert any("no gradient" in reason for reason in tape.coverage.reasons)
    model.used = True
    train(model, optimizer)
    assert tape.coverage.complete


def test_a_parameter_whose_gradient_nobody_asked_for_is_not_named(record):
    one = Selection(kinds=frozenset({Kind.GRADIENT}), include=("0.*",))
    every = Selection(kinds=frozenset({Kind.WEIGHT, Kind.OUTPUT, Kind.LOSS}))
    tape = record(preset="free", collections=(one, every))
    train(small_model := small(), torch.optim.SGD(small_model.parameters(), 0.1))
    assert tape.coverage.gradients_seen == 2
    assert tape.coverage.complete


def test_a_trainable_parameter_in_no_optimizer_is_recorded_from_the_second_step(record):
    tape = record()
    model = small()
    train(model, torch.optim.SGD(model[0].parameters(), 0.1), steps=2)
    assert "weight:2.weight" not in tape.names(0)
    assert "weight:2.weight" in tape.names(1)


def test_a_trainable_model_that_no_optimizer_holds_is_not_mistaken_for_forgotten_parameters(record):
    tape = record()
    student, average = small(), nn.Sequential(nn.Linear(4, 3), nn.Identity())
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    for _ in range(3):
        x = torch.randn(16, 4)
        with torch.no_grad():
            target = average(x)
        optimizer.zero_grad()
        F.mse_loss(student(x), target).backward()
        optimizer.step()
    assert not any("Sequential#2" in name for name in tape.names())
    assert tape.coverage.parameters == 4
    assert tape.coverage.complete


@dataclasses.dataclass
class Answer:
    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...]
    note: str = "text"


class Returns(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.linear, self.how = nn.Linear(4, 3), how

    def forward(self, x):
        return self.how(x)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (lambda x: (x, (x + 1, None)), {"output:part[0]", "output:part[1][0]"}),
        (lambda x: {"logits": x, "state": [x]}, {"output:part[logits]", "output:part[state][0]"}),
        (lambda x: Answer(x, (x, x)), {"output:part[logits]", "output:part[hidden][0]", "output:part[hidden][1]"}),
    ],
)
def test_tuples_dicts_and_dataclasses_are_taken_apart(record, how, expected):
    class Part(nn.Module):
        def forward(self, x):
            return how(x)

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.part = nn.Linear(4, 3), Part()

        def forward(self, x):
            self.part(x)
            return self.linear(x)

    tape = record()
    model = Whole()
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    assert set(tape.names(kind="output:part")) == expected


def test_a_loss_that_the_model_returns_is_seen_in_training_and_in_evaluation(record):
    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x, y):
            logits = self.linear(x)
            return logits, ((logits - y) ** 2).mean()

    tape = record()
    model = WithLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    _, loss = model(torch.randn(8, 4), torch.randn(8, 3))
    (loss / 4).backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        _, validation = model(torch.randn(8, 4), torch.randn(8, 3))
    tape.close()
    assert tape.scalar("loss:model[1]") == pytest.approx(loss.item())
    assert tape.scalar("loss:total") == pytest.approx(loss.item() / 4)
    assert tape.scalar("loss:model[1]", mode=Mode.EVAL) == pytest.approx(validation.item())


def test_units_are_neurons_of_a_linear_layer_and_channels_of_a_convolution(record):
    units = Selection(kinds=frozenset({Kind.OUTPUT}), units=True)
    tape = record(preset="free", collections=(units,))
    model = nn.Sequential(nn.Conv2d(1, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 36, 7))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.randn(4, 1, 8, 8)
    model(x).sum().backward()
    hidden = torch.relu(model[0](x))
    optimizer.step()
    convolution = tape.units("output:1")
    assert (convolution.count, convolution.columns.shape) == (4 * 36, (5, 7))
    assert convolution.columns[:, 0].tolist() == (hidden == 0).sum(dim=(0, 2, 3)).tolist()
    assert tape.units("output:3").columns.shape[0] == 7


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_samples_of_several_lengths_are_counted_whole_and_without_units(record, layout):
    tape = record(preset="free", collections=(Selection(kinds=frozenset({Kind.OUTPUT, Kind.BATCH}), units=True),))
    model = nn.Linear(4, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    samples = torch.nested.nested_tensor([torch.ones(3, 4), torch.full((2, 4), 3.0)], layout=layout)
    sum(part.sum() for part in model(samples).unbind()).backward()
    optimizer.step()
    tape.close()
    assert (tape.summary("batch:model[0]").count, tape.summary("batch:model[0]").max) == (20, 3.0)
    assert tape.summary("output:model").count == 40


def test_channels_last_gives_the_units_of_the_plain_layout(record):
    units = Selection(kinds=frozenset({Kind.OUTPUT}), units=True, include=("0",))
    sums = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(1)
        tape = record(preset="free", collections=(units,))
        model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Flatten(), nn.Linear(5 * 36, 2)).to(memory_format=memory_format)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model(torch.randn(4, 3, 8, 8).to(memory_format=memory_format)).sum().backward()
        optimizer.step()
        tape.close()
        sums.append(tape.units("output:0").columns[:, 5])
    assert sums[0] == pytest.approx(sums[1], rel=1e-4, abs=1e-3)


def test_a_functional_activation_is_seen_at_the_input_of_the_next_layer(record):
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.third(torch.tanh(self.second(F.relu(self.first(x)))))

    inputs = Selection(kinds=frozenset({Kind.INPUT}), layers=frozenset({"relu", "tanh"}), units=True)
    tape = record(preset="free", collections=(inputs,))
    model = Functional()
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    assert set(tape.names(kind="input")) == {"input:second", "input:third"}
    layers = {str(subject.key): subject.layer for subject in tape.steps()[0].subjects}
    assert (layers["input:second"], layers["input:third"]) == ("relu", "tanh")


def test_the_output_of_an_activation_module_is_not_taken_for_a_functional_one(record):
    inputs = Selection(kinds=frozenset({Kind.INPUT}), layers=frozenset({"relu"}), units=True)
    tape = record(preset="free", collections=(inputs,))
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 9, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        model(torch.randn(2, 1, 8, 8)).sum().backward()
        optimizer.step()
    assert tape.names(kind="input") == []


def test_saturation_is_counted_at_the_input_of_a_tanh(record):
    inputs = Selection(kinds=frozenset({Kind.INPUT}), layers=frozenset({"Tanh"}), units=True)
    tape = record(preset="free", collections=(inputs,))
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.copy_(torch.tensor([100.0, 0.0, -100.0]))
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    model(torch.randn(16, 4)).sum().backward()
    optimizer.step()
    assert tape.units("input:1").columns[:, 1].tolist() == [16, 0, 16]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_models_in_other_precisions(record, dtype):
    tape = record(preset="exact")
    model = small().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loss = model(torch.randn(16, 4, dtype=dtype)).square().mean()
    loss.backward()
    optimizer.step()
    weight = model[0].weight.double()
    summary = tape.summary("weight:0.weight")
    assert summary.sum == pytest.approx(weight.sum().item(), rel=1e-5, abs=1e-5)
    assert sum(summary.exponents.values()) == summary.nonzero
    dtypes = {subject.dtype for subject in tape.steps()[0].subjects if subject.key.kind is Kind.WEIGHT}
    assert dtypes == {str(dtype).removeprefix("torch.")}


def test_sparse_gradients_count_the_rows_they_leave_out_as_zeros(record):
    tape = record()
    model = nn.Sequential(nn.Embedding(100, 4, sparse=True), nn.Flatten(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.tensor([[1, 2], [3, 1]])).sum().backward()
    optimizer.step()
    summary = tape.summary("gradient:0.weight")
    dense = model[0].weight.grad.to_dense()
    assert summary.count == 400
    assert summary.zeros == (dense == 0).sum().item()
    assert summary.sum == pytest.approx(dense.sum().item(), rel=1e-5)


def test_whole_tensors_are_kept_where_a_collection_says_so(record):
    raw = Selection(name="first", kinds=frozenset({Kind.WEIGHT}), include=("0.*",), raw=True)
    tape = record(preset="free", collections=(raw,))
    model = small()
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    tensors = {str(key): tensor for key, tensor in tape.steps()[0].tensors.items()}
    assert set(tensors) == {"weight:0.weight", "weight:0.bias"}
    assert tensors["weight:0.bias"].data == model[0].bias.detach().numpy().tobytes()


def test_histograms_only_where_they_are_asked_for(record):
    asked = Selection(kinds=frozenset({Kind.GRADIENT}), histogram=Histogram.EXACT)
    tape = record(collections=(asked,))
    model = small()
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    assert tape.summary("gradient:0.weight").exponents
    assert not tape.summary("weight:0.weight").exponents


def test_a_tensor_with_gaps_in_memory_is_read_right(record):
    tape = record()
    whole = torch.randn(6, 8)
    model = nn.Linear(4, 6, bias=False)
    model.weight = nn.Parameter(whole[:, ::2])
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    assert tape.summary("weight:weight").sum == pytest.approx(whole[:, ::2].sum().item(), rel=1e-5)


def test_a_scaler_that_skips_a_step_makes_a_step_that_says_so(record):
    tape = record()
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    for factor in (1.0, float("inf"), 1.0):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(torch.randn(16, 4)), torch.randint(0, 3, (16,)))
        before = model[0].weight.detach().clone()
        scaler.scale(loss).backward()
        if factor != 1.0:
            model[0].weight.grad.fill_(factor)
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(before, model[0].weight) == (factor != 1.0)
    assert [(records.step.number, records.step.skipped) for records in tape.steps()] == [
        (0, False), (1, True), (2, False),
    ]
    assert tape.scalar("loss:total") == pytest.approx(loss.item(), rel=1e-5)
    assert tape.summary("gradient:0.weight").l2 == pytest.approx(model[0].weight.grad.norm().item(), rel=1e-5)


def test_a_fused_optimizer_under_a_scaler_gives_unscaled_gradients(record):
    tape = record()
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), 0.1, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    expected = torch.autograd.grad(F.cross_entropy(model(x), y), model[0].weight)[0].norm().item()
    for factor in (1.0, float("inf")):
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        if factor != 1.0:
            model[0].weight.grad.fill_(factor)
        scaler.step(optimizer)
        scaler.update()
    assert tape.summary("gradient:0.weight", 0).l2 == pytest.approx(expected, rel=1e-4)
    assert [records.step.skipped for records in tape.steps()] == [False, True]
