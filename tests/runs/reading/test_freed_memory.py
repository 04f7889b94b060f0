"""The memory of long-running servers."""

from __future__ import annotations

import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from barograph.runs.reading.freed_memory import _Absent

CONVERT = """
import sys
from barograph.runs.reading.freed_memory import convert_without_pandas, keep_arrow_small
{call}
import pyarrow
pyarrow.array([1.0, None])
print("pandas" in sys.modules)
import pandas
print(pandas.DataFrame({{"a": [1]}}).a.sum())
"""


@pytest.mark.parametrize(("call", "imports"), [
    ("convert_without_pandas()", "False"), ("keep_arrow_small()", "False"),
    ("import pyarrow; keep_arrow_small()", "False"), ("", "True"),
])
def test_arrow_imports_no_pandas_and_others_still_can(call: str, imports: str) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")

    code = CONVERT.format(call=call)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.split() == [imports, "1"]


def test_arrow_takes_the_allocator_of_the_system() -> None:
    code = ("import pyarrow; from barograph.runs.reading.freed_memory import keep_arrow_small, release_freed_memory\n"
            "keep_arrow_small(); release_freed_memory(); print(pyarrow.default_memory_pool().backend_name)")

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "system"


def test_releasing_memory_does_not_import_arrow() -> None:
    code = ("import sys; from barograph.runs.reading.freed_memory import release_freed_memory\n"
            "release_freed_memory(); print('pyarrow' in sys.modules)")

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "False"


def test_pandas_is_hidden_from_the_thread_that_prepares_arrow_only() -> None:
    absent = _Absent()

    with pytest.raises(ModuleNotFoundError, match="hidden"):
        absent.find_spec("pandas", None)
    with ThreadPoolExecutor(1) as other:
        other.submit(absent.find_spec, "pandas", None).result()


ARENAS = """
import ctypes, sys, threading
from barograph.runs.reading.freed_memory import share_arenas
if sys.argv[2] == "share":
    share_arenas()
libc, together = ctypes.CDLL(None), threading.Barrier(8)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
def allocate():
    together.wait()
    libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize(("how", "is_few"), [("share", True), ("not", False)])
def test_threads_share_two_arenas(tmp_path: Path, how: str, is_few: bool) -> None:
    subprocess.run([sys.executable, "-c", ARENAS, str(tmp_path / "arenas.xml"), how], check=True)

    assert ((tmp_path / "arenas.xml").read_text().count("<heap nr=") <= 2) == is_few
