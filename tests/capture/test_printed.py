"""What is printed is copied, and the streams are what they were."""

from __future__ import annotations

import io
import sys
import warnings

import pytest

from barograph.capture import printed
from barograph.capture.printed import Printed


def installed(monkeypatch: pytest.MonkeyPatch) -> tuple[io.TextIOWrapper, io.TextIOWrapper]:
    """Put streams in place of those of the test runner, which has put in its own by now."""
    made = io.TextIOWrapper(io.BytesIO(), write_through=True), io.TextIOWrapper(io.BytesIO(), write_through=True)
    monkeypatch.setattr(sys, "stdout", made[0])
    monkeypatch.setattr(sys, "stderr", made[1])
    return made


def bytes_of(stream: io.TextIOWrapper) -> bytes:
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue()


def test_both_streams_are_copied_in_order_and_print_as_ever(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = installed(monkeypatch)
    copy = Printed()
    print("one", "two")
    sys.stdout.writelines(["three\n", "four\n"])
    print("wrong", file=sys.stderr)
    sys.stdout.write("ä\r")
    found = copy.take()
    copy.stop()
    assert found == ([("out", "one two\nthree\nfour\n"), ("err", "wrong\n"), ("out", "ä\r")], 0)
    assert bytes_of(streams[0]) == "one two\nthree\nfour\nä\r".encode()
    assert bytes_of(streams[1]) == b"wrong\n"


def test_the_streams_stay_the_objects_that_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = installed(monkeypatch)
    copy = Printed()
    assert (sys.stdout, sys.stderr) == streams
    assert (sys.stdout.isatty(), sys.stdout.write("12345")) == (False, 5)
    with pytest.raises(TypeError):
        sys.stdout.write(3)  # type: ignore[arg-type]
    copy.stop()


def test_afterwards_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = installed(monkeypatch)
    copy = Printed()
    kept = sys.stdout.write
    copy.stop()
    assert "write" not in vars(sys.stdout)
    assert "write" not in vars(sys.stderr)
    kept("still works")
    assert copy.take() == ([], 0)
    assert bytes_of(streams[0]) == b"still works"


def test_warnings_and_what_is_printed_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    monkeypatch.setattr(printed, "MOST_CHARS", 10)
    copy = Printed()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda message, *_: print(message, file=sys.stderr))
        warnings.warn("careful now", UserWarning, stacklevel=1)
    sys.stdout.write("12345")
    texts, left_out = copy.take()
    assert "careful" in texts[0][1]
    assert left_out == 6  # with the end of the first line, which is written by itself
    sys.stdout.write("again")
    assert copy.take() == ([("out", "again")], 0)
    copy.stop()


def test_streams_that_are_missing_or_let_nothing_be_set_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        __slots__ = ()

        def write(self, text: str) -> int:
            return len(text)

    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", Closed())
    copy = Printed()
    sys.stderr.write("x")
    assert copy.take() == ([], 0)
    copy.stop()
