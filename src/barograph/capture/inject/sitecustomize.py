"""Runs at the start of every Python that `barograph run` starts, because its folder leads PYTHONPATH.

It arms the recording, which begins if and when the process imports a framework, and then runs the
`sitecustomize` that this one hides, if there is one. It must never fail and never print for a process
that does not train.
"""

import importlib.util
import os
import sys


def _arm() -> None:
    if not os.environ.get("BAROGRAPH_LAUNCH"):
        return
    try:
        from barograph.capture import autostart
    except ImportError as error:
        if importlib.util.find_spec("torch") is not None:
            print(f"Barograph: {sys.executable} cannot import barograph ({error}); what it trains is not recorded.",
                  file=sys.stderr)
        return
    autostart.arm()


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
