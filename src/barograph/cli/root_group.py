"""The `barograph` command group: lists and completes commands without importing them."""

from __future__ import annotations

from typing import Any

import typer.core

from barograph.cli.command_list import GROUPS, SUMMARIES
from barograph.cli.plain_values import take_plain_values

_INSTALLS = ("--install-completion", "--show-completion")


class RootGroup(typer.core.TyperGroup):
    """Lists commands from `command_list`, and completes their arguments."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, one section per group."""
        width = max(map(len, SUMMARIES))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", summary) for name, summary in commands.items()])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words before the command."""
        take_plain_values(self, ctx)
        if any(word.startswith(_INSTALLS) for word in args):
            from barograph.cli.completing import mend_zsh_script

            mend_zsh_script()
        words: list[str] = super().parse_args(ctx, args)
        return words

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return commands and options with a prefix."""
        from typer._click.shell_completion import CompletionItem

        options: list[Any] = super(typer.core.TyperGroup, self).shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=summary) for name, summary in SUMMARIES.items()
                if name.startswith(incomplete)] + options

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; with completions if a shell completes it."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            take_plain_values(command, ctx)
        if ctx.resilient_parsing and command is not None:
            from barograph.cli.completing import complete_words_of

            complete_words_of(command)
        return command
