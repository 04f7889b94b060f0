"""Files that a process has open are met, those that libraries in C opened too."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from barograph.machine.open_files import OpenFiles
from barograph.model.clock import ManualClock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells of open files")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_what_is_open_to_read_or_mapped_is_met_once(tmp_path: Path, clock: ManualClock) -> None:
    for name in ("read.h5", "mapped.arrow", "shared.bin", "written.log", "gone.txt", "library.so.1"):
        (tmp_path / name).write_bytes(b"x" * 10)
    looking = OpenFiles(os.getpid(), clock=clock.monotonic)
    numbers = [os.open(tmp_path / name, os.O_RDONLY)
               for name in ("read.h5", "mapped.arrow", "gone.txt", "library.so.1")]
    numbers += [os.open(tmp_path / name, os.O_RDWR) for name in ("shared.bin", "written.log")]
    (tmp_path / "gone.txt").unlink()
    with mmap.mmap(numbers[1], 0, prot=mmap.PROT_READ), mmap.mmap(numbers[4], 0):
        os.close(numbers[1])
        assert [path for path in looking.look() if path.startswith(str(tmp_path))] == [
            str(tmp_path / "mapped.arrow"), str(tmp_path / "read.h5")]
    clock.advance(60)
    assert [path for path in looking.look() if path.startswith(str(tmp_path))] == []
    for number in (numbers[0], *numbers[2:]):
        os.close(number)


def test_what_a_child_has_open_is_met_and_what_one_of_another_session_has_is_not(
    tmp_path: Path, clock: ManualClock
) -> None:
    for name in ("mine.csv", "other.csv"):
        (tmp_path / name).write_bytes(b"x")
    program = "import sys; file = open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path / name)], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, start_new_session=name == "other.csv")
        for name in ("mine.csv", "other.csv")
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    found = OpenFiles(os.getpid(), clock=clock.monotonic).look()
    for process in started:
        process.communicate()
    assert [path for path in found if path.startswith(str(tmp_path))] == [str(tmp_path / "mine.csv")]


def test_it_is_looked_ever_more_seldom_and_a_process_that_is_gone_has_nothing(clock: ManualClock) -> None:
    looking = OpenFiles(2**22 + 1, clock=clock.monotonic)
    assert (looking.look(), looking.look()) == ([], [])
