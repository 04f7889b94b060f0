"""What a model is fed: statistics, how much, which content, and whether it was met before."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from barograph.capture.samples import MOST_SAMPLES, SampleMemory
from barograph.capture.torch.digests import sample_sums, sums_on_device
from barograph.capture.torch.gathering import Gathering
from barograph.measures.digests import row_sums
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode

DATA = Selection(kinds=frozenset({Kind.BATCH, Kind.FACT}))


def small(features: int = 4, classes: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, classes))


def step(model, optimizer, x, y=None):
    optimizer.zero_grad()
    out = model(x)
    (out.square().mean() if y is None else F.cross_entropy(out, y)).backward()
    optimizer.step()


def trained(model=None, rate=0.1):
    model = model or small()
    return model, torch.optim.SGD(model.parameters(), rate)


def evaluate(model, *batches, labels=None):
    model.eval()
    with torch.no_grad():
        for x in batches:
            model(x)
    model.train()


# Statistics


def test_a_batch_has_statistics_and_one_unit_a_feature(record):
    tape = record(preset="free", collections=(DATA,))
    model, optimizer = trained()
    x = torch.randn(16, 4) * 3 + 1
    step(model, optimizer, x)
    assert tape.summary("batch:model[0]").sum == pytest.approx(x.double().sum().item(), rel=1e-5)
    units = tape.units("batch:model[0]")
    assert units.count == 16
    assert units.columns[:, 5] == pytest.approx(x.double().sum(0).numpy(), rel=1e-5)
    assert tape.scalar("fact:batch_size") == 16


def first_layer(layer: nn.Module) -> nn.Module:
    return nn.Sequential(layer, nn.Flatten(), nn.LazyLinear(1))


class Turned(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 1, 3)

    def forward(self, x):
        return self.convolution(x.permute(0, 3, 1, 2))


@pytest.mark.parametrize(
    ("model", "shape", "units"),
    [
        (first_layer(nn.Conv2d(3, 2, 3)), (4, 3, 8, 8), 3),
        (first_layer(nn.Conv1d(5, 2, 3)), (4, 5, 9), 5),
        (first_layer(nn.Linear(9, 2)), (4, 5, 9), 9),
        (Turned(), (4, 8, 8, 3), 3),
    ],
    ids=["images", "signals", "sequences", "images as files hold them"],
)
def test_the_units_of_a_batch_are_its_channels_or_its_features(record, model, shape, units):
    model(torch.randn(shape))
    tape = record(preset="free", collections=(DATA,))
    step(*trained(model), torch.randn(shape))
    assert len(tape.units("batch:model[0]").columns) == units


def test_batches_of_accumulated_steps_merge(record):
    tape = record(preset="free", collections=(DATA,))
    model, optimizer = trained()
    for _ in range(3):
        model(torch.randn(5, 4)).sum().backward()
    optimizer.step()
    assert tape.summary("batch:model[0]").count == 60
    assert tape.scalar("fact:batch_size") == 15


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, values=None, labels=None):
        return F.cross_entropy(self.linear(values), labels)


def test_what_is_handed_over_by_name_is_seen_and_labels_are_no_input(record):
    tape = record(preset="free", collections=(DATA,))
    model, optimizer = trained(Named())
    model(values=torch.ones(6, 4), labels=torch.zeros(6, dtype=torch.long)).backward()
    optimizer.step()
    assert tape.names(kind="batch") == ["batch:model[values]"]
    assert tape.scalar("fact:batch_size") == 6


class Spoiling(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x):
        return self.linear(x.mul_(0))


def test_an_input_is_read_before_the_model_changes_it(record):
    tape = record(preset="free", collections=(DATA,))
    step(*trained(Spoiling()), torch.ones(2, 4))
    assert tape.summary("batch:model[0]").sum == 8


def test_of_a_model_that_is_called_in_parts_the_first_part_takes_the_batch(record):
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(4, 2), nn.Linear(2, 4)

    tape = record(preset="free", collections=(DATA,))
    model = Parts()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    tape.integration.watch_model(model)
    for _ in range(2):
        model.decoder(model.encoder(torch.randn(7, 4))).sum().backward()
        optimizer.step()
    assert tape.summary("batch:model[0]").count == 28
    assert tape.scalar("fact:batch_size") == 7


def test_tokens_have_shares_of_padding_and_no_units(record):
    tape = record(preset="free", collections=(DATA,))
    model = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(32, 2))
    tokens = torch.full((4, 8), 7)
    tokens[:, 6:] = 0
    tokens[0, 0] = 3
    step(*trained(model), tokens)
    assert tape.scalar("fact:padding[0]") == 8 / 32
    assert tape.scalar("fact:padding[7]") == 23 / 32
    assert tape.summary("batch:model[0]").max == 7
    assert not any(records.units for records in tape.steps())


def test_nothing_of_data_is_recorded_where_nothing_asks(record):
    tape = record(preset="moments")
    step(*trained(), torch.randn(4, 4), torch.tensor([0, 1, 2, 0]))
    assert [name for name in tape.names() if name.startswith(("fact", "batch", "label", "confusion", "target"))] == []


def test_a_step_of_which_nothing_of_data_is_asked_hears_no_forward_passes(record):
    rare = Selection(kinds=frozenset({Kind.BATCH}), schedule=Schedule(every=3, modes=frozenset({Mode.TRAIN})))
    tape = record(preset="free", collections=(rare,))
    model, optimizer = trained()
    heard = []
    for _ in range(7):
        heard.append(bool(torch.nn.modules.module._global_forward_hooks))
        step(model, optimizer, torch.randn(4, 4))
    assert heard == [True, False, False, True, False, False, True]
    assert [at for at in range(7) if tape.names(at, kind="batch")] == [0, 3, 6]


# Digests


def test_the_same_content_has_the_same_digest_whatever_its_order_and_layout(record):
    tape = record(preset="free", collections=(DATA,))
    model, optimizer = trained(nn.Sequential(nn.Flatten(), nn.Linear(12, 1)))
    x = torch.randn(8, 3, 2, 2)
    for batch in (x, x.flip(0), x.to(memory_format=torch.channels_last), x + 1):
        step(model, optimizer, batch)
    digests = [tape.scalar("fact:batch_digest", at) for at in range(4)]
    assert digests[0] == digests[1] == digests[2] != digests[3]
    assert all(digest == int(digest) and 0 <= digest < 2**52 for digest in digests)


def test_samples_of_one_number_are_told_apart_by_the_batch_digest(record):
    tape = record(preset="free", collections=(DATA,))
    model, optimizer = trained(nn.Linear(1, 1))
    for _ in range(2):
        step(model, optimizer, torch.randn(8, 1))
    assert tape.scalar("fact:batch_digest", 0) != tape.scalar("fact:batch_digest", 1)


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool,
     torch.complex64],
)
def test_samples_of_every_type_have_sums_and_alike_means_one_value(dtype):
    x = torch.zeros(3, 4, dtype=dtype)
    x[1, 2] = 1
    sums, alike = sample_sums([x], 3)
    assert sums[0] == sums[2] != sums[1]
    assert alike.tolist() == [1, 0, 1] or dtype is torch.complex64


def test_a_device_gives_the_sums_that_memory_gives():
    words = torch.randint(-(2**31), 2**31 - 1, (9, 50), dtype=torch.int32)
    assert sums_on_device(words).tolist() == row_sums(words.numpy()).tolist()


def test_what_lies_on_a_device_is_told_when_the_copy_has_come(monkeypatch):
    from barograph.capture.buffer import StepBuffer
    from barograph.capture.torch import gathering as torch_gathering

    class OnDevice:
        shape, device = (2,), torch.device("cuda")

        def detach(self):
            return self

    class Late:
        def __init__(self, source):
            pass

        def numbers(self):
            return np.array([4, 5])

    told = []
    monkeypatch.setattr(torch_gathering, "FetchedTensor", Late)
    buffer = StepBuffer()
    gathering = Gathering(lambda late, columns, training: told.append((late is buffer, columns.tolist(), training)))
    gathering.add(OnDevice())
    gathering.settle(buffer, training=True)
    assert told == []
    for merge_in in buffer.deferred:
        merge_in(buffer)
    assert told == [(True, [4, 5], True)]


# Samples met before


def run(record, train_sets, *evaluations, size=16, proper=True, loss=False):
    """Train on slices of the first, evaluate on the others, and return the tape."""
    tape = record(preset="free", collections=(DATA,))
    features = train_sets.shape[1]
    model, optimizer = trained(small(features))
    for x in train_sets.split(size):
        step(model, optimizer, x, torch.zeros(len(x), dtype=torch.long))
    if proper:
        model.eval()
    with torch.no_grad():
        for x in evaluations:
            for part in x.split(size):
                out = model(part)
                if loss:
                    F.cross_entropy(out, torch.zeros(len(part), dtype=torch.long))
    tape.close()
    return tape


def test_an_evaluation_on_samples_of_training_is_known(record):
    x = torch.randn(128, 6)
    tape = run(record, x[:96], torch.cat([x[64:80], x[96:]]))
    assert tape.scalar("fact:seen_in_training", mode=Mode.EVAL) == pytest.approx(16 / 48)
    assert tape.scalar("fact:samples_known", mode=Mode.EVAL) == 96


def test_duplicates_of_training_samples_are_counted(record):
    x = torch.randn(128, 20)
    tape = run(record, x[:96], torch.cat([x[90:96], x[90:96], x[96:]]))
    assert tape.scalar("fact:samples_repeated", mode=Mode.EVAL) == 2


def test_an_evaluation_on_other_samples_has_seen_none(record):
    x = torch.randn(128, 6)
    tape = run(record, x[:96], x[96:])
    assert tape.scalar("fact:seen_in_training", mode=Mode.EVAL) == 0
    assert tape.scalar("fact:batch_size", mode=Mode.EVAL) == 32


def test_an_evaluation_that_goes_over_training_and_validation_tells_of_each(record):
    x = torch.randn(128, 6)
    train, rest = x[:96].clone(), x[96:].clone()
    tape = run(record, train, train, rest)
    assert tape.scalar("fact:seen_in_training[part0]", mode=Mode.EVAL) == 1
    assert tape.scalar("fact:seen_in_training[part1]", mode=Mode.EVAL) == 0
    assert tape.scalar("fact:seen_in_training", mode=Mode.EVAL) == pytest.approx(0.75)


def test_the_training_set_that_is_embedded_after_the_validation_loader_is_a_set_of_its_own(record):
    tape = record(preset="free", collections=(DATA,))
    model, optimizer = trained(small(6))
    x = torch.randn(128, 6)
    for batch in x[:96].split(16):
        step(model, optimizer, batch, torch.zeros(16, dtype=torch.long))
    model.eval()
    with torch.no_grad():
        for held_out in DataLoader(x[96:], 32):  # type: ignore[arg-type]  # a tensor has what a map-style set needs
            model(held_out)
        model(x[:96])
        model(x[96:])
    tape.close()
    assert tape.scalar("fact:seen_in_training[part0]", mode=Mode.EVAL) == 0
    assert tape.scalar("fact:seen_in_training[part1]", mode=Mode.EVAL) == 0.75


def test_blank_samples_are_not_known_again(record):
    x = torch.randn(128, 6)
    x[0] = x[100] = 0
    tape = run(record, x[:96], x[96:])
    assert tape.scalar("fact:seen_in_training", mode=Mode.EVAL) == 0


def test_rows_of_few_small_numbers_that_repeat_by_themselves_are_not_known_again(record):
    x = torch.randint(0, 2, (512, 6)).float()
    tape = run(record, x[:256], x[256:])
    assert tape.scalar("fact:seen_in_training", mode=Mode.EVAL) < 0.05


def test_as_many_as_the_repetition_within_the_evaluation_lets_expect_are_taken_off():
    memory, drawn = SampleMemory(), np.random.default_rng(0)
    memory.learn(np.arange(400))
    by_chance = drawn.integers(0, 1000, 150)
    assert np.isin(by_chance, np.arange(400)).mean() > 0.35
    assert memory.share_known(by_chance) < 0.05


def test_what_a_training_computes_on_the_side_is_no_evaluation_that_could_leak(record):
    x = torch.randn(64, 6)
    assert "fact:seen_in_training" not in run(record, x, x, proper=False).names(mode=Mode.EVAL)


def test_what_is_evaluated_before_a_training_in_eval_mode_is_no_part_of_it(record):
    tape = record(preset="free", collections=(DATA,))
    model, optimizer = trained(small(6))
    train, held_out = torch.randn(32, 6), torch.randn(20, 6)
    model.eval()
    for batch in train.split(16):
        with torch.no_grad():
            F.cross_entropy(model(held_out), torch.zeros(20, dtype=torch.long))
        step(model, optimizer, batch, torch.zeros(16, dtype=torch.long))
    tape.close()
    assert tape.scalar("fact:batch_size", 0) == 16
    assert tape.scalar("fact:seen_in_training", 1, mode=Mode.EVAL) == 0


def test_an_evaluation_with_a_loss_is_one_without_eval(record):
    x = torch.randn(64, 6)
    tape = run(record, x, x.clone(), proper=False, loss=True)
    assert tape.scalar("fact:seen_in_training", mode=Mode.EVAL) == 1


def test_nodes_that_are_fed_and_not_trained_on_are_not_taken_for_training_samples(record):
    tape = record(preset="free", collections=(DATA,))
    model, optimizer = trained(small(6))
    nodes, labels, mask = torch.randn(50, 6), torch.randint(0, 3, (50,)), torch.arange(50) < 21
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(nodes)[mask], labels[mask]).backward()
        optimizer.step()
    evaluate(model, nodes)
    tape.close()
    assert "fact:seen_in_training" not in tape.names(mode=Mode.EVAL)


def test_a_second_pass_over_the_data_was_seen_before(record):
    tape = record(preset="free", collections=(DATA,))
    model, optimizer = trained(small(6))
    x = torch.randn(32, 6)
    for batch in (x[:16], x[16:], x[:16]):
        step(model, optimizer, batch)
    assert [tape.scalar("fact:seen_before", at) for at in range(3)] == [0, 0, 1]


def test_samples_are_remembered_also_where_only_evaluations_ask(record):
    asks = Selection(kinds=frozenset({Kind.FACT}), include=("seen_in_training*",),
                     schedule=Schedule(modes=frozenset({Mode.EVAL})))
    tape = record(preset="moments", collections=(asks,))
    model, optimizer = trained(small(6))
    x = torch.randn(16, 6)
    step(model, optimizer, x)
    evaluate(model, x)
    tape.close()
    assert tape.scalar("fact:seen_in_training", mode=Mode.EVAL) == 1


def test_the_memory_of_samples_is_bounded():
    memory = SampleMemory()
    assert memory.learn(np.arange(MOST_SAMPLES - 1)) == 0
    assert memory.learn(np.arange(MOST_SAMPLES - 3, MOST_SAMPLES + 1)) == 0.5
    assert len(memory) <= MOST_SAMPLES
    assert memory.share_known(np.array([5, 6, 2 * MOST_SAMPLES, 3 * MOST_SAMPLES])) == 0.5
    assert memory.share_known(np.zeros(0, np.int64)) == 0


def test_an_evaluation_is_heard_though_steps_that_record_nothing_hear_no_forward_passes(record):
    tape = record(budget=0.001, preset="free", collections=(DATA,))
    model, optimizer = trained(small(6))
    x = torch.randn(16, 6)
    step(model, optimizer, x)
    tape.session.price.spent_secs += 60.0
    for _ in range(50):
        step(model, optimizer, x)
    assert not torch.nn.modules.module._global_forward_hooks
    spent, tape.session.price.spent_secs = tape.session.price.spent_secs, 0.0
    evaluate(model, x)
    assert torch.nn.modules.module._global_forward_hooks
    tape.session.price.spent_secs = spent
    step(model, optimizer, x)
    assert not torch.nn.modules.module._global_forward_hooks
    tape.close()
    assert tape.scalar("fact:seen_in_training", mode=Mode.EVAL) == 1
    assert tape.numbers(Mode.EVAL) == [51]


# Odd inputs


class Taking(nn.Module):
    """Takes anything."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, *args, **kwargs):
        return self.weight * 2


ODD = {
    "nothing": lambda: (),
    "a number": lambda: (3,),
    "no axes": lambda: (torch.tensor(2.0),),
    "no samples": lambda: (torch.zeros(0, 4),),
    "no features": lambda: (torch.zeros(4, 0),),
    "sparse": lambda: (torch.eye(4).to_sparse(),),
    "compressed": lambda: (torch.eye(4).to_sparse_csr(),),
    "images of several sizes": lambda: ([torch.ones(3, 4, 5), torch.ones(3, 2, 2)],),
    "complex": lambda: (torch.ones(4, 4, dtype=torch.complex64),),
    "conjugate": lambda: (torch.ones(4, 4, dtype=torch.complex64).conj(),),
    "yes or no": lambda: (torch.ones(4, 4, dtype=torch.bool),),
    "half": lambda: (torch.ones(4, 4, dtype=torch.bfloat16),),
    "eight bits": lambda: (torch.ones(4, 4).to(torch.float8_e4m3fn),),
    "bytes": lambda: (torch.ones(4, 3, 8, 8, dtype=torch.uint8),),
    "one for all samples": lambda: (torch.ones(4, 1).expand(4, 6),),
    "not a number": lambda: (torch.full((4, 6), torch.nan),),
    "packed": lambda: (nn.utils.rnn.pack_sequence([torch.ones(3, 2), torch.ones(2, 2)]),),
    "nested": lambda: (torch.nested.nested_tensor([torch.ones(3, 2), torch.ones(2, 2)], layout=torch.jagged),),
    "nested in strides": lambda: (torch.nested.nested_tensor([torch.ones(3, 2), torch.ones(2, 2)]),),
    "a graph": lambda: (torch.randn(5, 3), torch.tensor([[0, 1], [1, 2]])),
    "text": lambda: (["a", "b"],),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("made", ODD.values(), ids=ODD)
def test_odd_inputs_are_read_as_far_as_they_can_be(record, made):
    args = made()
    everything = Selection(kinds=frozenset(Kind))
    tape = record(preset="free", collections=(everything,))
    model = Taking()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        F.mse_loss(model(*args), torch.zeros(())).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        model(*args)
    tape.close()
    assert tape.numbers() == [0, 1]
