"""A process that has imported PyTorch and forks for each program, which saves seconds per program.

A fork runs the recorder and the replayer that the command line runs, but not the command line itself. Each input line
is a request as JSON; each output line is its response: how the fork ended.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
import torch._dynamo

from barograph.capsule.order import order_from_text
from barograph.capsule.torch.replay import Replayer
from barograph.capture.session import Session
from barograph.capture.this_worker import ThisWorker
from barograph.capture.torch.integration import TorchIntegration
from barograph.errors import TrainingStopped
from barograph.model.recorder import recorder_from
from barograph.model.settings import Settings
from barograph.runs.state.capsules import write_capsule
from barograph.store.urls import store_from_url
from benchmarks.null_writer import NullWriter

STOPPED = 79


def _record(request: Mapping[str, Any]) -> None:
    store = store_from_url(request["run"])
    settings = Settings(to=request["run"], strict=True, recorder=recorder_from("recorder", request["recorder"]))

    def write(head: Any, content: Any, tensors: Any, pickled: Any) -> str:
        return write_capsule(store, replace(head, worker="p0", run_id="bench"), content, tensors, pickled)

    session = Session(settings, (), lambda *_: NullWriter(), worker=ThisWorker(write_capsule=write))
    TorchIntegration(session).install()
    try:
        runpy.run_path(request["script"], run_name="__main__")
    except TrainingStopped as stopped:
        print(stopped, file=sys.stderr)
        raise SystemExit(STOPPED) from stopped


def _replay(request: Mapping[str, Any]) -> None:
    Replayer(order_from_text(request["order"])).install()
    runpy.run_path(request["script"], run_name="__main__")


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    child = os.fork()
    if child:
        return {"exit_code": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}
    code = 1
    try:
        with open(request["said"], "w", encoding="utf-8") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        # A respawned loader worker would look for the main module of this process.
        sys.argv = [request["script"]]
        os.chdir(request["folder"])
        sys.path[0] = os.path.dirname(request["script"])
        (_record if request["what"] == "record" else _replay)(request)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - whatever ends the script ends its fork alone
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Serve requests until the input ends."""
    # `torch._dynamo` is imported above: otherwise the first optimizer of each fork would import it, for 1.5 s.
    torch.set_num_threads(1)
    with suppress(ImportError):
        import sklearn.datasets
        import sklearn.preprocessing  # noqa: F401
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
