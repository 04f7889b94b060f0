"""Commands of a place and of a script with words of its own: options of ours may stand on either side of the place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer.core


def options_first(words: Sequence[str], takes_value: Mapping[str, bool], bare: Mapping[str, str]) -> list[str]:
    """Return the words of a command with the options that stand right after the place moved before it.

    From the first word after the place that is no option all words are the script's, and stay as they are.

    Args:
        words: As typed: options, a place, options, a script and its words.
        takes_value: Each option, and whether a value follows it.
        bare: Options whose value may be left out, with what stands for it then.

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
    # Behind the place, what ends the options has done its part: it is no word of the script.
    return [*options, *place, *(left[1:] if place and left[:1] == ["--"] else left)]


def command_class(bare: Mapping[str, str] | None = None) -> type[typer.core.TyperCommand]:
    """Return the class of a command of which options may stand right after the place.

    Args:
        bare: Options whose value may be left out, with what stands for it then.
    """

    class OptionsEitherSide(typer.core.TyperCommand):
        """Puts them in front before it reads them."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            takes_value = {word: not getattr(param, "is_flag", False) for param in self.get_params(ctx)
                           for word in (*param.opts, *param.secondary_opts) if word.startswith("-")}
            return super().parse_args(ctx, options_first(args, takes_value, bare or {}))

    return OptionsEitherSide
