import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.family import TICKS_A_SECOND, descendants_cpu_secs, family_cpu_secs


def add_process(proc, pid, parent, user, system, name="python"):
    (proc / str(pid)).mkdir()
    rest = f"S {parent} 0 0 0 0 0 0 0 0 0 {user} {system} 0 0"
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {rest}\n")


def test_children_and_their_children_count_and_nobody_else(tmp_path):
    add_process(tmp_path, 1, 0, 900, 900)
    add_process(tmp_path, 10, 1, 500, 500)
    add_process(tmp_path, 11, 10, TICKS_A_SECOND, 0)
    add_process(tmp_path, 12, 11, TICKS_A_SECOND, TICKS_A_SECOND)
    add_process(tmp_path, 20, 1, 700, 700)

    assert descendants_cpu_secs(tmp_path, 10) == [1.0, 2.0]


def test_a_name_with_brackets_and_blanks_is_read_past(tmp_path):
    add_process(tmp_path, 10, 1, 0, 0)
    add_process(tmp_path, 11, 10, 3 * TICKS_A_SECOND, 0, name="a) S 1 (b")

    assert descendants_cpu_secs(tmp_path, 10) == [3.0]


def test_without_a_proc_only_this_process_counts(tmp_path):
    assert descendants_cpu_secs(tmp_path / "proc", 10) == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="other processes' times are read from /proc")
def test_the_work_of_a_living_child_is_counted():
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    before = family_cpu_secs()
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        worked = family_cpu_secs() - before
        child.communicate(b"\n")

    assert worked >= 0.25
