"""Tells of the runs of a repository of Aim in lines of JSON: run by a Python that has Aim, and need not have Barograph.

    python telling.py REPOSITORY > runs.jsonl
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any


def told(path: str) -> Iterator[dict[str, Any]]:
    """Yield what there is to tell: a line for each run, and behind it one for each of its metrics.

    Args:
        path: Of the folder that holds `.aim`.
    """
    from aim import Repo

    repository = Repo.from_path(path)
    indexed = set()
    for run in repository.iter_runs():
        indexed.add(run.hash)
        yield {"run": run.hash, **_about(run)}
        for metric in run.metrics():
            data = metric.data.view(["val", "time"])
            steps, (values, times) = data.numpy()
            yield {"metric": metric.name, "context": metric.context.to_dict(), "steps": steps.tolist(),
                   "values": values.tolist(), "times": times.tolist()}
    for uid in sorted(set(repository.list_all_runs()) - indexed):
        yield {"not_indexed": uid}


def _about(run: Any) -> dict[str, Any]:
    attributes = run[...]
    system = attributes.get("__system_params") or {}
    git = system.get("git_info") or {}
    return {
        "name": run.name, "experiment": run.experiment, "description": run.description, "tags": list(run.tags or []),
        "archived": bool(run.archived), "active": bool(run.active), "started": run.creation_time, "ended": run.end_time,
        "params": {str(name): value for name, value in attributes.items() if not str(name).startswith("__")},
        # The rest of it holds all variables of the environment, secrets among them.
        "arguments": system.get("arguments"), "executable": system.get("executable"),
        "branch": git.get("branch"), "remote": git.get("remote_origin_url"),
        "commit": (git.get("commit") or {}).get("hash"),
    }


if __name__ == "__main__":
    for line in told(sys.argv[1]):
        print(json.dumps(line, default=str))
