"""`barograph keys`: list the recorded tensors and metrics of a run."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")],
    kind: Annotated[
        str | None,
        typer.Option(help="Only this kind: weight, gradient, gradient_clipped, update, input, output, loss, "
                          "learning_rate, optimizer_state, scalar, custom."),
    ] = None,
    path: Annotated[str, typer.Option(help="Only paths that match this glob, such as '*.bias'.")] = "*",
    worker: Annotated[
        str | None,
        typer.Option(help="Show what this worker recorded. Default: all ranks merged; for independent processes, the "
                          "first."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the tensors and metrics that a run recorded.

    For each: how often it was recorded, and its last value.

    For a tensor, the last recorded step is shown: norm (L2), standard deviation, share of zeros, and the number of NaN
    or infinite elements. All commands take keys as KIND:PATH.

    Examples:

      barograph keys runs/first

      barograph keys runs/first --kind gradient --path 'blocks.3.*'

      barograph keys s3://bucket/runs/first --json | jq -r '.[].key'
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.inspect.keys_page import print_keys

    print_keys(run, kind, path, worker, as_json=as_json)
