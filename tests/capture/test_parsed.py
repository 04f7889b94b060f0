"""What parsers made of the command line is heard, defaults too, and nothing of it stays behind."""

import argparse
import enum
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.capture.parsed import Parsed
from barograph.model.origin import Option


class Colour(enum.Enum):
    RED = "red"


@pytest.fixture
def parsed() -> Iterator[Parsed]:
    begun = Parsed()
    yield begun
    begun.stop()


def parser_of_a_training() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--learning-rate", "-l", type=float, default=0.1)
    parser.add_argument("--betas", type=float, nargs=2, default=(0.9, 0.99))
    parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--colour", type=Colour, default=Colour.RED)
    parser.add_argument("--nothing")
    parser.add_argument("--log", type=argparse.FileType("w"), default=sys.stderr)
    return parser


def test_defaults_are_heard_beside_what_was_typed(parsed: Parsed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "numbers.csv", "-l", "0.5"])
    found = parser_of_a_training().parse_args()
    assert (found.learning_rate, found.amp) == (0.5, True)
    assert parsed.options == {
        "data": Option("numbers.csv"), "learning_rate": Option(0.5, ("--learning-rate", "-l")),
        "betas": Option([0.9, 0.99], ("--betas",)), "amp": Option(True, ("--amp", "--no-amp")),
        "out": Option("out", ("--out",)), "colour": Option("red", ("--colour",)),
    }


def test_options_of_commands_below_are_heard(parsed: Parsed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "fit", "--epochs", "3"])
    parser = argparse.ArgumentParser()
    below = parser.add_subparsers(dest="command").add_parser("fit")
    below.add_argument("--epochs", type=int)
    below.add_argument("--depth", type=int, default=4)
    parser.parse_args()
    assert parsed.options == {"command": Option("fit"), "epochs": Option(3, ("--epochs",)),
                              "depth": Option(4, ("--depth",))}


def test_what_a_library_parses_for_itself_is_passed_over(parsed: Parsed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py"])
    parser = argparse.ArgumentParser()
    parser.add_argument("--inner", default=1)
    parser.parse_args(["--inner", "2"])
    assert parsed.options == {}


@pytest.mark.parametrize("name", ["click", "typer"])
def test_click_and_typer_are_heard(parsed: Parsed, name: str) -> None:
    library = pytest.importorskip(name)
    if name == "click":
        @library.command()
        @library.option("--lr", "-l", default=0.1)
        @library.option("--amp/--no-amp", default=False)
        def train(lr: float, amp: bool) -> None: ...
    else:
        train = library.Typer(add_completion=False)

        @train.command()
        def fit(lr: float = library.Option(0.1, "--lr", "-l"), amp: bool = False) -> None: ...
    train(["-l", "0.5"], standalone_mode=False)
    assert parsed.options == {"lr": Option(0.5, ("--lr", "-l")), "amp": Option(False, ("--amp", "--no-amp"))}


def test_a_parser_that_fails_fails_as_it_does_by_itself(parsed: Parsed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py"])
    with pytest.raises(SystemExit):
        parser_of_a_training().parse_args()
    assert parsed.options == {}


def test_nothing_stays_behind() -> None:
    before = argparse.ArgumentParser.parse_known_args
    begun = Parsed()
    assert argparse.ArgumentParser.parse_known_args is not before
    begun.stop()
    assert argparse.ArgumentParser.parse_known_args is before
