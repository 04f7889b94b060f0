"""Labels and answers are counted from what loss functions are handed; nothing of them is kept one by one."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from barograph.capture import label_counts
from barograph.capture.array_labels import gather_labels
from barograph.capture.buffer import StepBuffer
from barograph.errors import ShapeMismatch, UnsupportedCapture
from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.model.step import Mode

LABELS = Selection(kinds=frozenset({Kind.LABEL, Kind.CONFUSION, Kind.FACT, Kind.TARGET}))


class Answering(nn.Module):
    """Answers what it is told to, whatever it is asked."""

    def __init__(self, *answers):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.answers = list(answers)

    def forward(self, x):
        return self.answers.pop(0) * self.scale


def hot(answers, classes=3):
    return F.one_hot(torch.tensor(answers), classes).float()


@pytest.fixture
def told(record):
    """Return a function that makes one training step with a loss, and returns its records by name, without the loss."""

    def step(loss, outputs, target, **options):
        tape = record(preset="free", collections=(LABELS,))
        model = Answering(outputs)
        optimizer = torch.optim.SGD(model.parameters(), 0.0)
        loss(model(torch.randn(len(outputs), 2)), target, **options).mean().backward()
        optimizer.step()
        tape.close()
        found = {str(key): value for key, value in tape.steps()[-1].scalars.items()}
        return {name: value for name, value in found.items() if name.startswith(("label", "confusion", "fact"))}

    return step


def counts(told, kind):
    return {name.partition("[")[2].rstrip("]"): value for name, value in told.items() if name.startswith(kind)}


def test_class_numbers_are_counted_and_paired_with_the_greatest_logit(told):
    found = told(F.cross_entropy, hot([0, 1, 1, 2]), torch.tensor([0, 1, 2, 2]))
    assert counts(found, "label:cross_entropy") == {"0": 1, "1": 1, "2": 2}
    assert counts(found, "confusion:cross_entropy") == {"0,0": 1, "1,1": 1, "2,1": 1, "2,2": 1}
    assert (found["fact:classes"], found["fact:label_min"], found["fact:label_max"]) == (3, 0, 2)


def test_probabilities_of_classes_count_as_the_likeliest(told):
    found = told(F.cross_entropy, hot([0, 1]), torch.tensor([[0.1, 0.7, 0.2], [0.2, 0.5, 0.3]]))
    assert counts(found, "label") == {"1": 2}
    assert counts(found, "confusion") == {"1,0": 1, "1,1": 1}


@pytest.mark.parametrize("positional", [True, False])
def test_labels_to_be_ignored_count_for_nothing(told, positional):
    def loss(outputs, target):
        if positional:
            return F.cross_entropy(outputs, target, None, None, 2)
        return F.cross_entropy(outputs, target, ignore_index=2)

    found = told(loss, hot([0, 1, 2]), torch.tensor([0, 2, 2]))
    assert counts(found, "label") == {"0": 1}
    assert found["fact:label_max"] == 0


def test_other_losses_of_classes_are_seen(told):
    assert counts(told(F.nll_loss, hot([0, 1]).log_softmax(1), torch.tensor([0, 2])), "confusion:nll_loss") == {
        "0,0": 1, "2,1": 1}
    assert counts(told(F.multi_margin_loss, hot([0, 1]), torch.tensor([0, 1])), "confusion:multi_margin_loss") == {
        "0,0": 1, "1,1": 1}


def test_a_lone_sample_has_its_classes_on_the_only_axis(told):
    assert counts(told(F.cross_entropy, torch.tensor([0.0, 3.0, 1.0]), torch.tensor(2)), "confusion") == {"2,1": 1}


def test_an_image_of_labels_is_looked_at_in_places_evenly_spread(told):
    labels = torch.randint(0, 3, (2, 80, 70))
    answers = torch.randint(0, 3, (2, 80, 70))
    found = told(F.cross_entropy, F.one_hot(answers, 3).movedim(-1, 1).float(), labels)
    places = [place * labels.numel() // 4096 for place in range(4096)]
    pairs = [(labels.flatten()[place].item(), answers.flatten()[place].item()) for place in places]
    assert counts(found, "confusion") == {f"{a},{b}": pairs.count((a, b)) for a in range(3) for b in range(3)}


def test_a_small_image_of_labels_is_counted_whole(told):
    labels = torch.tensor([[[0, 1], [2, 2]]])
    answers = torch.tensor([[[0, 2], [2, 1]]])
    found = told(F.cross_entropy, F.one_hot(answers, 3).movedim(-1, 1).float(), labels)
    assert counts(found, "confusion") == {"0,0": 1, "1,2": 1, "2,1": 1, "2,2": 1}


def test_of_very_many_classes_only_the_extremes_are_told_and_the_coverage_says_so(record):
    tape = record(preset="free", collections=(LABELS,))
    model = nn.Linear(2, 1001)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    F.cross_entropy(model(torch.randn(3, 2)), torch.tensor([7, 1000, 5])).backward()
    optimizer.step()
    assert tape.names(kind="label") == tape.names(kind="confusion") == []
    assert (tape.scalar("fact:label_min"), tape.scalar("fact:label_max")) == (5, 1000)
    assert tape.scalar("fact:classes") == 1001
    assert any("above 1000 classes" in reason for reason in tape.coverage.reasons)


def test_of_very_many_pairs_the_most_frequent_are_told(told, monkeypatch):
    monkeypatch.setattr(label_counts, "MOST_PAIRS", 2)
    found = told(F.cross_entropy, hot([0, 0, 0, 1, 1, 2]), torch.tensor([0, 0, 0, 1, 1, 0]))
    assert counts(found, "confusion") == {"0,0": 3, "1,1": 2}
    assert counts(found, "label") == {"0": 4, "1": 2}


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_yes_or_no_is_two_classes(told, shape):
    truth = torch.tensor([0.0, 0.0, 1.0, 1.0]).reshape(shape)
    logits = torch.tensor([-1.0, 2.0, 3.0, -4.0]).reshape(shape)
    expected = {"0,0": 1, "0,1": 1, "1,1": 1, "1,0": 1}
    found = told(F.binary_cross_entropy_with_logits, logits, truth)
    assert counts(found, "confusion:binary_cross_entropy_with_logits") == expected
    assert counts(told(F.binary_cross_entropy, logits.sigmoid(), truth), "confusion") == expected
    assert (found["fact:classes"], found["fact:label_min"], found["fact:label_max"]) == (2, 0, 1)


def test_soft_labels_count_and_grey_pixels_do_not(told):
    outputs = torch.linspace(-1, 1, 50)[:, None]
    assert counts(told(F.binary_cross_entropy_with_logits, outputs, (outputs > 0) * 0.8 + 0.1), "label") == {
        "0": 25, "1": 25}
    assert counts(told(F.binary_cross_entropy_with_logits, outputs, torch.rand(50, 1)), "label") == {}


def test_several_answers_a_sample_are_values_and_no_classes(record):
    tape = record(preset="free", collections=(LABELS,))
    model = nn.Linear(2, 5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    truth = torch.rand(8, 5)
    F.binary_cross_entropy_with_logits(model(torch.randn(8, 2)), truth).backward()
    optimizer.step()
    assert tape.names(kind="label") == []
    assert tape.summary("target:binary_cross_entropy_with_logits").sum == pytest.approx(truth.sum().item(), rel=1e-5)


def test_a_step_of_several_micro_batches_adds_them_up(record):
    tape = record(preset="free", collections=(LABELS,))
    model = Answering(hot([0, 1]), hot([0, 2]))
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    for target in ([0, 0], [0, 1]):
        F.cross_entropy(model(torch.ones(2, 1)), torch.tensor(target)).backward()
    optimizer.step()
    assert tape.scalar("label:cross_entropy[0]") == 3
    assert tape.scalar("confusion:cross_entropy[0,0]") == 2


def test_an_evaluation_adds_up_all_its_batches_in_a_record_of_its_own(record):
    tape = record(preset="free", collections=(LABELS,))
    model = Answering(hot([0, 0]), *(hot([0, 1]) for _ in range(100)), hot([2, 2]))
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    F.cross_entropy(model(torch.ones(2, 1)), torch.tensor([1, 1])).backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        for _ in range(100):
            F.cross_entropy(model(torch.ones(2, 1)), torch.tensor([0, 2]))
    model.train()
    F.cross_entropy(model(torch.ones(2, 1)), torch.tensor([1, 1])).backward()
    optimizer.step()
    assert tape.scalar("label:cross_entropy[0]", mode=Mode.EVAL) == 100
    assert tape.scalar("confusion:cross_entropy[2,1]", mode=Mode.EVAL) == 100
    assert "label:cross_entropy[1]" not in tape.names(mode=Mode.EVAL)
    assert [tape.scalar("label:cross_entropy[1]", at) for at in range(2)] == [2, 2]


def test_an_evaluation_that_the_budget_cannot_bear_is_not_counted_in_part(record):
    tape = record(preset="free", collections=(LABELS,), budget=0.01)
    model = Answering(*(hot([0, 1]) for _ in range(5)))
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    F.cross_entropy(model(torch.ones(2, 1)), torch.tensor([1, 1])).backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        for batch in range(4):
            F.cross_entropy(model(torch.ones(2, 1)), torch.tensor([0, 2]))
            if batch == 2:
                tape.session.price.charge(1.0)
    tape.close()
    assert tape.names(mode=Mode.EVAL, kind="label") == []
    assert "loss:cross_entropy" in tape.names(mode=Mode.EVAL)


def test_labels_that_the_loss_refuses_are_told_though_the_step_never_ends(record):
    tape = record(preset="free", collections=(LABELS,))
    model = nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    F.cross_entropy(model(torch.randn(2, 2)), torch.tensor([1, 2])).backward()
    optimizer.step()
    with pytest.raises(IndexError):
        F.cross_entropy(model(torch.randn(4, 2)), torch.tensor([1, 2, 3, -100]))
    tape.close()
    assert tape.numbers() == [0, 1]
    assert (tape.scalar("fact:label_min"), tape.scalar("fact:label_max")) == (1, 3)
    assert tape.scalar("fact:classes") == 3


# Whether the answers fit the loss


def test_probabilities_into_cross_entropy_are_told(told):
    found = told(F.cross_entropy, torch.randn(8, 3).softmax(1), torch.zeros(8, dtype=torch.long))
    assert found["fact:probabilities_as_logits"] == 1
    found = told(F.cross_entropy, torch.cat([torch.randn(6, 3), hot([0, 1])]), torch.zeros(8, dtype=torch.long))
    assert found["fact:probabilities_as_logits"] == 0.25


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_logits_into_cross_entropy_are_well(told, dtype):
    found = told(F.cross_entropy, torch.randn(64, 10, dtype=dtype), torch.zeros(64, dtype=torch.long))
    assert found["fact:probabilities_as_logits"] == 0
    found = told(F.cross_entropy, torch.randn(64, 3).softmax(1).to(dtype), torch.zeros(64, dtype=torch.long))
    assert found["fact:probabilities_as_logits"] == 1


def test_logits_into_a_loss_of_log_probabilities_are_told(told):
    target = torch.zeros(8, dtype=torch.long)
    assert told(F.nll_loss, torch.randn(8, 3), target)["fact:logits_as_probabilities"] == 1
    assert told(F.nll_loss, torch.randn(8, 3).softmax(1), target)["fact:logits_as_probabilities"] == 1
    assert told(F.nll_loss, torch.randn(8, 3).log_softmax(1), target)["fact:logits_as_probabilities"] == 0


def test_logits_into_a_divergence_are_told(told):
    target = torch.randn(8, 3).softmax(1)
    found = told(F.kl_div, torch.randn(8, 3), target, reduction="batchmean")
    assert found["fact:logits_as_probabilities"] == 1
    assert counts(found, "label") == {}
    found = told(F.kl_div, torch.randn(8, 3).log_softmax(1), target, reduction="batchmean")
    assert found["fact:logits_as_probabilities"] == 0


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        (torch.linspace(-3, 3, 16).sigmoid(), 1), (torch.linspace(-3, 3, 16), 0), (torch.full((16,), 0.5), 0),
        (torch.linspace(0.1, 0.9, 4), None),
    ],
    ids=["probabilities", "logits", "all the same", "too few"],
)
def test_probabilities_into_yes_or_no_are_told(told, logits, expected):
    found = told(F.binary_cross_entropy_with_logits, logits, torch.ones(len(logits)))
    assert found.get("fact:probabilities_as_logits") == expected


# Named by the script


def test_the_script_may_name_labels_and_answers(record):
    tape = record(preset="free")
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.randn(4, 2)).sum().backward()
    tape.integration.save_predictions([0, 1, 1], torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]]), "mine")
    optimizer.step()
    tape.integration.save_predictions(torch.tensor([2, 2]), [2, 0], "mine")
    optimizer.step()
    assert tape.scalar("confusion:mine[1,0]", 0) == tape.scalar("confusion:mine[1,1]", 0) == 1
    assert tape.scalar("label:mine[2]", 1) == 2
    assert tape.scalar("fact:label_max", 1) == 2


@pytest.mark.parametrize("without_gradients", [True, False])
def test_answers_named_in_an_evaluation_belong_to_it(record, without_gradients):
    tape = record(preset="free")
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.randn(4, 2)).sum().backward()
    optimizer.step()
    if not without_gradients:
        model.eval()
    with torch.set_grad_enabled(not without_gradients):
        tape.integration.save_predictions([0, 1], [1, 1], "mine")
        tape.integration.save_predictions([0], [1], "mine")
    tape.close()
    assert tape.scalar("confusion:mine[0,1]", mode=Mode.EVAL) == 2
    assert tape.names(kind="label") == []


@pytest.mark.parametrize(
    ("targets", "predictions", "error"),
    [
        ([0, 1, 2], [0, 1], "shape"), ([0, 1], [[[0.1], [0.2]], [[0.1], [0.2]]], "shape"),
        ([0.5, 1.0], [0, 1], "integers from 0"), ([0, -1], [0, 0], "integers from 0"),
        (["cat", "dog"], [0, 1], r"targets that are not numbers \(list\). Pass class numbers"),
        ([0, 1], None, r"predictions that are not numbers \(NoneType\)"),
    ],
)
def test_what_does_not_fit_is_one_clear_message(record, targets, predictions, error):
    tape = record(preset="free")
    with pytest.raises((ShapeMismatch, UnsupportedCapture), match=error):
        tape.integration.save_predictions(targets, predictions, "mine")


def test_what_does_not_fit_is_warned_of_once_and_training_goes_on(record):
    tape = record(preset="free", strict=False)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train():
        model(torch.randn(4, 2)).sum().backward()
        tape.integration.save_predictions([0, 1, 2], [0, 1], "mine")
        optimizer.step()

    with pytest.warns(UserWarning, match=r"targets of shape \(3,\) and predictions of shape \(2,\)"):
        train()
    train()  # a second warning would be an error
    train()
    assert tape.numbers() == [0, 1, 2]


@pytest.mark.parametrize(("loss", "target", "options", "weighted"), [
    (F.cross_entropy, [0, 1, 2, 2], {"weight": torch.tensor([1.0, 2.0, 3.0])}, True),
    (F.cross_entropy, [0, 1, 2, 2], {"ignore_index": 2}, False),
    (F.multi_margin_loss, [0, 1, 2, 2], {"p": 2}, False),
    (F.binary_cross_entropy_with_logits, None, {"pos_weight": torch.ones(3)}, True),
])
def test_whether_the_loss_weighs_is_told(told, loss, target, options, weighted):
    found = told(loss, hot([0, 1, 1, 2]), hot([0, 1, 2, 2]) if target is None else torch.tensor(target), **options)
    assert found.get("fact:loss_weighted", 0.0) == float(weighted)


def test_a_weight_by_position_is_a_weight(told):
    by_position = lambda outputs, target: F.cross_entropy(outputs, target, torch.ones(3))  # noqa: E731
    assert told(by_position, hot([0, 1]), torch.tensor([0, 1]))["fact:loss_weighted"] == 1.0


def test_scores_that_nobody_may_write_to_are_not_copied() -> None:
    scores = np.random.default_rng(0).normal(size=(64, 4096)).astype(np.float32)
    labels = scores.argmax(-1)
    scores.flags.writeable = False
    buffer = StepBuffer()
    gather_labels("words", labels, scores, buffer)  # what is made once is there
    tracemalloc.start()
    try:
        gather_labels("words", labels, scores, buffer)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < scores.nbytes / 4
    assert not scores.flags.writeable
