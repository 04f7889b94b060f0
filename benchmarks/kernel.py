"""The speed of the statistics, compared with a plain read of the same memory.

One thread; the candidates alternate, so that noise of the machine affects all alike; medians, with the spread between
the quartiles. A ratio is that of the medians; 1.00 is as fast as `torch.sum`.

    python benchmarks/kernel.py            a table
    python benchmarks/kernel.py --json     the same as JSON
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # the number of threads is read when these are imported
import torch

from barograph.measures import native, plain
from barograph.measures.summary import identity_rows

LARGE = 11_200_000
"""Number of elements: 44.8 MB of float32, a multilayer perceptron with ten million weights, more than caches hold."""

MEDIUM = 2048 * 2048
SMALL_TENSORS, SMALL = 300, 512


@dataclass(frozen=True)
class Figure:
    """One candidate on one workload.

    Attributes:
        workload, candidate: Their names.
        gb_per_s: Median speed.
        low, high: Its quartiles.
        ratio: Ratio to the plain read of the same workload.
        secs: Median time of one pass.
    """

    workload: str
    candidate: str
    gb_per_s: float
    low: float
    high: float
    ratio: float
    secs: float


Candidates = dict[str, Callable[[], object]]


def measure(workload: str, candidates: Candidates, size_bytes: int, *, secs: float) -> list[Figure]:
    """Return the measurement of each candidate; the first is the plain read. Takes about `secs`."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    started = time.perf_counter()
    while time.perf_counter() - started < secs or len(times[next(iter(times))]) < 5:
        for name, run in candidates.items():
            before = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - before)
    base = statistics.median(times[next(iter(times))])
    figures = []
    for name, taken in times.items():
        fast, middle, slow = statistics.quantiles(taken, n=4)
        figures.append(Figure(workload, name, size_bytes / middle / 1e9, size_bytes / slow / 1e9,
                              size_bytes / fast / 1e9, base / middle, middle))
    return figures


def one_tensor(workload: str, numel: int, dtype: torch.dtype, *, secs: float, with_plain: bool = False) -> list[Figure]:
    """Return the measurements of one tensor of normal numbers."""
    tensor = torch.randn(numel, generator=torch.Generator().manual_seed(0)).mul_(0.02).to(dtype)
    code, pointer = native.dtype_code(str(dtype).removeprefix("torch.")), tensor.data_ptr()
    rows, bins = identity_rows(1), np.zeros((1, 512), np.int64)
    before = tensor * 0.999  # as after a step
    candidates: Candidates = {"plain read": tensor.sum}
    for mode, name in enumerate(("moments", "moments + sampled", "moments + exact")):
        candidates[name] = lambda mode=mode: native.summarize_into(pointer, numel, code, rows, 0, bins, mode)
    candidates["difference, moments"] = lambda: native.difference_into(
        pointer, before.data_ptr(), numel, code, rows, 0, None, 0)
    candidates["difference, moments, advance"] = lambda: native.difference_into(
        pointer, before.data_ptr(), numel, code, rows, 0, None, 0, True)
    if with_plain:
        candidates["plain twin, moments"] = lambda: plain.summarize_into(pointer, numel, code, rows, 0)
    return measure(workload, candidates, numel * tensor.element_size(), secs=secs)


def many_small(*, secs: float) -> list[Figure]:
    """Return the measurements of many small tensors, where the cost per call matters."""
    tensors = [torch.randn(SMALL) for _ in range(SMALL_TENSORS)]
    pointers = np.array([tensor.data_ptr() for tensor in tensors], np.int64)
    numels = np.full(SMALL_TENSORS, SMALL, np.int64)
    kinds, places = np.zeros(SMALL_TENSORS, np.int32), np.arange(SMALL_TENSORS, dtype=np.int64)
    rows, bins = identity_rows(SMALL_TENSORS), np.zeros((SMALL_TENSORS, 512), np.int64)

    def one_call_each() -> None:
        for row, tensor in enumerate(tensors):
            native.summarize_into(tensor.data_ptr(), SMALL, 0, rows, row, None, 0)

    candidates: Candidates = {
        "plain read": lambda: [tensor.sum() for tensor in tensors],
        "moments, one call each": one_call_each,
        "moments, one call": lambda: native.summarize_many(pointers, numels, kinds, places, rows, None, 0),
        "moments + exact, one call": lambda: native.summarize_many(pointers, numels, kinds, places, rows, bins, 2),
    }
    return measure(f"{SMALL_TENSORS} tensors of {SMALL} float32", candidates, SMALL_TENSORS * SMALL * 4, secs=secs)


def units(name: str, shape: tuple[int, int, int], *, secs: float) -> list[Figure]:
    """Return the measurements of per-unit statistics of an activation."""
    tensor = torch.randn(shape).relu_()
    columns = np.zeros((shape[1], 7))
    columns[:, 3:5] = np.inf, -np.inf
    candidates: Candidates = {
        "plain read": tensor.sum,
        "units": lambda: native.units_into(tensor.data_ptr(), *shape, 0, 1.0, columns),
    }
    return measure(name, candidates, tensor.numel() * 4, secs=secs)


def all_figures(secs: float) -> list[Figure]:
    """Return all measurements; each workload takes about `secs`."""
    torch.set_num_threads(1)
    return [
        *one_tensor("11.2 M float32", LARGE, torch.float32, secs=secs, with_plain=True),
        *one_tensor("2048 x 2048 float32", MEDIUM, torch.float32, secs=secs),
        *one_tensor("256 x 256 float32, in cache", 256 * 256, torch.float32, secs=secs),
        *one_tensor("11.2 M bfloat16", LARGE, torch.bfloat16, secs=secs),
        *one_tensor("11.2 M float16", LARGE, torch.float16, secs=secs),
        *many_small(secs=secs),
        *units("units of (64, 2048)", (64, 2048, 1), secs=secs),
        *units("units of (64, 512, 4 x 4)", (64, 512, 16), secs=secs),
        *units("units of (64, 128, 16 x 16)", (64, 128, 256), secs=secs),
        *units("units of (64, 64, 32 x 32)", (64, 64, 1024), secs=secs),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--secs", type=float, default=1.5, help="seconds per workload")
    arguments = parser.parse_args()
    figures = all_figures(arguments.secs)
    if arguments.json:
        report = {"native": native.available(), "figures": [asdict(figure) for figure in figures]}
        json.dump(report, sys.stdout, indent=1)
        return
    print(f"native loop: {'yes' if native.available() else 'no, its plain twin'}; one thread")
    for figure in figures:
        print(f"{figure.workload:28} {figure.candidate:30} {figure.gb_per_s:7.2f} GB/s "
              f"({figure.low:.2f} to {figure.high:.2f})  x{figure.ratio:.3f}  {figure.secs * 1e6:.0f} us")


if __name__ == "__main__":
    main()
