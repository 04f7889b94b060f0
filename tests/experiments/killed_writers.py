"""Writers of a catalog that are killed, each at another moment. Run as a program, which forks them.

For each moment there is a folder with a copy of a catalog, and beside it a file with what was acknowledged.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from sqlalchemy import event

from barograph.experiments.catalog import Catalog
from barograph.model.items import Entry, ItemKind, Verb

_MOST_MOMENTS = 400


def write(root: Path, acknowledge: Path, moment: int) -> None:
    """Tell of several things, and be killed before the statement, commit or file of that number."""
    catalog = Catalog(root)
    left = [moment]

    def step(*_: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    engine = catalog._database._engine
    event.listen(engine, "before_cursor_execute", step)
    event.listen(engine, "commit", step)
    create = catalog.store.create

    def created(name: str, data: bytes) -> None:
        step()
        create(name, data)
        step()

    catalog.store.create = created  # type: ignore[method-assign]
    catalog.create(ItemKind.EXPERIMENT, "digits", fields={"hypothesis": "wide wins"})
    _say(acknowledge, "digits")
    catalog.tell([Entry("a", Verb.TAG, {"team": "vision"}), Entry("a", Verb.NOTE, {"text": "so it goes"}),
                  Entry("a", Verb.PARAMETERS, {"lr": 0.2, "depth": 3})])
    _say(acknowledge, "a")
    catalog.feed()
    catalog.delete(catalog.item("b"))
    _say(acknowledge, "b")


def _say(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(f"{text}\n")


def main(first: str, folder: str) -> None:
    """Kill one writer after the other; the last one comes to its end."""
    for moment in range(_MOST_MOMENTS):
        root = Path(folder, f"{moment:04d}")
        shutil.copytree(first, root)
        child = os.fork()
        if not child:
            write(root, Path(f"{root}.said"), moment)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(os.waitstatus_to_exitcode(status))
    sys.exit("it never came to its end")


if __name__ == "__main__":
    main(*sys.argv[1:])
