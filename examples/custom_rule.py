"""A rule of one's own: accuracy that has fallen far below its best.

    cd examples && barograph run --rules all,custom_rule:AccuracyFell train.py

Run by itself, this file trains a model that gets worse (its labels are shuffled half-way) and shows the run to the
rule:

    python examples/custom_rule.py
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

import barograph
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Selection
from barograph.rules.base import Memory, Rule, parameter
from barograph.runs.reading.view import StepView
from barograph.watch.loop import Watcher
from barograph.watch.terminal import TerminalNotifier

ACCURACY = Key(Kind.SCALAR, "accuracy")


@dataclass(frozen=True, kw_only=True)
class AccuracyFell(Rule):
    """X101: Accuracy has fallen far below its best.

    What it sees: the number that the script logs as "accuracy".
    Why it matters: the best model is behind you; what is trained from here on is worse.
    What to do: go back to the checkpoint of the best step, and see what changed since.
    When it is wrong: a schedule that raises the learning rate again makes accuracy fall for a while, on purpose.
    Source: none; it is an example.
    """

    code: ClassVar[str] = "X101"
    name: ClassVar[str] = "accuracy-fell"
    severity: ClassVar[Severity] = Severity.COSTLY

    drop: float = parameter(0.2, "How far below its best accuracy may fall.", above=0.0, at_most=1.0)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.SCALAR}), include=("accuracy",)),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom]:
        accuracy = view.scalar(ACCURACY)
        if accuracy is None:
            return
        if accuracy > memory.get("best", 0.0):
            memory.update(best=accuracy, best_step=view.step.number)
        limit = memory.get("best", 0.0) - self.drop
        if accuracy < limit:
            yield Symptom(
                message=f"Accuracy is {accuracy:.1%}, after {memory['best']:.1%} at step {memory['best_step']}.",
                remedy=f"Go back to the checkpoint of step {memory['best_step']}, and see what changed since.",
                evidence=(Evidence(ACCURACY, view.step.number, "value", accuracy, limit, f"below {limit:.1%}"),),
            )


def train(url):
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    images, labels = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    with barograph.attach(model, optimizer, to=url, watch=False) as run:
        for epoch in range(8):
            # From the fifth epoch on the labels no longer belong to the images.
            targets = labels if epoch < 4 else labels[torch.randperm(len(labels))]
            for batch in torch.randperm(len(images)).split(32):
                optimizer.zero_grad()
                F.cross_entropy(model(images[batch]), targets[batch]).backward()
                optimizer.step()
            with torch.no_grad():
                guesses = model(images).argmax(1)
            run.log({"accuracy": (guesses == labels).float().mean().item()})


def main():
    url = "memory://custom-rule"  # in this process alone; a directory or a bucket does as well
    train(url)
    watcher = Watcher(barograph.open(url).store, [AccuracyFell(drop=0.3)], notifiers=[TerminalNotifier()])
    while not watcher.poll().ended:
        pass


if __name__ == "__main__":
    main()
