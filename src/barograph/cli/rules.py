"""`barograph rules`: which rules there are, and what each means."""

from __future__ import annotations

from typing import Annotated

import typer

GROUP = typer.Typer(rich_markup_mode=None, invoke_without_command=True)
"""`barograph rules` by itself lists the rules; its subcommands do the rest."""

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@GROUP.callback()
def command(context: typer.Context, as_json: _Json = False) -> None:
    """List the rules that watch a training: code, name, severity, and what each finds.

    Examples:

      barograph rules

      barograph rules explain dead-relu

      barograph run --rules dead-relu,overfit train.py
    """
    context.obj = as_json
    if context.invoked_subcommand is None:
        # Loaded here, because --help needs none of it.
        from barograph.cli.rules_page import print_rules

        print_rules(as_json=as_json)


@GROUP.command()
def explain(
    context: typer.Context,
    rule: Annotated[
        str, typer.Argument(metavar="RULE", help="Code (G101) or name (vanishing-gradient) of an installed rule, or "
                                                 "module:Class of one of your own.")
    ],
    as_json: _Json = False,
) -> None:
    """Show a rule's page: what it sees, why it matters, what to do, when it is wrong, and its parameters.

    Examples:

      barograph rules explain G101

      barograph rules explain weight-update-ratio --json
    """
    from barograph.cli.rules_page import print_rule

    print_rule(rule, as_json=as_json or bool(context.obj))
