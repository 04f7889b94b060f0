"""The models to train in measurements: three models, each with a fixed batch and optimizer.

Nothing here depends on a tool. Data are random and fixed: the cost of a step does not depend on them, and a loader
would only add noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Workload:
    """A model and everything that one step of its training needs."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss_fn: nn.Module
    inputs: Tensor
    targets: Tensor

    def forward_backward(self) -> Tensor:
        """Return the loss of one pass over the fixed batch; gradients remain in the parameters."""
        self.optimizer.zero_grad()
        loss: Tensor = self.loss_fn(self.model(self.inputs), self.targets)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss


def build_workload(name: str, *, device: str = "cpu", seed: int = 0) -> Workload:
    """Return a fresh workload, bit-identical for the same seed.

    Args:
        name: One of `WORKLOADS`.
        device: Device of model and batch.
        seed: Seed of the weights and the batch.
    """
    torch.manual_seed(seed)
    return WORKLOADS[name](device)


def _mlp(device: str) -> Workload:
    """784-2048×3-10, batch 64, SGD: 10 M parameters, few operations per parameter, so every extra pass shows."""
    layers: list[nn.Module] = []
    for inside, outside in ((784, 2048), (2048, 2048), (2048, 2048)):
        layers += [nn.Linear(inside, outside), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(2048, 10)).to(device)
    return _workload(model, torch.optim.SGD(model.parameters(), lr=0.01), torch.randn(64, 784), 10)


def _resnet(device: str) -> Workload:
    """ResNet-18 for 32×32 images, batch 10, SGD with momentum: 11 M parameters, convolutions, batch norm."""
    model = ResNet18(classes=10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return _workload(model, optimizer, torch.randn(10, 3, 32, 32), 10)


def _gpt(device: str) -> Workload:
    """Six blocks with width 256, 4 × 128 tokens, AdamW: 6 M parameters, attention, layer norm, many small tensors."""
    model = GPT(vocabulary=2048, context=128, width=256, blocks=6, heads=8).to(device)
    tokens = torch.randint(0, 2048, (4, 128))
    return _workload(model, torch.optim.AdamW(model.parameters(), lr=3e-4), tokens, 2048, rows=4 * 128)


def _tiny(device: str) -> Workload:
    """A network with a thousand parameters, to check the benchmark itself: its ratios mean nothing."""
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4)).to(device)
    return _workload(model, torch.optim.SGD(model.parameters(), lr=0.01), torch.randn(16, 8), 4)


def _small_gpt(device: str) -> Workload:
    """Two blocks with width 64: compiles in seconds, for checks of bits."""
    model = GPT(vocabulary=128, context=32, width=64, blocks=2, heads=4).to(device)
    tokens = torch.randint(0, 128, (2, 32))
    return _workload(model, torch.optim.AdamW(model.parameters(), lr=3e-4), tokens, 128, rows=2 * 32)


def _workload(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, classes: int, *, rows: int | None = None
) -> Workload:
    device = next(model.parameters()).device
    targets = torch.randint(0, classes, (rows or len(inputs),))
    return Workload(model, optimizer, nn.CrossEntropyLoss(), inputs.to(device), targets.to(device))


WORKLOADS: Mapping[str, Callable[[str], Workload]] = {
    "mlp": _mlp, "resnet": _resnet, "gpt": _gpt, "tiny": _tiny, "small-gpt": _small_gpt
}  # fmt: skip

MEASURED = ("mlp", "resnet", "gpt")
"""The workloads whose ratios are published."""


class ResNet18(nn.Module):
    """Four stages of two basic blocks; the first convolution keeps the resolution, as is usual at 32×32.

    Activations are in place, as in torchvision's: a tool must support that.
    """

    def __init__(self, classes: int, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolution(3, width), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        widths = (width, 2 * width, 4 * width, 8 * width)
        blocks: list[nn.Module] = []
        for inside, outside in zip((width, *widths), widths, strict=False):
            stride = 1 if inside == outside else 2
            blocks += [BasicBlock(inside, outside, stride), BasicBlock(outside, outside, 1)]
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.pool(self.blocks(self.stem(images))).flatten(1))
        return logits


class BasicBlock(nn.Module):
    """Two 3×3 convolutions around a shortcut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = _convolution(inside, outside, stride), nn.BatchNorm2d(outside)
        self.conv2, self.norm2 = _convolution(outside, outside), nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if inside != outside:
            shorten = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.shortcut = nn.Sequential(shorten, nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.relu(self.norm1(self.conv1(x)))
        outer: Tensor = self.relu(self.norm2(self.conv2(inner)) + self.shortcut(x))
        return outer


class GPT(nn.Module):
    """A decoder-only transformer; returns logits of shape (batch × positions, vocabulary)."""

    def __init__(self, vocabulary: int, context: int, width: int, blocks: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(DecoderBlock(width, heads) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.blocks(self.tokens(tokens) + self.positions(positions))
        logits: Tensor = self.head(self.norm(x)).flatten(0, 1)
        return logits


class DecoderBlock(nn.Module):
    """Causal attention, then a feed-forward layer four times as wide; both around a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.out(self._attend(self.query_key_value(self.norm1(x))))
        x = x + self.feed(self.norm2(x))
        return x

    def _attend(self, query_key_value: Tensor) -> Tensor:
        batch, positions, _ = query_key_value.shape
        query, key, value = query_key_value.view(batch, positions, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return attended.transpose(1, 2).reshape(batch, positions, -1)


def _convolution(inside: int, outside: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
