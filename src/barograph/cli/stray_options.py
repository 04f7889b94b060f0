"""Options that a script receives, but that the user probably meant for our command: misspelled or misplaced ones."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
import typer.core

from barograph.errors import UnknownName, closest

OTHER_NAMES = {
    "--trials": "--jobs", "--n-trials": "--jobs", "--num-trials": "--jobs", "--max-trials": "--jobs",
    "--n-jobs": "--parallel", "--max-concurrent": "--parallel",
}
"""Names that other tuners use, to ours; none that scripts often have, such as --workers and --timeout."""
_ALIKE = 0.85  # --set and --met are 0.8
_LEAST = len("--tag")  # too much is one letter away from --to
_LEAST_WRONG = len("--name")  # too many words are one wrong letter away from --set
_PARSERS = re.compile(r"\.add_argument\(|\boption\(|\bOption\(|\bdocopt\(|\bDEFINE_\w+\(|\bFire\(")
"""Where a script lists its options. Otherwise they are in another module: in dataclasses for `HfArgumentParser`."""
_IMPORTS = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)
# Base class of typer's errors: either the click package's or typer's own copy.
_UsageError: Any = typer.BadParameter.__mro__[1]


class WithHints(typer.core.TyperCommand):
    """A command that suggests an option for an unknown one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            UnknownName: There is an unknown option.
        """
        try:
            rest: list[str] = super().parse_args(ctx, list(args))
        except _UsageError as error:
            if not hasattr(error, "possibilities"):
                raise
            raise _unknown(error.option_name, self.own(ctx)) from None
        return rest

    def own(self, ctx: Any) -> list[str]:
        """Return the options of the command."""
        return [word for param in self.get_params(ctx) for word in (*param.opts, *param.secondary_opts)
                if word.startswith("--")]


class BesideScript(WithHints):
    """A command whose arguments are a script and its own options. It says when the script receives a stray one."""

    refuses = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            UnknownName: There is an unknown option, and no script that could receive it; or the script starts later,
                and does not mention an option that is like one of ours.
        """
        # Words after -- are meant for the script.
        explicit = len(args) - args.index("--") - 1 if "--" in args else 0
        own, rest = self.own(ctx), super().parse_args(ctx, args)
        words = list(ctx.params.get("command") or ())
        if words and not ctx.resilient_parsing:
            typed = words[:len(words) - explicit]
            if ctx.ignore_unknown_options and typed:
                _expect_script(typed, own, has_none=bool(ctx.params.get("algorithm")) or words[0].endswith(".toml"))
            for note in stray_notes(typed, own, ctx.command_path):
                if self.refuses:
                    raise UnknownName(f"{note} To pass it to the script, write -- before the script.")
                print(f"barograph: note: {note}", file=sys.stderr)
        return rest


class BesideLaterScript(BesideScript):
    """A command whose script starts later, perhaps for money. It refuses stray options: nobody reads a note by then."""

    refuses = True


def stray_notes(words: Sequence[str], own: Sequence[str], command: str) -> list[str]:
    """Return a sentence for each argument of a script that was probably meant for our command.

    Args:
        words: Words after the options of the command: a script and its arguments.
        own: Options of the command.
        command: Name of the command.
    """
    place = next((place for place, word in enumerate(words) if word.endswith(".py")), None)
    if place is None:
        return []
    script, names = words[place], dict.fromkeys(word.partition("=")[0] for word in words[place + 1:])
    hints = {name: f" Options of {command} come before the script." if name in own else _hint(_meant(name, own))
             for name in names if name.startswith("--")}
    if not any(hints.values()):
        return []
    text = _text(Path(script), set())
    if not _PARSERS.search(text):
        return []
    return [f"{script} receives {name}, which it does not mention.{hint}" for name, hint in hints.items()
            if hint and not _mentions(text, name[2:], own)]


def _text(script: Path, known: set[Path]) -> str:
    """Return the text of a script and of the modules beside it that it imports; "" if it cannot be read."""
    known.add(script)
    try:
        text = script.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # whoever starts it says so
    places = (script.parent.joinpath(*name.split(".")) for name in _IMPORTS.findall(text))
    modules = {file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")}
    return "\n".join([text, *(_text(module, known) for module in sorted(modules) if module not in known)])


def _expect_script(words: Sequence[str], own: Sequence[str], *, has_none: bool) -> None:
    """Refuse an unknown option that no script can receive."""
    unknown = next((word for word in words if word.startswith("--")), "") if has_none else words[0]
    if unknown.startswith("--"):
        raise _unknown(unknown.partition("=")[0], own)


def _unknown(word: str, own: Sequence[str]) -> UnknownName:
    return UnknownName(f"There is no option {word}."
                       + _hint(_meant(word, own) or list(filter(None, [closest(word, own, least=_ALIKE)]))))


def _meant(word: str, own: Sequence[str]) -> list[str]:
    """Return the option that other tuners call so, or those that a word abbreviates, or the first one a slip away."""
    if (ours := OTHER_NAMES.get(word.replace("_", "-"), "")) in own:
        return [ours]
    begun = [option for option in own if option.startswith(word)] if len(word) >= _LEAST else []
    return begun or [option for option in own if _is_slip(word, option)][:1]


def _is_slip(word: str, option: str) -> bool:
    """Return whether one letter of an option is missing, added or wrong, or two neighbors are swapped."""
    shorter = min(len(word), len(option))
    start = next((place for place in range(shorter) if word[place] != option[place]), shorter)
    here, there = word[start:], option[start:]
    is_swapped = here[:2] == there[1::-1] and here[2:] == there[2:]
    is_wrong = here[1:] == there[1:] and len(option) >= _LEAST_WRONG
    return len(option) >= _LEAST and (here[1:] == there or here == there[1:] or is_wrong or is_swapped)


def _mentions(text: str, name: str, own: Sequence[str]) -> bool:
    """Return whether a script mentions an option, or one of its own that begins so: argparse takes abbreviations."""
    spellings = re.sub("[-_]", "[-_]", re.escape(name).replace(r"\-", "-"))
    return re.search(rf"(?<!\w){spellings}(?!\w)", text) is not None or any(
        option not in own for option in re.findall(rf"--{spellings}[\w-]*", text))


def _hint(options: Sequence[str]) -> str:
    *others, last = options or [""]
    return f" Did you mean {', '.join(others)}{' or ' * bool(others)}{last}?" if last else ""
