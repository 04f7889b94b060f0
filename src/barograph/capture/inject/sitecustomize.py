"""Runs at the start of every Python that `barograph run` or `barograph replay` starts: its folder is first in
PYTHONPATH.

It arms the recording, or the replay, which begins if and when the process imports a framework, and then runs the
`sitecustomize` that this one hides, if there is one. It must never fail and never print for a process
that does not train.
"""

import importlib.machinery
import importlib.util
import os
import sys

_ARMED_BY = {
    "BAROGRAPH_LAUNCH": ("barograph.capture.autostart", "recorded"),
    "BAROGRAPH_REPLAY": ("barograph.capsule.taking_over", "replayed"),
}
"""Environment variables, the module whose `arm` waits for a framework, and the action for messages."""

_FRAMEWORKS = ("torch", "tensorflow", "jax", "xgboost", "lightgbm")
"""A Python without any of these cannot train anything that is recorded automatically."""


def _arm() -> None:
    for variable, (module, done) in _ARMED_BY.items():
        if not os.environ.get(variable):
            continue
        try:
            arming = importlib.import_module(module)
        except ImportError as error:
            if any(importlib.util.find_spec(name) is not None for name in _FRAMEWORKS):
                print(f"Barograph: {sys.executable} cannot import barograph ({error}); what it trains is not {done}.",
                      file=sys.stderr)
            continue
        arming.arm()


def _run_hidden() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path or os.curdir) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_arm()
_run_hidden()
