"""`barograph experiments`: what was tried for which goal, and what came out."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.catalog_options import Root

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Of an experiment: its trials, and what came out of each. "
                                                          "Default: all experiments, a line each.")
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Create the experiment; one that runs name is created by itself.")
    ] = False,
    hypothesis: Annotated[str | None, typer.Option(help="What the experiment is to show; with --create.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is about, in Markdown; with --create.")] = None,
    archived: Annotated[bool, typer.Option("--archived", help="List those, too, that were put away.")] = False,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """List experiments, or show the results of one.

    One is shown with its hypothesis, its trials, their components, and what came out.

    An experiment is a goal or a hypothesis. A trial is one set of variables in it. Runs and other components belong to
    trials; one component, such as a data set, may belong to many.

    Examples:

      barograph experiments

      barograph experiments digits

      barograph experiments digits --create --hypothesis "a small net beats the large one"

      barograph run --experiment digits --trial small train.py --width 16
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli import experiments_page

    unused = [option for option, given in (("--hypothesis", hypothesis), ("--description", description)) if given]
    if unused and not create:
        raise typer.BadParameter(f"{', '.join(unused)} is said with --create; later: barograph mark NAME")
    if create and name is None:
        raise typer.BadParameter("--create needs the NAME of the experiment")
    if create and name is not None:
        experiments_page.create(name, root, hypothesis=hypothesis or "", description=description or "")
    if name is None:
        experiments_page.print_all(root, archived=archived, as_json=as_json)
    else:
        experiments_page.print_one(name, root, as_json=as_json)
