"""GPU metrics from NVIDIA's library NVML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"


class Gpus:
    """Reads metrics of the GPUs that a training process may use.

    Attributes:
        problem: Why GPUs cannot be read, for people; "" if they can, or if there are none.

    Args:
        visible: CUDA_VISIBLE_DEVICES of the training process; None: not set, all GPUs are visible.
        library: pynvml, or a replacement in tests; None: load it.
    """

    def __init__(self, visible: str | None = None, library: Any = None) -> None:
        self.problem = ""
        self._handles: dict[str, Any] = {}
        if library is None:
            import pynvml

            library = pynvml
        self._library = library
        try:
            library.nvmlInit()
        except library.NVMLError as error:
            # Without a driver there is no GPU, and nothing is missing.
            if not isinstance(error, (library.NVMLError_LibraryNotFound, library.NVMLError_DriverNotLoaded)):
                self.problem = f"GPU use was not recorded: {error}"
            return
        self._find(visible)

    def read(self) -> dict[str, float]:
        """Return metrics by name, as in `Kind.MACHINE`; skips metrics that a GPU does not provide."""
        found: dict[str, float] = {}
        for name, handle in self._handles.items():
            try:
                memory = self._library.nvmlDeviceGetMemoryInfo(handle)
                found[f"gpu_memory_bytes[{name}]"] = float(memory.used)
                found[f"gpu_memory[{name}]"] = round(100 * memory.used / memory.total, 2)
                found[f"gpu[{name}]"] = float(self._library.nvmlDeviceGetUtilizationRates(handle).gpu)
            except self._library.NVMLError as error:
                # A MIG instance provides memory, but not utilization.
                self.problem = f"some metrics of GPU {name} were not recorded: {error}"
        return found

    def names(self) -> tuple[str, ...]:
        """Return the product name of each GPU."""
        found = []
        for name, handle in self._handles.items():
            try:
                found.append(_text(self._library.nvmlDeviceGetName(handle)))
            except self._library.NVMLError as error:
                self.problem = f"some metrics of GPU {name} were not recorded: {error}"
        return tuple(found)

    def close(self) -> None:
        """Shut the library down."""
        if self._handles:
            self._handles = {}
            self._library.nvmlShutdown()

    def _find(self, visible: str | None) -> None:
        try:
            by_index = {str(index): self._library.nvmlDeviceGetHandleByIndex(index)
                        for index in range(self._library.nvmlDeviceGetCount())}
            by_uuid = {_text(self._library.nvmlDeviceGetUUID(handle)): name for name, handle in by_index.items()}
        except self._library.NVMLError as error:
            self.problem = f"GPU use was not recorded: {error}"
            return
        names = by_index if visible is None else _named(visible, by_index, by_uuid)
        self._handles = {name: by_index[name] for name in names}


def names_of_gpus(visible: str | None = None, library: Any = None) -> tuple[str, ...]:
    """Return the product names of the GPUs that a training process may use; arguments as for `Gpus`."""
    gpus = Gpus(visible, library)
    try:
        return gpus.names()
    finally:
        gpus.close()


def _named(visible: str, by_index: Mapping[str, Any], by_uuid: Mapping[str, str]) -> list[str]:
    """Return the GPUs in CUDA_VISIBLE_DEVICES: by number, or by the start of a UUID."""
    found = []
    for entry in (item.strip() for item in visible.split(",")):
        name = entry if entry in by_index else next(
            (name for uuid, name in by_uuid.items() if entry and uuid.startswith(entry)), None
        )
        if name is None:
            break  # as CUDA does: entries after an invalid one are not visible
        found.append(name)
    return found


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
