"""The memory of long-running servers."""

from __future__ import annotations

import subprocess
import sys

import pytest

CONVERT = """
import sys
import pyarrow
from barograph.runs.reading.freed_memory import convert_without_pandas
{call}
pyarrow.array([1.0, None])
print("pandas" in sys.modules)
import pandas
print(pandas.DataFrame({{"a": [1]}}).a.sum())
"""


@pytest.mark.parametrize(("call", "imports"), [("convert_without_pandas()", "False"), ("", "True")])
def test_arrow_imports_no_pandas_and_others_still_can(call: str, imports: str) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")

    code = CONVERT.format(call=call)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.split() == [imports, "1"]
