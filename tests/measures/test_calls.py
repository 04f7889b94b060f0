"""Calls by address refuse what would write where it must not, before anything is changed."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from barograph.measures import native
from barograph.measures.summary import identity_rows

VALUES = np.ones(8, np.float32)
AT = VALUES.ctypes.data


def rows(n: int = 2) -> np.ndarray:
    return identity_rows(n)


def bins(n: int = 2) -> np.ndarray:
    return np.zeros((n, 512), np.int64)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(("call", "message"), [
    (lambda: (AT, 8, 0, rows(), 2, None, 0), "row is 2"),
    (lambda: (AT, 8, 0, rows(), -1, None, 0), "row is -1"),
    (lambda: (AT, 8, 0, rows(0), 0, None, 0), "row is 0"),
    (lambda: (AT, 8, 0, rows().astype(np.float32), 0, None, 0), "moments must be"),
    (lambda: (AT, 8, 0, rows().view(np.int64), 0, None, 0), "moments must be"),
    (lambda: (AT, 8, 0, rows()[:, :9], 0, None, 0), "moments must be"),
    (lambda: (AT, 8, 0, np.zeros((2, 9)), 0, None, 0), "moments must be"),
    (lambda: (AT, 8, 0, np.zeros(20), 0, None, 0), "moments must be"),
    (lambda: (AT, 8, 0, np.asfortranarray(rows()), 0, None, 0), "moments must be"),
    (lambda: (AT, 8, 0, read_only(rows()), 0, None, 0), "moments must be"),
    (lambda: (AT, 8, 0, rows(), 0, bins().astype(np.float64), 2), "exponents must be"),
    (lambda: (AT, 8, 0, rows(), 0, bins().astype(np.int32), 2), "exponents must be"),
    (lambda: (AT, 8, 0, rows(), 0, np.zeros((2, 511), np.int64), 2), "exponents must be"),
    (lambda: (AT, 8, 0, rows(), 1, bins(1), 2), "no such row"),
    (lambda: (AT, 8, 0, rows(), 0, None, 1), "no such row"),
    (lambda: (AT, 8, 0, rows(), 0, bins(), 3), "mode is 3"),
    (lambda: (AT, 8, 0, rows(), 0, bins(), -1), "mode is -1"),
    (lambda: (AT, 8, 17, rows(), 0, None, 0), "dtype is 17"),
    (lambda: (AT, 8, -1, rows(), 0, None, 0), "dtype is -1"),
    (lambda: (AT, -1, 0, rows(), 0, None, 0), "numel is -1"),
    (lambda: (0, 8, 0, rows(), 0, None, 0), "address of 8 elements is 0"),
])
def test_a_wrong_argument_is_named_and_nothing_is_changed(either, call, message):
    arguments = call()
    moments, exponents = arguments[3], arguments[5]
    before = moments.tobytes(), None if exponents is None else exponents.tobytes()
    with pytest.raises(ValueError, match=message):
        either.summarize_into(*arguments)
    assert before == (moments.tobytes(), None if exponents is None else exponents.tobytes())


def test_a_difference_checks_both_addresses(either):
    with pytest.raises(ValueError, match="address of 8 elements is 0"):
        either.difference_into(AT, 0, 8, 0, rows(), 0, None, 0, False)


def test_a_copy_checks_its_size_and_addresses(either):
    with pytest.raises(ValueError, match="numel is -1"):
        either.copy(AT, AT, -1)
    with pytest.raises(ValueError, match="address of 3 elements is 0"):
        either.copy(AT, 0, 3)


@pytest.mark.parametrize(("entries", "message"), [
    ({"rows": [0, 7]}, "row is 7"),
    ({"numels": [8, -1]}, "numel is -1"),
    ({"dtypes": [0, 99]}, "dtype is 99"),
    ({"pointers": [AT, 0]}, "address of 8 elements is 0"),
    ({"rows": [0]}, "one length"),
    ({"modes": [0]}, "one for each tensor"),
    ({"modes": [0, 9]}, "mode is 9"),
])
def test_of_many_tensors_none_is_merged_if_one_is_wrong(either, entries, message):
    call = {"pointers": [AT, AT], "numels": [8, 8], "dtypes": [0, 0], "rows": [0, 1], "modes": [0, 0]} | entries
    moments = rows()
    with pytest.raises(ValueError, match=message):
        either.summarize_many(
            np.array(call["pointers"]), np.array(call["numels"]), np.array(call["dtypes"], np.int32),
            np.array(call["rows"]), moments, bins(), np.array(call["modes"], np.uint8))
    assert moments.tobytes() == rows().tobytes()


def test_lists_of_the_wrong_type_are_refused(loops):
    whole = np.zeros(1, np.int64)
    for wrong in (np.zeros(1), np.zeros(1, np.int32), np.zeros((1, 1), np.int64), np.zeros(4, np.int64)[::4][:1] * 1.0):
        with pytest.raises(ValueError, match="pointers must be"):
            loops.summarize_many(wrong, whole, whole.astype(np.int32), whole, rows(), None, 0)
    with pytest.raises(ValueError, match="dtypes must be"):
        loops.summarize_many(whole, whole, whole, whole, rows(), None, 0)


def test_what_is_no_number_or_buffer_is_refused(loops):
    with pytest.raises(TypeError):
        loops.summarize_into("here", 8, 0, rows(), 0, None, 0)
    with pytest.raises(ValueError, match="moments must be"):
        loops.summarize_into(AT, 8, 0, [0.0] * 10, 0, None, 0)
    with pytest.raises(TypeError, match="takes 7 arguments, not 1"):
        loops.summarize_into(AT)
    with pytest.raises(OverflowError):
        loops.summarize_into(AT, 2**70, 0, rows(), 0, None, 0)


def test_whole_numbers_of_numpy_are_whole_numbers(either):
    moments = rows()
    either.summarize_into(np.int64(AT), np.int64(8), np.int32(0), moments, np.int64(1), bins(), np.uint8(2))
    assert moments[1, 7] == 8


def test_buffers_are_let_go_after_a_call_and_after_an_error(loops):
    moments, exponents = bytearray(rows().tobytes()), bytearray(bins().tobytes())
    for row in (0, 9):
        views = memoryview(moments).cast("d", (2, 10)), memoryview(exponents).cast("q", (2, 512))
        if row == 0:
            loops.summarize_into(AT, 8, 0, views[0], row, views[1], 2)
        else:
            with pytest.raises(ValueError, match="row is 9"):
                loops.summarize_into(AT, 8, 0, views[0], row, views[1], 2)
        for view in views:
            view.release()
    moments.append(0)  # raises BufferError while anybody holds it
    exponents.append(0)


def test_no_elements_need_no_address(either):
    moments = rows()
    either.summarize_into(0, 0, 0, moments, 0, bins(), 2)
    assert moments.tobytes() == rows().tobytes()


def test_an_unknown_set_of_instructions_is_refused(loops):
    with pytest.raises(ValueError, match="'abacus' is not among"):
        loops.use_instructions("abacus")


def test_other_threads_run_while_a_large_tensor_is_read(loops):
    values, go, ran = np.ones(2_000_000, np.float32), threading.Lock(), threading.Event()

    def wait_and_run() -> None:
        with go:
            ran.set()

    go.acquire()
    other = threading.Thread(target=wait_and_run)
    other.start()
    arguments = (values.ctypes.data, values.size, 0, rows(), 0, bins(), 2)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # from here on the other thread runs only if this one lets it
    try:
        go.release()
        for _ in range(500):
            loops.summarize_into(*arguments)
            if ran.is_set():
                break
        let = ran.is_set()
    finally:
        sys.setswitchinterval(interval)
    other.join(600)
    assert let


def test_the_door_leads_to_the_native_loop_or_says_that_it_does_not():
    assert native.available() == (native._loops.__name__ == "barograph._native")
