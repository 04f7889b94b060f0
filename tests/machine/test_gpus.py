"""GPUs as NVML tells of them; a stand-in tells, since most machines have none."""

from __future__ import annotations

import pytest

from barograph.machine.gpus import Gpus
from machine.nvml import GIB, Library


def seen(gpus: Gpus) -> list[str]:
    return [name for name in gpus.read() if name.startswith("gpu[")]


def test_each_gpu_tells_how_busy_and_how_full_it_is() -> None:
    found = Gpus(None, Library()).read()
    assert found == {
        "gpu[0]": 5.0, "gpu_memory[0]": 6.25, "gpu_memory_bytes[0]": 1.0 * GIB,
        "gpu[1]": 15.0, "gpu_memory[1]": 12.5, "gpu_memory_bytes[1]": 2.0 * GIB,
    }


@pytest.mark.parametrize(("visible", "names"), [
    ("1", ["gpu[1]"]), ("2,0", ["gpu[2]", "gpu[0]"]), ("GPU-1", ["gpu[1]"]), ("GPU-0abc", ["gpu[0]"]), ("", []),
    ("-1", []), ("0,7,1", ["gpu[0]"]),
])
def test_only_those_that_the_training_may_use_are_told_of(visible: str, names: list[str]) -> None:
    assert seen(Gpus(visible, Library(3))) == names


@pytest.mark.parametrize("error", [Library.NVMLError_LibraryNotFound("no"), Library.NVMLError_DriverNotLoaded("no")])
def test_a_machine_without_gpus_is_silent(error: Exception) -> None:
    gpus = Gpus(None, Library(fails=error))
    assert (gpus.read(), gpus.problem) == ({}, "")


def test_gpus_that_cannot_be_read_are_named_as_not_seen() -> None:
    gpus = Gpus(None, Library(fails=Library.NVMLError("Driver/library version mismatch")))
    assert (gpus.read(), gpus.problem) == ({}, "GPU use was not recorded: Driver/library version mismatch")


def test_a_gpu_that_tells_less_leaves_the_others_be() -> None:
    library = Library()
    library.silent = {0}
    gpus = Gpus(None, library)
    assert set(gpus.read()) == {"gpu_memory[0]", "gpu_memory_bytes[0]", "gpu[1]", "gpu_memory[1]",
                                "gpu_memory_bytes[1]"}
    assert gpus.problem == "some metrics of GPU 0 were not recorded: Not Supported"


def test_the_library_is_let_go_once() -> None:
    library = Library()
    gpus = Gpus(None, library)
    gpus.close()
    gpus.close()
    assert (library.open, gpus.read()) == (0, {})


def test_the_real_library_says_that_there_is_no_gpu_or_tells_of_it() -> None:
    gpus = Gpus()
    assert all(value >= 0 for value in gpus.read().values())
    gpus.close()
