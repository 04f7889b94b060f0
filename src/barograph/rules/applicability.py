"""Codes of rules that apply only to some trainings, where their needs alone do not show it."""

from __future__ import annotations

TREES_ONLY = frozenset({"T101", "T102", "T103", "T104"})
"""Rules for boosted trees."""

SILENT_WHERE_NOT_APPLICABLE = frozenset({
    "A102", "A104", "D104", "D107", "D110", "L107", "M107", "M108", "M110", "M112", "N103", "O103", "P103", "P104",
    "P105", "P106", "P107", "R101", "T103", "T104",
})
"""Rules that may find nothing to judge in their records because they do not apply: a single worker, no loss scaling,
no half precision, no other run to compare with."""
