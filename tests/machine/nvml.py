"""What stands in for NVML, since most machines have no GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

GIB = 2**30


class Library:
    """pynvml of a machine with so many GPUs."""

    class NVMLError(Exception):
        pass

    class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801 - as pynvml has it
        pass

    class NVMLError_DriverNotLoaded(NVMLError):  # noqa: N801 - likewise
        pass

    def __init__(self, count: int = 2, *, fails: Exception | None = None) -> None:
        self.count, self.fails = count, fails
        self.silent: set[int] = set()
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802 - as pynvml has it; so are the others
        if self.fails is not None:
            raise self.fails
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> Any:  # noqa: N802
        return f"GPU-{handle}abc" if handle else b"GPU-0abc"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(used=(handle + 1) * GIB, total=16 * GIB)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        if handle in self.silent:
            raise self.NVMLError("Not Supported")
        return SimpleNamespace(gpu=10 * handle + 5, memory=1)
