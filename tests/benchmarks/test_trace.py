"""What the data trace costs is measured with and without it, and its bytes by how samples are drawn."""

from __future__ import annotations

import pytest

from benchmarks import trace
from benchmarks.trace_worker import measure


@pytest.mark.parametrize(("order", "least", "most"), [("shuffled", 0.0, 2.0), ("another sampler", 1.0, 9.0)])
def test_bytes_are_those_of_all_samples(order, least, most, tmp_path):
    found = measure({"verb": "bytes", "order": order, "samples": 5000, "steps": 40, "batch": 50,
                     "directory": str(tmp_path)})
    assert found["samples"] == 2000
    assert least < found["bytes"] / found["samples"] < most


@pytest.mark.parametrize("traces", [True, False])
def test_a_batch_by_itself_takes_some_time(traces):
    assert 0 < measure({"verb": "batches", "batch": 8, "blocks": 1, "trace": traces})["least_secs"] < 1


def test_the_figures_are_printed(capsys):
    times = {"mean_secs": 1e-3, "thread_secs": 1e-3, "cpu_secs": 1e-3}
    entries = [{"variant": name, **times} for name in ("off", "on", "off")]
    trace.print_trace({"rounds": [entries], "batches": [{"off": 1e-5, "on": 3e-5}],
                       "sizes": [{"order": "shuffled", "samples": 1000, "bytes_per_sample": 0.5}]})
    said = capsys.readouterr().out
    assert "×1.000" in said
    assert "20.0 µs" in said
    assert "0.500" in said
