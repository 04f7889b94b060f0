"""The commands `import` and `export`, whose subcommands are plugins. The subcommand `archive` is the default."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from barograph.errors import closest
from barograph.model.one_line import shown_lines
from barograph.plugins import installed_plugins, package_of

_MEANT = "archive"
_ALIKE = 0.7


class ArchiveGroup(TyperGroup):
    """Passes arguments that do not resemble a subcommand to `archive`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command and its arguments."""
        word = args[0] if args else ""
        meant = closest(word, self.commands, least=_ALIKE)  # the word itself if it is a subcommand
        if word and not word.startswith("-") and not meant and _MEANT in self.commands:
            return _MEANT, self.commands[_MEANT], args
        return super().resolve_command(ctx, args)


def group_of_plugins(entry_points: str, callback: Callable[[], None]) -> typer.Typer:
    """Return a command with a subcommand for each installed plugin.

    A plugin is a function: its parameters become arguments and options, its docstring the help. One that cannot be used
    is left out and reported when the command is called.

    Args:
        entry_points: Group of entry points.
        callback: Its docstring is the help of the command.
    """
    plugins = installed_plugins(entry_points)
    problems = list(plugins.problems)

    class Group(ArchiveGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if not ctx.resilient_parsing:  # not during shell completion
                for problem in problems:
                    print(f"barograph: {shown_lines(problem)}", file=sys.stderr)
            return super().parse_args(ctx, args)

    group = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True)
    group.callback()(callback)
    names: set[str] = set()
    for point in plugins.points:
        where = f"{point.name} of the package {package_of(point)}"
        if point.name in names:
            problems.append(f"{where} is ignored: there is another with this name")
            continue
        try:
            function = point.load()
            alone = typer.Typer(add_completion=False)
            alone.command()(function)
            typer.main.get_command(alone)
        except Exception as error:  # noqa: BLE001 - third-party code may raise anything
            problems.append(f"{where} cannot be loaded: {type(error).__name__}: {error}")
            continue
        names.add(point.name)
        group.command(point.name)(function)
    return group
