"""What the graph of a loss tells of how it was made, and which operation made it not finite."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from barograph.capture.torch.bad_operation import bad_operations, steep_operations
from barograph.capture.torch.graph import Walk, operation, saved
from barograph.capture.torch.loss_graph import facts_of_loss
from barograph.model.facts import Fact, fact
from barograph.model.key import Kind
from barograph.model.selection import Selection, every

N, C = 12, 5
FACTS = Selection(kinds=frozenset({Kind.FACT}))
X = torch.randn(N, 4, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(N) % C
CHANCES = torch.rand(N, C, generator=torch.Generator().manual_seed(2))
Y = torch.rand(N, generator=torch.Generator().manual_seed(3))


@pytest.fixture
def out() -> torch.Tensor:
    """What a model with one layer answers: (N, C)."""
    torch.manual_seed(0)
    return nn.Linear(4, C)(X)


def of(loss):
    return facts_of_loss(loss.grad_fn)


TWICE = {
    "softmax into cross entropy": lambda out: F.cross_entropy(out.softmax(1), LABELS),
    "softmax, indexed and clamped": lambda out: F.cross_entropy(out.softmax(1)[:, :C].clamp(1e-7), LABELS),
    "softmax and a small number": lambda out: F.cross_entropy(F.softmax(out, -1) + 1e-8, LABELS),
    "sigmoid into cross entropy": lambda out: F.cross_entropy(out.sigmoid(), LABELS),
    "softmax with label smoothing": lambda out: F.cross_entropy(out.softmax(1), LABELS, label_smoothing=0.1),
    "softmax into soft labels": lambda out: F.cross_entropy(out.softmax(1), CHANCES),
    "sigmoid into bce with logits": lambda out: F.binary_cross_entropy_with_logits(out.sigmoid(), CHANCES),
    "sigmoid, squeezed": lambda out: F.binary_cross_entropy_with_logits(out[:, :1].sigmoid().squeeze(1), Y),
    "sigmoid of a sigmoid": lambda out: F.binary_cross_entropy(out.sigmoid().sigmoid(), CHANCES),
    "softmax by hand": lambda out: -(out.softmax(1).log_softmax(1) * CHANCES).sum(1).mean(),
    "multi-label": lambda out: F.multilabel_soft_margin_loss(out.sigmoid(), CHANCES.round()),
    "one of two losses": lambda out: 0.3 * out.square().mean() + F.cross_entropy(out.softmax(1), LABELS),
    "segmentation": lambda out: F.cross_entropy(
        out.T.reshape(1, C, 3, 4).softmax(1), LABELS.reshape(1, 3, 4)),
    "focal": lambda out: ((1 - (-(b := F.binary_cross_entropy_with_logits(
        out.sigmoid(), CHANCES, reduction="none"))).exp()) ** 2 * b).mean(),
}
ONCE = {
    "cross entropy": lambda out: F.cross_entropy(out, LABELS),
    "log-softmax into nll": lambda out: F.nll_loss(out.log_softmax(1), LABELS),
    "log of softmax into nll": lambda out: F.nll_loss(out.softmax(1).log(), LABELS),
    "log of softmax into cross entropy, which is the same": lambda out: F.cross_entropy(out.softmax(1).log(), LABELS),
    "log-softmax into cross entropy, which is the same": lambda out: F.cross_entropy(out.log_softmax(1), LABELS),
    "sigmoid into bce": lambda out: F.binary_cross_entropy(out.sigmoid(), CHANCES),
    "sigmoid into squares": lambda out: F.mse_loss(out.sigmoid(), CHANCES),
    "softmax into squares": lambda out: F.mse_loss(out.softmax(1), CHANCES),
    "attention": lambda out: F.cross_entropy((out @ out.T).softmax(1) @ out, LABELS),
    "gate": lambda out: F.cross_entropy(out * out.sigmoid(), LABELS),
    "silu": lambda out: F.cross_entropy(F.silu(out), LABELS),
    "residual of a gate": lambda out: F.cross_entropy(out + out.sigmoid(), LABELS),
    "entropy": lambda out: F.cross_entropy(out, LABELS) + (out.softmax(1) * out.log_softmax(1)).sum(1).mean(),
    "distillation": lambda out: F.kl_div((out / 3).log_softmax(1), CHANCES.softmax(1), reduction="batchmean"),
    "layer after a softmax": lambda out: F.cross_entropy(nn.Linear(C, C)(out.softmax(1)), LABELS),
    "contrast": lambda out: F.cross_entropy(out @ out.T / 0.1, torch.arange(N)),
    "scaled chances": lambda out: F.cross_entropy(10 * out.sigmoid(), LABELS),
}


@pytest.mark.parametrize("name", TWICE)
def test_a_softmax_of_a_softmax_is_seen(out, name):
    assert of(TWICE[name](out))[Fact.SOFTMAX_TWICE] == 1.0


@pytest.mark.parametrize("name", ONCE)
def test_a_loss_with_one_softmax_is_well(out, name):
    assert of(ONCE[name](out)) == {Fact.SOFTMAX_TWICE: 0.0, Fact.SOFTMAX_AXIS: 0.0, Fact.BROADCAST: 1.0}


@pytest.mark.parametrize("loss", [
    lambda out: F.nll_loss(out.log_softmax(0), LABELS),
    lambda out: F.nll_loss(out.softmax(0).log(), LABELS),
    lambda out: F.nll_loss((out.softmax(-2) + 1e-9).log(), LABELS),
    lambda out: -out.log_softmax(0)[torch.arange(N), LABELS].mean(),
    lambda out: F.mse_loss(out.softmax(0), CHANCES),
    lambda out: F.cross_entropy(out.softmax(0), LABELS),
])
def test_a_softmax_over_the_samples_is_seen(out, loss):
    found = of(loss(out))
    assert found[Fact.SOFTMAX_AXIS] == 1.0 or found[Fact.SOFTMAX_TWICE] == 1.0


@pytest.mark.parametrize("loss", [
    lambda out: (out[:, :1].softmax(0) * out).sum(0).square().mean(),  # attention over instances
    lambda out: (out.softmax(0) * out).sum(0).square().mean(),
    lambda out: -out[:, :1].log_softmax(0)[3].mean(),  # one of N candidates
    lambda out: -out[:, 0].log_softmax(0)[3],
    lambda out: F.nll_loss(out.T.reshape(1, C, N).log_softmax(1), LABELS[None]),
])
def test_a_softmax_over_candidates_or_instances_is_none_over_samples(out, loss):
    assert of(loss(out))[Fact.SOFTMAX_AXIS] == 0.0


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("loss", [
    lambda out: F.mse_loss(out[:, :1], Y),
    lambda out: F.mse_loss(out[:, 0], Y[:, None]),
    lambda out: F.l1_loss(out[:, :1], Y),
    lambda out: F.smooth_l1_loss(out[:, :1], Y),
    lambda out: F.huber_loss(out[:, :1], Y),
    lambda out: ((out[:, :1] - Y) ** 2).mean(),
    lambda out: (Y[:, None] - out[:, 0]).abs().mean(),
    lambda out: (Y - out[:, :1]).square().sum().sqrt(),
    lambda out: -(Y * torch.log(out[:, :1].sigmoid() + 1e-8)).mean(),
])
def test_targets_that_are_broadcast_against_outputs_make_n_times_n(out, loss):
    assert of(loss(out))[Fact.BROADCAST] == N


@pytest.mark.parametrize("loss", [
    lambda out: F.mse_loss(out[:, 0], Y),
    lambda out: F.mse_loss(out[:, :1], Y[:, None]),
    lambda out: (out[:, 0].unsqueeze(0) - out[:, 0].unsqueeze(1)).relu().mean(),  # ranking by pairs
    lambda out: (out[:, 0].view(N, 1) - out[:, 1].view(1, N)).relu().mean(),
    lambda out: (out[:, 0].unsqueeze(1) - Y).abs().mean(),  # pairs on purpose
    lambda out: (torch.cdist(out, out) - torch.eye(N)).square().mean(),
    lambda out: (out @ out.T - torch.eye(N)).square().mean(),
    lambda out: ((out - out.mean(0)) ** 2).mean(),
    lambda out: F.mse_loss(out, Y.reshape(N, 1).expand(N, C)),
    lambda out: ((torch.ones(4, 4) * nn.Parameter(torch.ones(4))).sum(1) - torch.ones(4)).square().mean() + out.mean(),
])
def test_pairs_that_are_made_on_purpose_are_no_broadcast(out, loss):
    assert of(loss(out))[Fact.BROADCAST] == 1.0


def test_a_loss_hidden_in_a_function_of_the_scripts_own_says_nothing(out):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value.sum()

        @staticmethod
        def backward(ctx, gradient):
            return gradient.expand(N, C)

    assert of(Own.apply(out)) == {}


def test_a_compiled_model_hides_its_softmax_and_not_the_size_of_the_loss():
    model = torch.compile(nn.Sequential(nn.Linear(4, C), nn.Softmax(1)), backend="aot_eager")
    assert of(F.cross_entropy(model(X), LABELS)) == {Fact.BROADCAST: 1.0}


BAD = {
    "log": lambda out: (out.softmax(1) * 0).log().mean(),
    "div": lambda out: (out / (out.detach() * 0)).mean(),
    "exp": lambda out: (torch.exp(out * 1e4) / torch.exp(out * 1e4).sum()).log().mean(),
    "sqrt": lambda out: (out * 0).rsqrt().mean(),
    "sqrt_of_negative": lambda out: (-out.abs() - 1).sqrt().mean(),
    "log_of_negative": lambda out: (-out.abs() - 1).log().mean(),
    "atanh": lambda out: (out * 0 + 1).atanh().mean(),
    "acosh": lambda out: (out * 0).acosh().mean(),
    "erfinv": lambda out: (out * 0 + 1).erfinv().mean(),
    "logit": lambda out: (out * 0).logit().mean(),
    "std": lambda out: out[:1].std(0).sum(),
    "var": lambda out: out[:1].var(0).sum(),
    "softmax": lambda out: out.masked_fill(out == out, -math.inf).softmax(1).sum(),
    "ctc_loss": lambda out: F.ctc_loss(out[:1, None].log_softmax(-1), torch.ones(1, 3).long(), [1], [3]),
    "lgamma": lambda out: (out * 0).lgamma().sum(),
    "xlogy": lambda out: torch.xlogy(out.abs(), -out.abs() - 1).sum(),
    "mean": lambda out: out[LABELS > C].mean(),
    "pow": lambda out: ((-out.abs() - 1) ** 0.5).mean(),
    "mul": lambda out: (out * 1e38 * 1e38).log_softmax(1).sum(),
    "acos": lambda out: (out.abs() + 2).acos().mean(),
}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0:UserWarning")
@pytest.mark.parametrize("name", BAD)
def test_the_operation_that_made_the_loss_not_finite_is_named(out, name):
    loss = BAD[name](out)
    assert not math.isfinite(loss.item())
    assert bad_operations([loss.grad_fn]) == {name: 1.0}


def attention(mask, *, large=False, dtype=torch.float16, passed=lambda scores: scores):
    """A loss over scores of float16 products, of which one overflows, below a mask."""
    queries = torch.ones(2, 4, 8, requires_grad=True)
    scale = torch.ones(2, 4, 1).index_put((torch.tensor(1), torch.tensor(2)), torch.tensor(200.0 if large else 1.0))
    values = (queries * scale).to(dtype)
    scores = passed(values @ values.transpose(-2, -1)) / math.sqrt(8)
    return (scores.masked_fill(mask, -math.inf).softmax(-1).to(dtype) @ values).float().sum()


CAUSAL = ~torch.ones(4, 4, dtype=torch.bool).tril()
ROW = CAUSAL.index_fill(0, torch.tensor(1), True)


@pytest.mark.parametrize(("loss", "name"), [
    (lambda: attention(ROW, dtype=torch.float32), "softmax"),
    (lambda: attention(ROW), "softmax"),
    (lambda: attention(CAUSAL, large=True), "bmm_float16"),
    (lambda: attention(CAUSAL[None], large=True, passed=lambda scores: scores.float()), "bmm_float16"),
    (lambda: attention(ROW[None, None], passed=lambda scores: scores.masked_fill(CAUSAL, 0)[:, None]), "softmax"),
    (lambda: attention(CAUSAL & False, large=True, passed=lambda scores: torch.where(CAUSAL, -math.inf, scores)),
     "bmm_float16"),
])
def test_a_row_that_is_masked_is_told_from_a_product_that_overflows(loss, name):
    loss = loss()
    assert loss.isnan()
    assert bad_operations([loss.grad_fn]) == {name: 1.0}


def test_without_its_mask_the_input_of_a_softmax_is_only_called_infinite():
    def flat(scores):
        return scores.masked_fill(ROW, -math.inf).view(8, 4)

    scores = torch.ones(2, 4, 4, requires_grad=True)
    assert bad_operations([flat(scores.exp()).softmax(-1).sum().grad_fn]) == {"softmax_of_infinity": 1.0}
    assert bad_operations([flat(scores.half().exp()).float().softmax(-1).sum().grad_fn]) == {"softmax_float16": 1.0}


def test_a_product_without_a_mask_overflows():
    values = torch.full((4, 8), 200.0, dtype=torch.float16, requires_grad=True)
    assert bad_operations([((values @ values.T) / 3).softmax(-1).sum().grad_fn]) == {"mm_float16": 1.0}
    assert bad_operations([((values @ values.T) / 3).sin().sum().grad_fn]) == {"mm_float16": 1.0}


def test_a_division_by_zero_of_a_large_product_stays_the_division():
    values = torch.full((4, 8), 60.0, dtype=torch.float16, requires_grad=True)
    large = torch.cat([values, torch.eye(4, 8, dtype=torch.float16) * 1e4]) @ torch.eye(8, dtype=torch.float16)
    assert bad_operations([((large @ values.T) / (values[0, 0].detach() * 0)).sum().grad_fn]) == {"div": 1.0}


NOTHING = {
    "all labels ignored": lambda out: F.cross_entropy(out, torch.full_like(LABELS, -100)),
    "no sample": lambda out: F.cross_entropy(out[:0], LABELS[:0]),
    "pixels": lambda out: F.cross_entropy(out.T[None], torch.full((1, N), -100)),
    "squares of none": lambda out: F.mse_loss(out[:0, 0], Y[:0]),
    "huber of none": lambda out: F.huber_loss(out[:0, 0], Y[:0]),
    "bce of none": lambda out: F.binary_cross_entropy_with_logits(out[:0, 0], Y[:0]),
    "a mask of none": lambda out: out[out > 1e9].mean(),
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_mean_over_nothing_is_named(out, name):
    assert bad_operations([NOTHING[name](out).grad_fn]) == {"mean": 1.0}


STEEP = {
    "acos": lambda square: (square * 0 + 1).acos().sum(),
    "acosh": lambda square: (square * 0 + 1).acosh().sum(),
    "hypot": lambda square: torch.hypot(square * 0, square * 0).sum(),
    "svd": lambda square: torch.linalg.svd(square * 0 + torch.eye(2))[0].sum(),
    "eigh": lambda square: torch.linalg.eigh(square * 0 + torch.eye(2))[1].sum(),
    "qr": lambda square: torch.linalg.qr(square * 0 + 1)[0].sum(),
}
SMOOTH = {
    "acos": lambda square: (square * 0 + 0.5).acos().sum(),
    "svd": lambda square: torch.linalg.svd(square * 0 + torch.diag(torch.tensor([1.0, 2.0])))[0].sum(),
    "eigh": lambda square: torch.linalg.eigh(square * 0 + torch.diag(torch.tensor([1.0, 2.0])))[1].sum(),
    "std of equal values": lambda square: (square * 0).std(),
}


@pytest.mark.parametrize("name", STEEP)
def test_an_operation_with_an_infinite_derivative_is_named(name):
    loss = STEEP[name](torch.rand(2, 2, requires_grad=True))
    assert math.isfinite(loss.item())
    assert list(steep_operations([loss.grad_fn], most_nodes=99, most_secs=1)) == [name]


@pytest.mark.parametrize("name", SMOOTH)
def test_an_operation_inside_its_domain_is_not_steep(name):
    loss = SMOOTH[name](torch.rand(2, 2, requires_grad=True))
    assert not steep_operations([loss.grad_fn], most_nodes=99, most_secs=1)


def test_of_several_operations_that_give_nan_the_nearest_to_the_data_is_named(out):
    loss = ((out.relu() * 0).log().exp() / (out * 0)).sqrt().sum()
    assert bad_operations([loss.grad_fn]) == {"log": 1.0}


def test_an_operation_that_saves_nothing_is_found_by_what_others_saved_of_it(out):
    large = out * 1e38 * 1e38
    loss = large.mean() + large.abs().add(1).add(1).mean()
    assert bad_operations([loss.grad_fn]) == {"mul": 1.0}


@pytest.mark.parametrize(("value", "told"), [(math.nan, {"data": 1.0}), (math.inf, {"data": 1.0}), (-math.inf, {})])
def test_data_that_is_not_finite_is_no_operations_fault(value, told):
    torch.manual_seed(0)
    layer = nn.Linear(4, C)
    bad = X.clone()
    bad[0, 0] = value
    assert bad_operations([layer(bad).square().mean().grad_fn]) == told
    assert bad_operations([nn.Sequential(nn.Conv1d(4, 4, 1), nn.ReLU())(bad.T[None]).mean().grad_fn]) == told


def test_targets_that_are_not_finite_are_data(out):
    targets = torch.zeros(N)
    targets[0] = math.nan
    assert bad_operations([F.mse_loss(out[:, 0], targets).grad_fn]) == {"data": 1.0}


def test_of_weights_that_are_not_finite_only_what_may_have_made_them_so_is_suspected():
    layer = nn.Linear(4, C)
    nn.init.constant_(layer.weight, math.nan)
    assert bad_operations([layer(X).square().mean().grad_fn]) == {}
    assert bad_operations([layer(X).abs().sum(1).sqrt().mean().grad_fn]) == {"sqrt": 0.5}


def test_a_square_root_of_zero_is_steep_and_one_of_more_is_not(out):
    def steep(loss):
        return list(steep_operations([loss.grad_fn], most_nodes=99, most_secs=1))

    assert steep((out * 0).square().sum(1).sqrt().mean()) == ["sqrt"]
    assert steep(((out * 0).abs() ** 0.5).mean()) == ["pow"]
    assert steep((out * 0).square().sum(1).mean()) == []
    assert steep(out.square().sum(1).sqrt().mean()) == []


def test_tensors_that_a_checkpoint_has_packed_away_are_left_there():
    runs = []

    def block(value):
        runs.append(1)
        return value.exp().log()

    value = (X.clone().requires_grad_() * 1e4)
    loss = checkpoint(block, value, use_reentrant=False).mean()
    bad_operations([loss.grad_fn])
    steep_operations([loss.grad_fn], most_nodes=99, most_secs=1)
    assert runs == [1]


def test_tensors_that_a_backward_pass_has_freed_are_none(out):
    loss = out.exp().mean()
    node = loss.grad_fn.next_functions[0][0]
    assert saved(node, "result") is not None
    loss.backward()
    assert saved(node, "result") is None
    assert bad_operations([loss.grad_fn]) == {}


def test_a_walk_is_bounded_and_says_so(out):
    for _ in range(50):
        out = out + 1
    walk = Walk([out.grad_fn], most_nodes=20, most_secs=1)
    assert 0 < len(list(walk)) <= 21
    assert not walk.whole
    whole = Walk([out.grad_fn], most_nodes=1000, most_secs=1)
    assert {operation(node) for node in whole} == {"Add", "Addmm", "AccumulateGrad", "T"}
    assert whole.whole


# In a training


def train(model, optimizer, loss):
    optimizer.zero_grad()
    loss(model(X)).backward()
    optimizer.step()


def told(tape, at=-1):
    return {key.path: value for key, value in tape.steps()[at].scalars.items() if key.kind is Kind.FACT}


def test_a_loss_that_turns_not_finite_names_the_operation_off_schedule(record):
    rare = Selection(kinds=frozenset({Kind.FACT}), schedule=every(100))
    tape = record(preset="free", collections=(rare,))
    model = nn.Linear(4, C)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for loss in [ONCE["cross entropy"]] * 3 + [BAD["log"]]:
        train(model, optimizer, loss)
    assert told(tape, 0)["bad_operation"] == 0.0
    assert "bad_operation" not in told(tape, 2)
    assert told(tape, 3)["bad_operation[log]"] == 1.0


def test_each_batch_without_a_label_is_told_and_not_the_first_few_alone(record):
    tape = record(preset="free", collections=(FACTS,))
    model = nn.Linear(4, C)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(6):
        train(model, optimizer, NOTHING["all labels ignored"])
        train(model, optimizer, ONCE["cross entropy"])
    assert [step for step in range(12) if told(tape, step).get("bad_operation[mean]")] == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize(("asked", "path"), [
    ({"reduction": "sum"}, "cross_entropy_sum"), ({"reduction": "mean"}, "cross_entropy"),
    ({"reduction": "none"}, "cross_entropy"),
])
def test_a_sum_has_a_name_of_its_own_and_is_not_taken_for_a_mean(record, asked, path):
    tape = record(preset="free")
    model = nn.Linear(4, C)
    train(model, torch.optim.SGD(model.parameters(), 0.1), lambda out: F.cross_entropy(out, LABELS, **asked).sum())
    paths = {key.path for key in tape.steps()[0].scalars if key.kind is Kind.LOSS}
    assert paths == {"total", path}


def test_a_batch_that_is_not_finite_is_told_off_schedule(record):
    rare = Selection(kinds=frozenset({Kind.FACT}), schedule=every(100))
    tape = record(preset="free", collections=(rare,))
    model = nn.Linear(4, C)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch in (X, X, X / 0):
        optimizer.zero_grad()
        F.cross_entropy(model(batch), LABELS).backward()
        optimizer.step()
    assert told(tape)["bad_operation[data]"] == 1.0


def test_a_gradient_that_is_not_finite_under_a_finite_loss_names_the_operation(record):
    tape = record(preset="free", collections=(FACTS,))
    model = nn.Linear(4, C)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    train(model, torch.optim.SGD(model.parameters(), 0.1), lambda out: out.square().sum(1).sqrt().mean())
    assert math.isfinite(tape.scalar("loss:total"))
    assert told(tape)["bad_operation[sqrt]"] == 1.0


def test_a_steep_operation_whose_gradient_is_stopped_is_well(record):
    tape = record(preset="free", collections=(FACTS,))
    model = nn.Linear(4, C)
    train(model, torch.optim.SGD(model.parameters(), 0.1), lambda out: (out - 99).relu().sqrt().mean() + out.mean())
    assert told(tape)["bad_operation"] == 0.0
    assert "bad_operation[sqrt]" not in told(tape)


def test_under_a_gradient_scaler_the_loss_is_looked_at_all_the_same(record):
    tape = record(preset="free", collections=(FACTS,))
    model = nn.Linear(4, C)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(TWICE["softmax into cross entropy"](model(X))).backward()
    scaler.step(optimizer)
    assert tape.scalar("fact:softmax_twice") == 1.0


def test_of_several_losses_of_one_step_the_worst_counts(record):
    tape = record(preset="free", collections=(FACTS,))
    model = nn.Linear(4, C)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for loss in (ONCE["cross entropy"], TWICE["softmax into cross entropy"], ONCE["cross entropy"]):
        loss(model(X)).backward()
    optimizer.step()
    assert tape.steps()[0].scalars[fact(Fact.SOFTMAX_TWICE)] == 1.0
