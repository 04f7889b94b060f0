"""`barograph import`: import an archive or the data of another program."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.experiments.catalog_options import Root
from barograph.cli.share.archive_group import group_of_plugins


def command() -> None:
    """Import runs from an archive or from another tracker.

    "barograph import digits.zip" means "barograph import archive digits.zip".

    Examples:

      barograph import archive digits.zip

      barograph import smdebug ts_output -o runs/old

      barograph import tensorboard logs/exp1 -o runs/exp1

      barograph import mlflow http://localhost:5000

      barograph watch runs/old --once
    """


def archive(
    file: Annotated[str, typer.Argument(metavar="FILE|URL", help="Archive written by barograph export archive, on disk "
                                                                 "or in a bucket.")],
    root: Root = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the archive and list its contents; import nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Import an archive of runs and experiments.

    The whole archive is checked before anything is written. It is refused if a digest differs, a path leaves the root,
    or it has links, compressed members, wrong sizes or a newer format. Existing files stay: importing an archive twice
    changes nothing. A run that exists with different content is refused.

    Examples:

      barograph import archive digits.zip

      barograph import archive digits.zip --root s3://bucket/runs

      barograph import archive digits.zip --check --json | jq .runs
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.share.archive_page import check_and_print, import_and_print

    if check:
        check_and_print(file, as_json=as_json)
    else:
        import_and_print(file, root, as_json=as_json)


def smdebug(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Directory or URL that smdebug wrote to.")],
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="RUN", help="Directory or URL of the new run; must not exist.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Import a run of SageMaker Debugger (smdebug 1.0).

    Tensors, reductions and scalars keep their exact values, modes, steps and workers. Damaged files are listed and
    skipped. Exit code 1: something could not be imported.

    Examples:

      barograph import smdebug ts_output -o runs/old

      barograph import smdebug s3://bucket/job/debug-output -o runs/old
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.share.importing_page import import_and_print

    if not import_and_print(path, out, as_json=as_json):
        raise typer.Exit(1)


def tensorboard(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Event file, directory or URL, as for tensorboard "
                                                             "--logdir.")],
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="RUN", help="Directory or URL of the new run or runs; must not exist.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Import TensorBoard event files as runs.

    Reads files of torch.utils.tensorboard, Keras's callback, tf.summary and tensorboardX. Folders named after a mode
    (train, validation) become one run; any other folder with event files becomes its own run, RUN/FOLDER. Tags with a
    clear name become losses (train/loss, val_loss), learning rates (lr) or metrics, in their mode; others keep their
    names. Images, audio and graphs are skipped and counted.

    Damaged files are listed and skipped. Exit code 1: something could not be imported.

    Examples:

      barograph import tensorboard logs -o runs/imported

      barograph import tensorboard logs/exp1 -o runs/exp1

      barograph import tensorboard s3://bucket/logs -o runs/imported
    """
    from barograph.cli.share.tensorboard_import import import_and_print

    if not import_and_print(path, out, as_json=as_json):
        raise typer.Exit(1)


# Last, because the entry points lead to the functions above.
GROUP = group_of_plugins("barograph.importers", command)
