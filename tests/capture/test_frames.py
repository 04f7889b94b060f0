"""Where in a program a frame is: the loops around it, what they count with, and what is put forward with them."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from barograph.capture.frames import (
    count_on,
    frames_of_script,
    is_of_script,
    loop_names,
    place_of,
    requesting_library,
    requests_now,
    set_locals,
)


class Asked:
    """An iterator that looks at who asks."""

    def __init__(self, look, items=3):
        self.look, self.left = look, items

    def __iter__(self):
        return self

    def __next__(self):
        self.look(sys._getframe(1))
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


def test_the_loops_around_a_place_are_named_from_the_outermost_on():
    seen = []
    for _epoch in range(1):
        for _number, (_x, _y) in [(0, (1, 2))]:
            for _ in Asked(lambda frame: seen.append((loop_names(frame), requests_now(frame))), items=0):
                pass
    assert seen == [([("_epoch",), ("_number", "_x", "_y"), ("_",)], True)]


def test_a_call_of_next_is_in_the_loops_around_it_and_asks_for_none_of_them():
    seen = []
    batches = Asked(lambda frame: seen.append((loop_names(frame), requests_now(frame))))
    for _step in range(1):
        next(batches)
    assert seen == [([("_step",)], False)]


def test_a_frame_is_found_by_file_and_function():
    frame = sys._getframe()
    assert frames_of_script(frame)[0] is frame
    assert place_of(frame) == "test_frames.py:test_a_frame_is_found_by_file_and_function"


@pytest.mark.parametrize(("filename", "expected"), [
    ("/srv/models/train.py", True), ("<stdin>", False), ("<frozen runpy>", False),
    ("/usr/lib/python3/dist-packages/x.py", False), ("/env/lib/python3.11/site-packages/torch/x.py", False),
    (is_of_script.__code__.co_filename, False), (sys.modules["json"].__file__, False),
])
def test_a_library_is_no_script(filename, expected):
    assert is_of_script(filename) is expected


def in_library(name, filename, iterator):
    code = compile("def loop(items):\n    for item in items:\n        yield item\n", filename, "exec")
    space = {"__name__": name}
    exec(code, space)
    return space["loop"](iterator)


@pytest.mark.parametrize(("name", "expected"), [("lightning.pytorch.loops", "lightning"), ("tqdm.std", "")])
def test_a_librarys_loop_is_named_and_a_progress_bar_is_none(name, expected):
    seen = []
    asked = Asked(lambda frame: seen.append(requesting_library(frame)), items=0)
    list(in_library(name, "/env/site-packages/x.py", asked))
    assert seen == [expected]


def test_variables_of_a_frame_that_runs_are_set():
    def outer(look):
        best, history = 5, [1]
        look(sys._getframe())
        return best, history

    assert outer(lambda frame: set_locals(frame, {"best": 7})) == (7, [1])


@pytest.mark.parametrize("wrapped", [lambda asked: asked, lambda asked: in_library("tqdm.std", "/site-packages/t.py",
                                                                                   asked)])
def test_what_counts_the_items_is_put_forward(wrapped):
    def look(frame: FrameType) -> None:
        if asked.left == 2:
            count_on(asked, 10, frame)

    asked = Asked(look)
    assert [number for number, _ in enumerate(wrapped(asked), start=1)] == [1, 12, 13]
