"""What a feature counts for in a model of trees, by the several ways to count: which key each has."""

from __future__ import annotations

import functools

from barograph.model.key import Key, Kind

KINDS = ("weight", "gain", "cover", "total_cover", "split", "shap")
"""How importance is counted beside the total gain of a feature's splits, which stands under its name alone."""

_ENDINGS = tuple(f"[{kind}]" for kind in KINDS)


@functools.lru_cache(1 << 16)
def importance_key(feature: str, kind: str = "") -> Key:
    """Return the key of what a feature counts for.

    Args:
        feature: Its name.
        kind: How it is counted; "": by the total gain of the splits by it, which is what rules look at.

    Example:
        >>> str(importance_key("age")), str(importance_key("age", "cover"))
        ('importance:age', 'importance:age[cover]')
    """
    return Key(Kind.IMPORTANCE, f"{feature}[{kind}]" if kind else feature)


def is_counted_otherwise(path: str) -> bool:
    """Return whether a path of the kind importance is of another count than the one that rules look at.

    Example:
        >>> is_counted_otherwise("age[cover]"), is_counted_otherwise("age")
        (True, False)
    """
    return path.endswith(_ENDINGS)
