"""Parsing of commands such as `barograph replay CAPSULE train.py --lr 1`: our options may follow the first argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer.core


def options_first(words: Sequence[str], takes_value: Mapping[str, bool], bare: Mapping[str, str]) -> list[str]:
    """Return the arguments with the options right after the first argument moved before it.

    Everything from the script on belongs to the script and stays unchanged.

    Args:
        words: As typed: options, a path, options, a script and its arguments.
        takes_value: Whether each option takes a value.
        bare: Default values of options whose value is optional.

    Example:
        >>> options_first(["runs/first", "--try", "lr=1", "train.py", "--try"], {"--try": True}, {})
        ['--try', 'lr=1', 'runs/first', 'train.py', '--try']
        >>> options_first(["runs/first", "--out"], {"--out": True}, {"--out": "x"})
        ['--out=x', 'runs/first']
    """
    left, options = list(words), []
    place: list[str] = []
    while left and left[0] != "--":
        word = left[0]
        if not word.startswith("-"):
            if place:
                break
            place = [left.pop(0)]
            continue
        left.pop(0)
        if word in bare and (not left or left[0].startswith("-")):
            options.append(f"{word}={bare[word]}")
            continue
        options.append(word)
        if takes_value.get(word) and left:
            options.append(left.pop(0))
    # A "--" after the path only ends our options; the script does not get it.
    return [*options, *place, *(left[1:] if place and left[:1] == ["--"] else left)]


def command_class(bare: Mapping[str, str] | None = None) -> type[typer.core.TyperCommand]:
    """Return the class of a command whose options may follow its first argument.

    Args:
        bare: Default values of options whose value is optional.
    """

    class OptionsEitherSide(typer.core.TyperCommand):
        """Moves options to the front before parsing."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            takes_value = {word: not getattr(param, "is_flag", False) for param in self.get_params(ctx)
                           for word in (*param.opts, *param.secondary_opts) if word.startswith("-")}
            return super().parse_args(ctx, options_first(args, takes_value, bare or {}))

    return OptionsEitherSide
