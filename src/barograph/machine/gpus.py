"""What of the GPUs is used, as NVIDIA's own library (NVML) tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"


class Gpus:
    """Reads the GPUs that a training process may use.

    Attributes:
        problem: Why nothing can be read though there are GPUs, for people; "" where all is well, and where the
            machine has none.

    Args:
        visible: The training process's CUDA_VISIBLE_DEVICES; None: it is not set, and all may be used.
        library: pynvml, or what stands in for it; None: it is loaded.
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
            # Without a driver there is no GPU, and nothing that anybody misses.
            if not isinstance(error, (library.NVMLError_LibraryNotFound, library.NVMLError_DriverNotLoaded)):
                self.problem = f"GPU use was not recorded: {error}"
            return
        self._find(visible)

    def read(self) -> dict[str, float]:
        """Return name to figure, the names as in `Kind.MACHINE`; nothing of a GPU that does not tell."""
        found: dict[str, float] = {}
        for name, handle in self._handles.items():
            try:
                memory = self._library.nvmlDeviceGetMemoryInfo(handle)
                found[f"gpu_memory_bytes[{name}]"] = float(memory.used)
                found[f"gpu_memory[{name}]"] = round(100 * memory.used / memory.total, 2)
                found[f"gpu[{name}]"] = float(self._library.nvmlDeviceGetUtilizationRates(handle).gpu)
            except self._library.NVMLError as error:
                # A part of a GPU (MIG) tells of its memory, and not how busy it is.
                self.problem = f"some metrics of GPU {name} were not recorded: {error}"
        return found

    def names(self) -> tuple[str, ...]:
        """Return what each GPU is called by its maker."""
        found = []
        for name, handle in self._handles.items():
            try:
                found.append(_text(self._library.nvmlDeviceGetName(handle)))
            except self._library.NVMLError as error:
                self.problem = f"some metrics of GPU {name} were not recorded: {error}"
        return tuple(found)

    def close(self) -> None:
        """Let go of the library."""
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
    """Return what the GPUs are called that a training process may use; arguments as of `Gpus`."""
    gpus = Gpus(visible, library)
    try:
        return gpus.names()
    finally:
        gpus.close()


def _named(visible: str, by_index: Mapping[str, Any], by_uuid: Mapping[str, str]) -> list[str]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names: by number, or by the beginning of a UUID."""
    found = []
    for entry in (item.strip() for item in visible.split(",")):
        name = entry if entry in by_index else next(
            (name for uuid, name in by_uuid.items() if entry and uuid.startswith(entry)), None
        )
        if name is None:
            break  # as CUDA does: what follows one that does not exist is not visible
        found.append(name)
    return found


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
