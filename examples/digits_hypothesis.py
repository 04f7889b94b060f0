"""From a hypothesis to the model: eighteen trials, their report, and the best of them made again.

    python examples/digits_hypothesis.py [ROOT]

Hypothesis: "my network beats the small ResNet on the digits". Two models, three optimizers and three lengths are tried;
the data and what never changes are one component that all trials share.
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

import barograph
from barograph.experiments.curves import aligned, best_at, curve_of
from barograph.rerun.repetition import repetition_of
from barograph.tracking import Component, Experiment, Run, judge, list_runs

LENGTHS = (3, 6, 9)
OPTIMIZERS = {"sgd": lambda p: torch.optim.SGD(p, 0.1), "adam": lambda p: torch.optim.Adam(p, 0.01),
              "adamw": lambda p: torch.optim.AdamW(p, 0.01)}
HELD_OUT = 400


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.second(F.relu(self.first(x))))


MODELS = {
    "mine": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)),
    "resnet": lambda: nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), Residual(8), nn.AvgPool2d(4),
                                    nn.Flatten(), nn.Linear(32, 10)),
}


def train(run, model_name, optimizer_name, epochs, seed=0):
    torch.manual_seed(seed)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    model = MODELS[model_name]()
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    for epoch in range(epochs):
        for batch in torch.randperm(len(images) - HELD_OUT).split(64):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            run.log_metric("loss", loss.item())
        with torch.no_grad():
            answers = model(images[-HELD_OUT:]).argmax(1)
        run.log_metric("acc", (answers == labels[-HELD_OUT:]).float().mean().item(), step=epoch + 1)


def main(root):
    torch.set_num_threads(1)
    experiment = Experiment.create("digits", hypothesis="my network beats the small ResNet on the digits", root=root,
                                   variables={"model": list(MODELS), "optimizer": list(OPTIMIZERS), "epochs": LENGTHS})
    shared = Component.create("digits data and settings", root=root)
    shared.log_parameters({"samples": 1797, "held_out": HELD_OUT, "batch": 64})
    for model in MODELS:
        for optimizer in OPTIMIZERS:
            for epochs in LENGTHS:
                name = f"{model} {optimizer} {epochs}"
                settings = {"model": model, "optimizer": optimizer, "epochs": epochs}
                experiment.create_trial(name, variables=settings).add_component(shared)
                with Run(name, experiment="digits", trial=name, root=root) as run:
                    run.log_parameters(settings)
                    train(run, **{"model_name": model, "optimizer_name": optimizer, "epochs": epochs})

    table = experiment.table("kind = 'run' order by metrics.acc.max desc", statistics=["max"])
    print(table.only(["name", "metrics.acc.max"]).to_markdown())
    best = list_runs("experiment = 'digits' order by metrics.acc.max desc limit 3", root=root)
    print(f"best of all: {best[0].name}, {best[0].metrics['acc'].max:.3f}")
    for epochs in LENGTHS:
        first = list_runs(f"params.epochs = {epochs} order by metrics.acc.max desc limit 1", root=root)[0]
        print(f"best in {epochs} epochs: {first.name}, {first.metrics['acc'].max:.3f}")

    judgement = judge(list_runs("experiment = 'digits'", root=root), "params.model", "acc.max")
    between = judgement.verdict
    print(f"{judgement.groups[0].name} is better: {between.outcome}, {between.difference:+.3f}, {between.level:.0%} "
          f"interval {between.low:+.3f} to {between.high:+.3f}")

    curves = {run.name: curve_of(barograph.open(run.place), "acc") for run in best}
    print("curves of the three best:", {name: [round(value, 3) for value in column if value == value]
                                        for name, column in aligned(curves).items()})
    print("after 3 epochs:", {name: round(best_at(curve, [3], greater_is_better=True)[0], 3)
                              for name, curve in curves.items()})

    chosen = best[0].parameters
    with Run(f"{best[0].name} again", experiment="digits", trial=best[0].name, root=root) as run:
        run.log_parameters(chosen)
        train(run, chosen["model"], chosen["optimizer"], chosen["epochs"])
    again = list_runs(f"name = '{best[0].name} again'", root=root)[0].relate("derived_from", best[0])
    print(f"made again: {repetition_of(barograph.open(best[0].place), barograph.open(again.place)).sameness}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
