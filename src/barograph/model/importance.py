"""Keys of the importance of a feature in a tree model, by importance type."""

from __future__ import annotations

import functools

from barograph.model.key import Key, Kind

KINDS = ("weight", "gain", "cover", "total_cover", "split", "shap")
"""Importance types. The total gain of a feature's splits has the feature's name alone as its path."""

_ENDINGS = tuple(f"[{kind}]" for kind in KINDS)


@functools.lru_cache(1 << 16)
def importance_key(feature: str, kind: str = "") -> Key:
    """Return the key of a feature's importance.

    Args:
        feature: Name of the feature.
        kind: Importance type; "": the total gain of its splits, which rules use.

    Example:
        >>> str(importance_key("age")), str(importance_key("age", "cover"))
        ('importance:age', 'importance:age[cover]')
    """
    return Key(Kind.IMPORTANCE, f"{feature}[{kind}]" if kind else feature)


def is_counted_otherwise(path: str) -> bool:
    """Return whether a path of the kind importance has another type than the one that rules use.

    Example:
        >>> is_counted_otherwise("age[cover]"), is_counted_otherwise("age")
        (True, False)
    """
    return path.endswith(_ENDINGS)
