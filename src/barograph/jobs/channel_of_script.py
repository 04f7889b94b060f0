"""`barograph.channel`: where a script finds the data of a channel of its job."""

from __future__ import annotations

import os
from pathlib import Path

from barograph.errors import JobError, UnknownName, nearest

_PREFIX = "SM_CHANNEL_"


def channel(name: str) -> Path:
    """Return the path of a channel of the training job that runs this script.

    In pipe mode, the pipe of an epoch is beside it: `f"{barograph.channel('train')}_{epoch}"`.

    Raises:
        UnknownName: The job has no such channel.
        JobError: The script does not run in a training job.
    """
    path = os.environ.get(_PREFIX + name.upper()) or os.environ.get(_PREFIX + name.upper().replace("-", "_"))
    if path is not None:
        return Path(path)
    channels = [key.removeprefix(_PREFIX).lower() for key in os.environ if key.startswith(_PREFIX)]
    if "TRAINING_JOB_NAME" not in os.environ and not channels:
        raise JobError(f'barograph.channel("{name}") needs a training job. Submit the script: '
                       f"barograph submit --data {name}=PATH SCRIPT.")
    raise UnknownName(f'This job has no channel "{name}". {nearest(name.lower(), channels)} Add it when you '
                      f"submit the job: barograph submit --data {name}=PATH SCRIPT.")
