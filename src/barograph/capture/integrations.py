"""The integrations of frameworks: installed packages list them as entry points, ours included.

The name of an entry point is the module whose import activates the integration. Its value is a function that takes the
recording, as `module:function`. It is called once, after the framework was imported. It installs its hooks, and
registers their removal with `recording.add_integration`. An integration that waits for several modules has an entry
point for each.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barograph.model.launch_variable import InstalledIntegration
from barograph.plugins import installed_plugins, is_ours, package_of

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.integration import Integration
    from barograph.capture.session import Session
    from barograph.model.launch import Launch
    from barograph.model.probe import ProbeSettings
    from barograph.model.step import Mode

GROUP = "barograph.integrations"

_FIRST = ("torch", "keras")

_WITHOUT_INTEGRATION = ("tensorflow",)
"""Frameworks recorded by Keras's integration, or by the script's own calls."""


class Listening(Protocol):
    """The recording of this process, as used by listeners."""

    session: Session
    launch: Launch
    only: bool
    explicit_steps: bool

    @property
    def url(self) -> str:
        """URL of the run."""

    @property
    def observed(self) -> tuple[ProbeSettings | None, Any]:
        """Settings of the probe (None: off), and samples that the script passed (None: those of evaluations)."""

    def add_integration(self, integration: Integration) -> None:
        """Add an integration to the recording, which removes it at its end."""

    def array_integration(self, name: str = "") -> ArrayIntegration:
        """Return the array integration with that name, or a new one."""

    def new_array_integration(self) -> ArrayIntegration:
        """Return a new array integration, for a separate series of steps."""

    def set_mode(self, mode: Mode | None) -> None:
        """Set the activity of the script; None: detect it."""

    def aside(self, framework: str) -> AbstractContextManager[None]:
        """Disable the integration of a framework within a `with` block in which another one records."""


class Integrations(NamedTuple):
    """The installed integrations.

    Attributes:
        found: Ours first.
        problems: One sentence per package whose entry points cannot be read.
    """

    found: tuple[InstalledIntegration, ...]
    problems: tuple[str, ...] = ()


def installed_integrations() -> Integrations:
    """Return the integrations of all installed packages, without importing them.

    Example:
        >>> installed_integrations().found[0].module
        'torch'
    """
    points, problems = installed_plugins(GROUP)
    found = [InstalledIntegration(point.name, point.value, "" if is_ours(point) else package_of(point))
             for point in points]
    return Integrations(tuple(sorted(found, key=_rank)), problems)


def _rank(integration: InstalledIntegration) -> int:
    """Return the order of an integration if several frameworks are loaded already: trainers build on these two."""
    return _FIRST.index(integration.module) if integration.module in _FIRST and not integration.package else len(_FIRST)


def install(integration: InstalledIntegration, recording: Listening) -> None:
    """Install the hooks of an integration; if that fails, warn once and let the training continue."""
    if recording.session.closed:
        return  # in a forked process, for example
    try:
        module, _, function = integration.listener.partition(":")
        getattr(importlib.import_module(module), function)(recording)
    except Exception as error:  # noqa: BLE001 - the guard handles it; our errors must not fail a framework's import
        package = f" with the package {integration.package}" if integration.package else ""
        recording.session.guard.caught(error, f"hooking into {integration.framework}{package}")


def versions(frameworks: Iterable[str] | None = None) -> dict[str, str]:
    """Return the version of each framework that this process has loaded.

    Args:
        frameworks: Top-level modules. None: every framework that has an integration.
    """
    if frameworks is None:
        frameworks = (integration.framework for integration in installed_integrations().found)
    loaded = {name: sys.modules.get(name) for name in (*frameworks, *_WITHOUT_INTEGRATION)}
    return {name: str(getattr(module, "__version__", "unknown")) for name, module in loaded.items() if module}


def missing_in(framework: Any, needs: Mapping[str, str]) -> list[str]:
    """Return those of `needs` that a framework lacks, as one phrase each.

    Args:
        framework: The module.
        needs: Dotted name within it to its purpose.

    Example:
        >>> missing_in(sys, {"version_info.major": "the version", "no.such": "trees"})
        ['sys.no.such (for trees)']
    """
    return [f"{framework.__name__}.{name} (for {purpose})" for name, purpose in needs.items()
            if not _has(framework, name)]


def report_missing(session: Session, framework: Any, needs: Mapping[str, str]) -> bool:
    """Report, once, those of `needs` that a framework lacks; return whether anything is missing."""
    missing = missing_in(framework, needs)
    if missing:
        version = getattr(framework, "__version__", "(unknown version)")
        session.guard.report(f"{framework.__name__} {version} has no {', no '.join(missing)}: not recorded",
                             cause=f"missing in {framework.__name__}")
    return bool(missing)


def _has(owner: Any, name: str) -> bool:
    for part in name.split("."):
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True
