"""`barograph experiments`: list experiments and their results."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.experiments.catalog_options import Root

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show the trials of this experiment and their results. "
                                                          "Default: list all experiments.")
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Create the experiment. barograph run --experiment NAME also creates it.")
    ] = False,
    hypothesis: Annotated[str | None, typer.Option(help="What the experiment tests. Only with --create.")] = None,
    description: Annotated[str | None, typer.Option(help="Description in Markdown. Only with --create.")] = None,
    archived: Annotated[bool, typer.Option("--archived", help="Include archived experiments.")] = False,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """List experiments, or show the results of one.

    Shows its hypothesis, its trials, their components, and the results.

    An experiment tests a hypothesis or pursues a goal. A trial is one set of variables in it. Runs and other components
    belong to trials; one component, such as a data set, can belong to several.

    Examples:

      barograph experiments

      barograph experiments digits

      barograph experiments digits --create --hypothesis "wide nets win"

      barograph run --experiment digits --trial small train.py --width 16
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.experiments import experiments_page

    unused = [option for option, given in (("--hypothesis", hypothesis), ("--description", description)) if given]
    if unused and not create:
        raise typer.BadParameter(f"{', '.join(unused)} needs --create; for an existing experiment: barograph mark NAME")
    if create and name is None:
        raise typer.BadParameter("--create needs the NAME of the experiment")
    if create and name is not None:
        experiments_page.create(name, root, hypothesis=hypothesis or "", description=description or "")
    if name is None:
        experiments_page.print_all(root, archived=archived, as_json=as_json)
    else:
        experiments_page.print_one(name, root, as_json=as_json)
