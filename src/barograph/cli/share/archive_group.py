"""A group of commands of which one may be left out: `barograph export digits` is `barograph export archive digits`."""

from __future__ import annotations

import difflib
from typing import Any

from typer.core import TyperGroup

_MEANT = "archive"
_ALIKE = 0.7


class ArchiveGroup(TyperGroup):
    """Takes a word that is none of its commands, and like none of them, for what `archive` is asked of."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is meant, and what it is given."""
        word = args[0] if args else ""
        is_typo = difflib.get_close_matches(word, self.commands, n=1, cutoff=_ALIKE)
        if word and not word.startswith("-") and word not in self.commands and not is_typo:
            return _MEANT, self.commands[_MEANT], args
        return super().resolve_command(ctx, args)
