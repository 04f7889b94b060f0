"""Prints the runs of an Aim repository as JSON lines. Runs in a Python with Aim, which need not have Barograph.

    python dump.py REPOSITORY > runs.jsonl
    python dump.py REPOSITORY RUN FOLDER     # the files of one run, named 0, 1, 2, … in the order of the lines
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_FILES = {
    "images": ("aim.image", "list(aim.image)"), "audios": ("aim.audio", "list(aim.audio)"), "figures": ("aim.figure",),
    "texts": ("aim.text", "list(aim.text)"),
}
_PASSED_OVER = {"distributions": ("aim.distribution",)}


def lines(path: str) -> Iterator[dict[str, Any]]:
    """Yield a line for each run, followed by one for each of its metrics and files.

    Args:
        path: The directory that contains `.aim`.
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
        for said, data in _files(run):
            yield {**said, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} \
                if data is not None else said
        for kind, types in _PASSED_OVER.items():
            for _, _, steps, _ in _sequences(run, kind, types):
                yield {"passed_over": kind[:-1], "number": len(steps)}
    for uid in sorted(set(repository.list_all_runs()) - indexed):
        yield {"not_indexed": uid}


def write_files(path: str, uid: str, folder: Path) -> None:
    """Write the files of a run."""
    from aim import Repo

    run = Repo.from_path(path).get_run(uid)
    for number, (_, data) in enumerate(item for item in _files(run) if item[1] is not None):
        (folder / str(number)).write_bytes(data or b"")


def _about(run: Any) -> dict[str, Any]:
    attributes = run[...]
    system = attributes.get("__system_params") or {}
    git = system.get("git_info") or {}
    return {
        "name": run.name, "experiment": run.experiment, "description": run.description, "tags": list(run.tags or []),
        "archived": bool(run.archived), "active": bool(run.active), "started": run.creation_time, "ended": run.end_time,
        "params": {str(name): value for name, value in attributes.items() if not str(name).startswith("__")},
        # The rest contains all environment variables, including secrets.
        "arguments": system.get("arguments"), "executable": system.get("executable"),
        "branch": git.get("branch"), "remote": git.get("remote_origin_url"),
        "commit": (git.get("commit") or {}).get("hash"),
    }


def _files(run: Any) -> Iterator[tuple[dict[str, Any], bytes | None]]:
    """Yield tracked objects other than numbers, with their bytes; None if unreadable, with the reason in the line."""
    for kind, types in _FILES.items():
        for name, context, steps, values in _sequences(run, kind, types):
            line = {"file": kind, "name": name, "context": context}
            try:
                if kind == "texts":
                    yield {**line, "which": "", "ending": "csv"}, _table(steps, values)
                    continue
                for step, value in zip(steps, values):  # noqa: B905 - Aim runs on Pythons without strict
                    several = value if isinstance(value, (list, tuple)) else [value]
                    for place, one in enumerate(several):
                        ending = "json" if kind == "figures" else str(one.storage["format"]).lower()
                        which = f"{step}-{place}" if len(several) > 1 else str(step)
                        yield {**line, "which": which, "ending": ending}, _bytes(one)
            except Exception as error:  # noqa: BLE001 - Aim may raise anything; other sequences may be readable
                yield {**line, "damage": repr(error)}, None


def _sequences(run: Any, kind: str, types: Any) -> Iterator[tuple[str, dict[str, Any], list[Any], list[Any]]]:
    for name, context, _ in run.iter_sequence_info_by_type(types):
        steps, (values,) = run._get_sequence(kind, name, context).data.view(["val"]).items_list()
        yield name, context.to_dict(), steps, values


def _bytes(thing: Any) -> bytes:
    data = thing.storage["data"]
    data = data.load() if hasattr(data, "load") else data
    return data.encode() if isinstance(data, str) else bytes(data)


def _table(steps: Any, values: Any) -> bytes:
    file = io.StringIO()
    rows = csv.writer(file)
    rows.writerow(("step", "place", "text"))
    for step, value in zip(steps, values):  # noqa: B905 - as above
        for place, one in enumerate(value if isinstance(value, (list, tuple)) else [value]):
            rows.writerow((step, place, one.data))
    return file.getvalue().encode()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        write_files(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    else:
        for line in lines(sys.argv[1]):
            print(json.dumps(line, default=str))
