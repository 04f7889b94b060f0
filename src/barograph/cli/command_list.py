"""Commands of `barograph` in groups, with a summary each, available without importing them."""

from __future__ import annotations

from collections.abc import Mapping

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Record": {
        "run": "Run a training script unchanged and report what goes wrong.",
        "watch": "Watch a run from another process or another machine.",
        "resume": "Restart an ended training from its last good checkpoint.",
        "checkpoints": "List the checkpoints of a run.",
    },
    "Jobs": {
        "submit": "Run a training as a job on this machine or a Ray cluster.",
        "jobs": "List the jobs submitted from this machine, the newest first.",
        "logs": "Print the output of a job's script.",
        "wait": "Wait until a job ends, and report how it ended.",
        "stop": "Stop a job; its script may save a checkpoint first.",
        "resubmit": "Submit a job again, with changed hyperparameters.",
        "tune": "Find the best hyperparameters of a training with few trials.",
        "spot": "Predict duration and cost of a job on spot instances.",
    },
    "Inspect": {
        "runs": "List the runs in a directory or a bucket prefix.",
        "studio": "Show runs and jobs in the browser.",
        "show": "Show the problems of a run, its losses and its layers.",
        "report": "Write a report of a run or a study as one HTML file.",
        "keys": "List the tensors and metrics that a run recorded.",
        "trace": "Show which samples and files each step received.",
        "rules": "List the rules that detect problems.",
        "doctor": "Check the files of a run for damage and missing parts.",
    },
    "Replay": {
        "capsules": "List the failing steps that the flight recorder saved.",
        "replay": "Replay a saved step in your own script.",
        "checkout": "Restore the code of a run into a directory.",
        "rerun": "Rerun a past run and compare the two.",
    },
    "Experiments": {
        "search": "Find runs and components by parameters, metrics and tags.",
        "experiments": "List experiments, or show the results of one.",
        "compare": "Show how runs differ, or which group of runs is better.",
        "curves": "Show a metric of several runs side by side.",
        "mark": "Tag, describe, rename, archive or delete a run or experiment.",
        "lineage": "Show what runs and artifacts came from, and what they led to.",
        "reindex": "Rebuild the catalog from the runs and their journals.",
        "gc": "List unused artifacts; delete them with --yes.",
    },
    "Share": {
        "export": "Export runs as an archive, or to TensorBoard or MLflow.",
        "import": "Import runs from an archive or from another tracker.",
    },
}
"""Commands by group, with their summaries; the first sentence of each command's help is the same."""

SUMMARIES = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}

COMMANDS = tuple(SUMMARIES)
"""Each is a module with a function `command`, optional `CONTEXT` settings and an optional `CLASS`; with subcommands, it
has a `GROUP` instead."""


def module_of(command: str) -> str:
    """Return the full name of a command's module, which is in the package of its group and has the command's name.

    `import` is in `importing`, because it is a reserved word.
    """
    group = next(title for title, commands in GROUPS.items() if command in commands)
    return f"barograph.cli.{group.lower()}.{'importing' if command == 'import' else command}"
