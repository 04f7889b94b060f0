"""Readers of command-line parsers' options: name, value, and flags."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from barograph.capture.interpolation import leaves_of

Known = tuple[str, Any, list[str]]
"""Name, value, and flags: `--lr`; a flag that ends in "=" is joined with its value."""


def of_argparse(parser: Any, namespace: Any) -> Iterator[Known]:
    """Yield the options in a namespace of an `argparse` parser."""
    if "--hydra-help" in parser._option_string_actions:
        return  # Hydra's own parser, which only passes the words on
    flags = dict(_flags_of_argparse(parser))
    for name, value in vars(namespace).items():
        yield name, value, flags.get(name, [])


def of_click(context: Any) -> Iterator[Known]:
    """Yield the parameters of a `click` command."""
    flags = {item.name: [*item.opts, *item.secondary_opts] if item.param_type_name == "option" else []
             for item in context.command.params}
    for name, value in context.params.items():
        yield name, value, flags.get(name, [])


def of_absl(values: Any) -> Iterator[Known]:
    """Yield the flags of `absl.flags`, except absl's own.

    A flag that contains a table, as in ml_collections, yields one option per entry.
    """
    for module, flags in values.flags_by_module_dict().items():
        if module.partition(".")[0] == "absl":
            continue
        for flag in flags:
            to_dict = getattr(flag.value, "to_dict", None)
            if callable(to_dict):
                yield from ((name, value, [f"--{name}="]) for name, value in leaves_of(to_dict(), (flag.name,)))
            else:
                names = [flag.name, *([flag.short_name] if flag.short_name else [])]
                opposites = [f"--no{flag.name}"] if flag.boolean else []
                yield flag.name, flag.value, [*(f"--{name}" for name in names), *opposites]


def of_hydra(config: Any) -> Iterator[Known]:
    """Yield the configuration of a Hydra job, without Hydra's own part.

    Yields nothing for a multirun: the words of the command contain what the jobs share and do not share.
    """
    table = sys.modules["omegaconf"].OmegaConf.to_container(config, resolve=False)
    own = table.pop("hydra", {})
    if str(own.get("mode")).endswith("MULTIRUN"):
        return
    for name, value in leaves_of(table):
        if value != _MISSING:
            yield name, value, [f"{name}="]


_MISSING = "???"


def _flags_of_argparse(parser: Any) -> Iterator[tuple[str, list[str]]]:
    for action in parser._actions:
        if isinstance(action.choices, Mapping):  # subcommands, each with its own parser
            for below in action.choices.values():
                if hasattr(below, "_actions"):
                    yield from _flags_of_argparse(below)
        yield action.dest, list(action.option_strings)
