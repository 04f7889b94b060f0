"""An integration of an installed package records its framework; a broken one costs one warning, never the training."""

from __future__ import annotations

import os
from typing import Any

import pytest

import barograph
from packages import install

ABACUS = '''
"""A framework that counts down."""
after_step = []


def train(steps):
    for step in range(steps):
        for call in list(after_step):
            call({"w": float(steps - step)}, loss=float(steps - step))
'''

LISTENER = '''
"""Records Abacus."""
import abacus
import numpy as np
from barograph import Kind


class Hooks:
    def __init__(self, integration):
        self.integration = integration
        abacus.after_step.append(self)

    def __call__(self, weights, loss):
        self.integration.take(Kind.WEIGHT, {name: np.array([value]) for name, value in weights.items()})
        self.integration.end_step(loss=loss)

    def ask_for(self, selections):
        pass

    def mode_changes(self, mode):
        pass

    def remove(self):
        abacus.after_step.remove(self)


def listen(recording):
    recording.add_integration(Hooks(recording.new_array_integration()))
'''

SCRIPT = '''
import sys

assert "importlib.metadata" not in sys.modules, "start-up reads the metadata of all packages"
import abacus

abacus.train(5)
print("trained", len(abacus.after_step))
'''

ATTACHED = '''
import sys

import barograph

with barograph.attach(to="runs/attached", watch=False, budget=None) as run:
    assert "abacus_barograph" not in sys.modules
    import abacus

    abacus.train(5)
print("trained", len(abacus.after_step))
'''


@pytest.fixture
def abacus(desk: Any) -> Any:
    """A desk where Abacus is installed, and a package with its integration."""
    desk.write("site/abacus.py", ABACUS)
    desk.write("site/abacus_barograph.py", LISTENER)
    install(desk.folder / "site", "abacus-barograph",
            "[barograph.integrations]\nabacus = abacus_barograph:listen\n")
    desk.environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(desk.folder / "site"), os.environ.get("PYTHONPATH")]))
    return desk


def test_a_framework_of_another_package_is_recorded_under_run(abacus: Any) -> None:
    abacus.write("train.py", SCRIPT)
    done = abacus.run("--budget", "off", "--to", "runs/launched", "train.py")
    assert done.code == 0, done.err
    assert done.text.startswith("trained 1")
    read = barograph.open(str(abacus.folder / "runs/launched"))
    assert read.series("weight:w", "mean").values.tolist() == [5.0, 4.0, 3.0, 2.0, 1.0]


def test_attach_records_a_framework_of_another_package_and_restores_it(abacus: Any) -> None:
    abacus.write("attached.py", ATTACHED)
    done = abacus.python("attached.py")
    assert done.code == 0, done.err
    assert done.text == "trained 0\n"
    read = barograph.open(str(abacus.folder / "runs/attached"))
    assert read.series("loss:total").values.tolist() == [5.0, 4.0, 3.0, 2.0, 1.0]


def test_a_broken_integration_causes_one_warning_and_the_others_record(abacus: Any) -> None:
    abacus.write("site/broken_listener.py", "raise RuntimeError('cannot load this')\n")
    install(abacus.folder / "site", "broken", "[barograph.integrations]\nabacus = broken_listener:listen\n")
    install(abacus.folder / "site", "unreadable", "[barograph.integrations]\nno equals sign\n")
    abacus.write("attached.py", ATTACHED)
    done = abacus.python("attached.py")
    assert done.code == 0, done.err
    assert done.err.count("cannot load this") == 1
    assert "with the package broken failed: RuntimeError" in done.err
    assert done.err.count("the entry points of the package unreadable cannot be read") == 1
    read = barograph.open(str(abacus.folder / "runs/attached"))
    assert read.series("loss:total").values.tolist() == [5.0, 4.0, 3.0, 2.0, 1.0]
