"""Open a run and ask it questions.

    python examples/analysis.py barograph-runs/demo/healthy

Without an argument it first records a short training of `digits.py`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

import barograph
from barograph.measures.formats import FP16
from barograph.measures.histogram import quantile, share_below


def record(place):
    script = Path(__file__).with_name("digits.py")
    command = ["run", "--to", place, "--budget", "off", str(script), "--epochs", "3"]
    subprocess.run([sys.executable, "-m", "barograph", *command], check=True, capture_output=True)


def main(place):
    run = barograph.open(place)
    print(f"{run.manifest.name}: {' '.join(run.manifest.command)}")
    for worker in run.workers:
        print(f"  {worker.worker.name} {worker.standing.value} after {worker.last.step} steps")
    for finding in run.findings:
        print(f"  {finding.severity.value} {finding.code} since step {finding.since_step}: {finding.message}")

    # What is there: keys, by kind, by shell pattern or by regular expression.
    print("\nkeys of weights:", *run.keys("weight", path="conv*"))
    print("evaluations after steps:", *run.steps("eval"))

    # One number a step, as NumPy arrays.
    loss = run.series("loss:total")
    print(f"loss: {loss.values[0]:.3f} at step {loss.steps[0]}, {loss.values[-1]:.3f} at step {loss.steps[-1]}")
    for key in run.keys("gradient", path="*.weight"):
        norms = run.series(key, "l2").values
        print(f"  {key!s:<24} norm {norms.min():.2e} to {norms.max():.2e}")

    # All that is known of one tensor at one step, and what follows from its histogram.
    last = int(run.series("gradient:conv1.weight", "l2").steps[-1]) // 10 * 10  # every tenth step has histograms
    summary = run.summary("gradient:conv1.weight", last)
    print(f"gradient of conv1 at step {last}: mean {summary.mean:.1e}, largest {summary.max_abs:.1e}, "
          f"median about {quantile(summary, 0.5):.1e}; {share_below(summary, FP16):.2%} would be 0 in float16")

    # Tables: Arrow, pandas, polars; or SQL over the files themselves, without Barograph.
    table = run.pandas("output", mode="train", columns=["step", "path", "count", "zeros"])
    print("\nshare of zeros in each layer's output:")
    print((table.groupby("path")["zeros"].sum() / table.groupby("path")["count"].sum()).round(3).to_string())
    rows = duckdb.sql(f"SELECT kind, count(*) AS rows FROM '{run.url}/**/*.parquet' GROUP BY kind ORDER BY kind")
    print(rows)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            record(f"{folder}/digits")
            main(f"{folder}/digits")
