"""The clock of what a training thread waited for a processor."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barograph.capture.thread_clock import ProcessorWait


@pytest.fixture
def wait() -> ProcessorWait:
    found = ProcessorWait()
    found.start()
    if found._file is None:
        pytest.skip("the system does not count it")
    return found


def test_its_file_is_closed_with_it(wait: ProcessorWait) -> None:
    number = wait._file
    assert number is not None
    wait.__del__()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    wait._file = None


def test_a_file_of_the_script_that_has_its_number_stays_open(wait: ProcessorWait, tmp_path: Path) -> None:
    number = wait._file
    assert number is not None
    os.close(number)
    wait.__del__()  # nothing is open: no error
    other = os.open(tmp_path / "of the script", os.O_CREAT | os.O_WRONLY)
    os.dup2(other, number)
    wait.__del__()
    assert os.write(number, b"still open") == 10
    wait._file = None
    for item in {number, other}:
        os.close(item)
