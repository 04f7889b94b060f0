"""The function that held a step is found where it is the user's own, and asked again."""

from __future__ import annotations

import sys

import pytest

from barograph.capsule.order import OwnResult
from barograph.capsule.own_function import own_function, result_of
from barograph.errors import ReplayFailed
from barograph.model.recorder import UpdateSeen

SEEN = UpdateSeen(7, "", (1.5,), 9.0, {"w": 9.0})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def module(folder, name, text):
    file = folder / f"{name}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_it_is_asked(folder):
    module(folder, "own_one", "def steep(update):\n    return update.norm > 5 and f'norm {update.norm:g}'\n\n\n"
                              "def never(update):\n    return None\n")
    assert result_of("own_one:steep", SEEN, trusts=False) == OwnResult(True, "norm 9")
    assert result_of("own_one:never", SEEN, trusts=False) == OwnResult()


def test_it_may_stand_in_a_class_or_a_package(folder):
    module(folder, "own_package/__init__", "")
    module(folder, "own_package/checks", "class Steps:\n    @staticmethod\n    def seventh(update):\n"
                                         "        return update.step == 7\n")
    assert result_of("own_package.checks:Steps.seventh", SEEN, trusts=False) == OwnResult(True)


@pytest.mark.parametrize("place", ["os:system", "json.tool:main", "builtins:print", "shutil:rmtree", "pytest:main"])
def test_what_is_no_file_of_the_users_is_not_loaded_because_a_capsule_names_it(folder, place):
    with pytest.raises(ReplayFailed, match=r"anyone\. If you trust it, pass --when"):
        own_function(place)


def test_an_environment_below_the_folder_is_not_the_users(folder, monkeypatch):
    module(folder, ".venv/own_hidden", "import pathlib\n\npathlib.Path('ran').touch()\n\n\n"
                                       "def check(update):\n    return True\n")
    monkeypatch.syspath_prepend(folder / ".venv")
    with pytest.raises(ReplayFailed, match="If you trust it"):
        own_function("own_hidden:check")
    assert not (folder / "ran").exists()
    assert result_of("own_hidden:check", SEEN, trusts=True).holds


@pytest.mark.parametrize("place", ["own_two:os.system", "own_two:os.path.exists"])
def test_a_library_is_not_reached_through_a_file_of_the_users(folder, place):
    module(folder, "own_two", "import os\n")
    with pytest.raises(ReplayFailed, match="If you trust it"):
        own_function(place)


@pytest.mark.parametrize(("place", "says"), [
    ("own_nowhere:check", "there is no module own_nowhere in the folder of the script"),
    ("own_three:missing", "which cannot be imported"),
    ("own_three:NUMBER", "which is not a function"),
    ("own_three:fails", "The function own_three:fails fails: KeyError: 'head'."),
    ("own_three:leaves", "The function own_three:leaves fails: SystemExit: 3."),
    ("own_three:made.<locals>.check", "was defined while the script ran"),
    ("own_three:<lambda>", "was defined while the script ran"),
    ("own_broken:check", "importing its module failed: ZeroDivisionError"),
])
def test_why_it_cannot_be_asked_is_said_in_a_sentence(folder, place, says):
    module(folder, "own_three", "NUMBER = 3\n\n\ndef fails(update):\n    return update.norms['head'] > 1\n\n\n"
                                "def leaves(update):\n    raise SystemExit(3)\n")
    module(folder, "own_broken", "1 / 0\n")
    answer = result_of(place, SEEN, trusts=False)
    assert not answer.holds
    assert says in answer.failure
