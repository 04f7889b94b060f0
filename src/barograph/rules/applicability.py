"""Which trainings a rule is for, where its needs alone do not say it."""

from __future__ import annotations

TREES_ONLY = frozenset({"T101", "T102", "T103", "T104"})
"""Rules for boosted trees."""

SILENT_WHERE_NOT_APPLICABLE = frozenset({
    "A102", "A104", "D104", "D107", "D110", "L107", "M107", "M108", "M110", "M112", "N103", "O103", "P103", "P104",
    "P105", "P106", "P107", "R101", "T103", "T104",
})
"""Rules that saw their records and judged none of them because the training has nothing that they are for: one
worker alone, no loss scaling, no half precision, no other run to compare with."""
