"""Plugins: what installed packages offer through entry points. Our own are found the same way.

Reading the metadata of every installed package takes a few milliseconds. Nothing is imported until a plugin is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

OUR_PACKAGE = "barograph"


class Plugins(NamedTuple):
    """The plugins of one group.

    Attributes:
        points: Ours first, then by name.
        problems: One sentence per package whose entry points cannot be read.
    """

    points: tuple[EntryPoint, ...]
    problems: tuple[str, ...] = ()


def installed_plugins(group: str) -> Plugins:
    """Return the entry points of that group of all installed packages.

    Example:
        >>> [point.name for point in installed_plugins("barograph.rules").points if is_ours(point)]
        ['builtin']
    """
    points: dict[tuple[str, str], EntryPoint] = {}
    declaring, unreadable = _declaring()
    problems = list(unreadable)
    for distribution in declaring:
        try:
            found = [point for point in distribution.entry_points if point.group == group]
        except Exception as error:  # noqa: BLE001 - the parser may raise anything for a malformed file
            problems.append(_unreadable(distribution, error))
            continue
        for point in found:
            # A package may be found twice, as where it is installed and in the working directory: the first one counts.
            points.setdefault((point.name, point.value), point)
    if not any(is_ours(point) for point in points.values()):
        problems.append(f"the installed metadata of Barograph has no {group}: it is older than the code. Reinstall "
                        "Barograph")
    return Plugins(tuple(sorted(points.values(), key=lambda point: (not is_ours(point), point.name, point.value))),
                   tuple(problems))


def is_ours(point: EntryPoint) -> bool:
    """Return whether an entry point leads to our own code."""
    return point.value.startswith(f"{OUR_PACKAGE}.")


def package_of(point: EntryPoint) -> str:
    """Return the name of the package that declares an entry point; "" if that is unknown."""
    return _name_of(point.dist) if point.dist is not None else ""


def _declaring() -> tuple[tuple[Distribution, ...], tuple[str, ...]]:
    """Return the packages that name a group of ours; most declare nothing, and their metadata is not parsed."""
    # Here, because it takes longer to import than all else that a process needs before it imports a framework.
    from importlib.metadata import distributions

    found, problems = [], []
    for distribution in distributions():
        try:
            text = distribution.read_text("entry_points.txt")
        except (OSError, ValueError) as error:
            problems.append(_unreadable(distribution, error))
            continue
        if text and f"[{OUR_PACKAGE}." in text:
            found.append(distribution)
    return tuple(found), tuple(problems)


def _unreadable(distribution: Distribution, error: Exception) -> str:
    return (f"the entry points of the package {_name_of(distribution)} cannot be read: "
            f"{type(error).__name__}: {error}")


def _name_of(distribution: Distribution) -> str:
    try:
        name = distribution.name
    except Exception:  # noqa: BLE001 - broken metadata may raise anything; the folder has the name, too
        name = ""
    return name or str(getattr(distribution, "_path", "(unknown name)"))
