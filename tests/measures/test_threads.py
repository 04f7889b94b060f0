"""Several threads read memory at once: whatever their number, the statistics have the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from barograph.measures import native, plain
from barograph.measures.elements import DTYPE_CODES
from barograph.measures.summary import identity_rows

PART = 2**16
SIZES = (3, PART - 1, PART, PART + 1, 0, 5 * PART + 4097, 20 * PART, 100)
"""Parts begin and end within these; together they are more than what one thread reads by itself."""


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """So many threads read."""
    if not native.available():
        pytest.skip("the native loop is not built here")
    before = native.use_threads(request.param)
    yield request.param
    native.use_threads(before)


class Tensors:
    """Some of each size, and what they were before."""

    def __init__(self, numbers: Any, dtype: str = "float32", mix: str = "normal") -> None:
        self.after: list[NDArray[Any]] = [numbers(dtype, size, mix) for size in SIZES]
        self.before = [np.roll(array, 1) for array in self.after]
        self.numels = np.array(SIZES)
        self.codes = np.full(len(SIZES), DTYPE_CODES[dtype], np.int32)
        self.moments, self.exponents = identity_rows(2 * len(SIZES)), np.zeros((2 * len(SIZES), 512), np.int64)
        self.rows = np.arange(len(SIZES))

    def places(self, of: list[NDArray[Any]]) -> NDArray[np.int64]:
        return np.array([array.ctypes.data for array in of])

    def compare(self, loops: Any, rows: NDArray[np.int64], mode: int) -> tuple[bytes, bytes]:
        loops.difference_many(self.places(self.after), self.places(self.before), self.numels, self.codes, rows,
                              self.rows + len(SIZES), self.moments, self.exponents, mode, mode)
        return self.moments.tobytes(), self.exponents.tobytes()


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "complex64"])
def test_a_pass_by_threads_gives_what_single_calls_give(threads, numbers, dtype, mode):
    shared, single = Tensors(numbers, dtype, "any bits"), Tensors(numbers, dtype, "any bits")
    found = shared.compare(native, shared.rows, mode)
    native.use_threads(1)
    for row, (after, before, size, code) in enumerate(zip(single.after, single.before, SIZES, single.codes.tolist(),
                                                          strict=True)):
        native.summarize_into(after.ctypes.data, size, code, single.moments, row, single.exponents, mode)
        native.difference_into(after.ctypes.data, before.ctypes.data, size, code, single.moments, row + len(SIZES),
                               single.exponents, mode)
    assert found == (single.moments.tobytes(), single.exponents.tobytes())


@pytest.mark.parametrize("mix", ["normal", "any bits", "tiny", "huge"])
def test_a_pass_by_threads_agrees_with_the_plain_twin(threads, numbers, mix):
    fast, slow = Tensors(numbers, "float32", mix), Tensors(numbers, "float32", mix)
    fast.compare(native, fast.rows, 2)
    slow.compare(plain, slow.rows, 2)
    assert fast.moments[:, :7].tolist() == slow.moments[:, :7].tolist()
    assert fast.exponents.tolist() == slow.exponents.tolist()
    scale = slow.moments[:, [9, 8, 9]]
    finite = np.isfinite(scale)
    off = np.abs(np.where(finite, fast.moments[:, 7:], 0) - np.where(finite, slow.moments[:, 7:], 0))
    assert (off <= np.where(finite, 2.0**-17 * scale, 0)).all()


def test_tensors_that_share_a_row_are_merged_there_in_their_order(threads, numbers):
    found = []
    for loops in (native, plain):
        tensors = Tensors(numbers)
        loops.summarize_many(tensors.places(tensors.after), tensors.numels, tensors.codes,
                             np.zeros(len(SIZES), np.int64), tensors.moments, tensors.exponents, 2)
        found.append(tensors)
    assert found[0].moments[0, 0] == sum(SIZES)
    assert found[0].exponents.tolist() == found[1].exponents.tolist()
    assert found[0].moments[0, 7:] == pytest.approx(found[1].moments[0, 7:], rel=1e-9, abs=1e-6 * sum(SIZES))
    again = Tensors(numbers)
    native.use_threads(1)
    native.summarize_many(again.places(again.after), again.numels, again.codes, np.zeros(len(SIZES), np.int64),
                          again.moments, again.exponents, 2)
    assert again.moments.tobytes() == found[0].moments.tobytes()


def test_what_is_not_asked_for_is_left_alone(either, numbers):
    tensors = Tensors(numbers)
    rows = np.where(tensors.rows % 2, tensors.rows, -1)
    tensors.compare(either, rows, 2)
    assert tensors.moments[:len(SIZES), 0].tolist() == [size if row % 2 else 0 for row, size in enumerate(SIZES)]
    assert tensors.moments[len(SIZES):, 0].tolist() == list(SIZES)
    assert tensors.exponents[0:len(SIZES):2].sum() == 0


def test_copies_of_many_are_made(threads, numbers):
    tensors = Tensors(numbers)
    native.copy_many(tensors.places(tensors.before), tensors.places(tensors.after), tensors.numels * 4)
    assert [array.tobytes() for array in tensors.before] == [array.tobytes() for array in tensors.after]


@pytest.mark.parametrize("place", [0, PART - 1, 5 * PART + 4096, 20 * PART - 1])
def test_one_element_that_is_not_finite_is_found_wherever_it_stands(threads, numbers, place):
    tensors = Tensors(numbers)
    assert native.all_finite(tensors.places(tensors.after), tensors.numels, tensors.codes)
    tensors.after[SIZES.index(20 * PART)][place] = np.nan
    assert not native.all_finite(tensors.places(tensors.after), tensors.numels, tensors.codes)


def test_two_who_read_at_once_do_not_disturb_each_other(threads, numbers):
    wanted = Tensors(numbers).compare(native, np.arange(len(SIZES)), 2)
    found: list[tuple[bytes, bytes]] = []

    def read() -> None:
        for _ in range(5):
            tensors = Tensors(numbers)
            found.append(tensors.compare(native, tensors.rows, 2))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert found == [wanted] * 15


@pytest.mark.parametrize(("entries", "message"), [
    ({"rows": [0, 2]}, "row is 2"),
    ({"rows": [0, -2]}, "row is -2"),
    ({"update_rows": [0, 2]}, "row is 2"),
    ({"befores": [8, 0]}, "address of 8 elements is 0"),
    ({"numels": [8, -1]}, "numel is -1"),
    ({"rows": [0]}, "one length"),
    ({"befores": [8]}, "one length"),
    ({"update_modes": np.zeros(3, np.uint8)}, "modes must be one number"),
    ({"modes": 3}, "mode"),
])
def test_a_wrong_entry_is_named_and_nothing_is_changed(either, entries, message):
    values = np.ones(8, np.float32)
    at = [values.ctypes.data] * 2
    given = {"afters": at, "befores": at, "numels": [8, 8], "dtypes": [0, 0], "rows": [0, -1], "update_rows": [1, -1],
             "modes": 0, "update_modes": 0, **entries}
    if "befores" in entries:
        given["befores"] = [values.ctypes.data if entry else 0 for entry in entries["befores"]]
    moments = identity_rows(2)
    lists = [np.array(given[name], np.int32 if name == "dtypes" else np.int64)
             for name in ("afters", "befores", "numels", "dtypes", "rows", "update_rows")]
    with pytest.raises(ValueError, match=message):
        either.difference_many(*lists, moments, None, given["modes"], given["update_modes"])
    assert moments.tobytes() == identity_rows(2).tobytes()


@pytest.mark.parametrize("wrong", [0, -1, 65])
def test_a_number_of_threads_that_cannot_be_is_refused(either, wrong):
    with pytest.raises(ValueError, match=f"threads is {wrong}; it must be 1 to 64"):
        either.use_threads(wrong)


def test_lists_of_copies_have_one_length(either):
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="one length"):
        either.copy_many(one, two, one)


LOADED = """
from barograph.measures import native
print(native.use_threads(1))
"""


MOST = native.MOST_THREADS


@pytest.mark.parametrize(("allowed", "most"),
                         [("1", 1), ("2,4", 2), ("", MOST), ("many", MOST), ("0", 1), ("100", MOST)])
def test_as_many_threads_read_as_the_environment_and_the_machine_allow(allowed, most):
    done = subprocess.run([sys.executable, "-c", LOADED], env={**os.environ, "OMP_NUM_THREADS": allowed},
                          capture_output=True, text=True, check=True, timeout=600)
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    assert int(done.stdout) == (min(most, processors) if native.available() else 1)


FORKED = """
import os, signal
from pathlib import Path
import numpy as np
from barograph.measures import native
from barograph.measures.summary import identity_rows

values = np.ones(2**22, np.float32)

def count():
    rows = identity_rows(1)
    native.summarize_many(np.array([values.ctypes.data]), np.array([values.size]), np.zeros(1, np.int32),
                          np.zeros(1, np.int64), rows)
    return int(rows[0, 7])

def threads():
    return len(os.listdir("/proc/self/task"))

native.use_threads(3)
alone = threads()
assert count() == 2**22
assert threads() == alone + 2, "two help"
child = os.fork()
if child == 0:
    assert threads() == 1, "none of them is forked"
    assert count() == 2**22
    assert threads() == 3, "a forked process makes its own"
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
blocked = []
for task in Path("/proc/self/task").iterdir():
    told = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
    blocked.append(int(told["SigBlk"], 16) >> (signal.SIGINT - 1) & 1)
assert sorted(blocked) == [0, 1, 1], "helpers take no signals"
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads by what Linux tells of a process")
@pytest.mark.skipif(not native.available(), reason="the native loop is not built here")
def test_helpers_are_made_when_they_are_wanted_in_a_forked_process_too_and_take_no_signals():
    done = subprocess.run([sys.executable, "-W", "error", "-c", FORKED], capture_output=True, text=True, timeout=600,
                          env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_little_memory_wakes_nobody():
    script = FORKED.partition("native.use_threads(3)")[0] + """
native.use_threads(3)
values = values[:1000]
count()
print(threads())
"""
    if sys.platform != "linux" or not native.available():
        pytest.skip("counts threads by what Linux tells of a process that has the native loop")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600,
                          env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert done.stdout == "1\n"
