"""Descriptors of ours are above the standard streams, and what the script opens in their place is left alone."""

from __future__ import annotations

import os
from pathlib import Path

from barograph.machine.descriptors import Descriptor, above_standard


def test_what_the_script_has_opened_under_its_number_is_not_closed(tmp_path: Path) -> None:
    ours = Descriptor(os.open(tmp_path, os.O_RDONLY))
    assert ours.is_ours
    os.close(ours.number)
    assert not ours.is_ours
    theirs = os.open(__file__, os.O_RDONLY)
    if theirs != ours.number:
        os.dup2(theirs, ours.number)
        os.close(theirs)
    assert not ours.is_ours
    ours.close()
    assert os.fstat(ours.number).st_ino == Path(__file__).stat().st_ino
    os.close(ours.number)


def test_closing_twice_does_nothing(tmp_path: Path) -> None:
    ours = Descriptor(os.open(tmp_path, os.O_RDONLY))
    ours.close()
    ours.close()
    assert not ours.is_ours


def test_one_that_is_above_the_standard_streams_stays_as_it_is(tmp_path: Path) -> None:
    number = os.open(tmp_path, os.O_RDONLY)
    assert above_standard(number) == number
    os.close(number)
