"""Runs at the start of every Python that `barograph replay` starts, because its folder leads PYTHONPATH.

It waits for the import of torch to take the script's training over, and then runs the `sitecustomize` that this one
hides, if there is one.
"""

import importlib.util
import os
import sys


def _arm() -> None:
    if not os.environ.get("BAROGRAPH_REPLAY"):
        return
    from barograph.capsule.taking_over import take_over
    from barograph.capture.autostart import arm

    arm(take_over)


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
