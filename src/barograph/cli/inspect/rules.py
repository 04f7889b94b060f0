"""`barograph rules`: list and explain rules, and create new ones."""

from __future__ import annotations

from typing import Annotated

import typer

GROUP = typer.Typer(rich_markup_mode=None, invoke_without_command=True)
"""`barograph rules` without a subcommand lists the rules."""

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@GROUP.callback()
def command(context: typer.Context, as_json: _Json = False) -> None:
    """List the rules that detect problems.

    For each: code, name, severity, and what it finds.

    Examples:

      barograph rules

      barograph rules explain dead-relu

      barograph run --rules dead-relu,overfit train.py
    """
    context.obj = as_json
    if context.invoked_subcommand is None:
        # Loaded here, because --help needs none of it.
        from barograph.cli.inspect.rules_page import print_rules

        print_rules(as_json=as_json)


@GROUP.command()
def explain(
    context: typer.Context,
    rule: Annotated[
        str, typer.Argument(metavar="RULE", help="Code (G101) or name (vanishing-gradient) of an installed rule, or "
                                                 "module:Class of your own.")
    ],
    as_json: _Json = False,
) -> None:
    """Explain a rule.

    What it detects, why it matters, what to do, when it is wrong, and its parameters.

    Examples:

      barograph rules explain G101

      barograph rules explain weight-update-ratio --json
    """
    from barograph.cli.inspect.rules_page import print_rule

    print_rule(rule, as_json=as_json or bool(context.obj))


@GROUP.command()
def new(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the rule, in lower case with hyphens: "
                                                             "loud-weights.")],
    code: Annotated[
        str, typer.Option(help="A capital letter and three digits. Built-in rules use A, D, G, L, M, N, O, P, R, T and "
                               "W.")
    ] = "X101",
    kind: Annotated[
        str, typer.Option(help="Kind of record it reads: weight, gradient, output, loss, ...")
    ] = "weight",
    to: Annotated[
        str, typer.Option(metavar="FILE", help="File to write; existing files are never overwritten. Default: the "
                                               "rule's name with underscores, in the current directory.")
    ] = "",
    as_json: _Json = False,
) -> None:
    """Create a rule of your own in a new file, with a test.

    Examples:

      barograph rules new loud-weights

      barograph run --rules all,loud_weights:LoudWeights train.py
    """
    from barograph.cli.inspect.rules_page import write_new_rule

    write_new_rule(name, code=code, kind=kind, to=to, as_json=as_json or bool(context.obj))
