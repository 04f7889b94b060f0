"""Record from within a script: one line, and what else a script can say.

    python examples/attach.py
    python examples/attach.py --to s3://bucket/runs/first
"""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

import barograph


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", default="", help="directory or URL of the run; default: a new one")
    args = parser.parse_args()

    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    images, labels = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    order = torch.randperm(len(images))
    train, held_out = order[:1400], order[1400:]
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)

    # The one line. A second process watches, and tells findings on standard error.
    with barograph.attach(model, optimizer, to=args.to, budget="5%") as run:
        for epoch in range(10):
            for batch in train[torch.randperm(len(train))].split(32):
                optimizer.zero_grad()
                F.cross_entropy(model(images[batch]), labels[batch]).backward()
                optimizer.step()

            # An evaluation is seen by itself, in eval mode without gradients: its loss and its outputs are kept apart.
            model.eval()
            with torch.no_grad():
                guesses = model(images[held_out])
                loss = F.cross_entropy(guesses, labels[held_out])
            model.train()

            # What Barograph cannot see: numbers of your own, and whole tensors under a name.
            with run.mode("eval"):
                run.log({"accuracy": (guesses.argmax(1) == labels[held_out]).float().mean().item()})
            run.save("guesses", guesses.argmax(1))
            print(f"epoch {epoch}: validation {loss:.3f}")
    print(f"The run is at {run.url}")


if __name__ == "__main__":
    main()
