"""Advice that differs between frameworks: rules name all of them, a run only those that it uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from barograph.model.finding import Finding

_NAMES = {"torch": "PyTorch", "keras": "Keras", "jax": "JAX"}
_KNOWN: dict[str, dict[str, str]] = {}
"""Combined advice, mapped to the advice for each framework."""


def either(*, torch: str, keras: str, jax: str = "") -> str:
    """Return combined advice, from which `for_frameworks` selects what applies to a run.

    Example:
        >>> either(torch="model.train()", keras="training=True")
        'model.train() (PyTorch) or training=True (Keras)'
    """
    own = {name: text for name, text in (("torch", torch), ("keras", keras), ("jax", jax)) if text}
    whole = _named(own)
    _KNOWN[whole] = own
    return whole


def _named(own: Mapping[str, str]) -> str:
    """Join advice for several frameworks, each followed by the framework's name."""
    named: dict[str, list[str]] = {}
    for name, text in own.items():
        named.setdefault(text, []).append(_NAMES[name])
    *others, last = (f"{text} ({', '.join(names)})" for text, names in named.items())
    return f"{', '.join(others)} or {last}" if others else last


def for_frameworks(text: str, loaded: Collection[str]) -> str:
    """Return the text with advice for the run's own frameworks only, or for all if it uses none of them.

    Args:
        text: Text of a rule.
        loaded: Names of the packages that the run has loaded. Keras loads its backend and JAX, and TensorBoard in a
            training with PyTorch loads TensorFlow and Keras.

    Example:
        >>> for_frameworks(f"Call {either(torch='model.train()', keras='training=True')}.", {"torch", "numpy"})
        'Call model.train().'
        >>> for_frameworks(f"Call {either(torch='model.train()', keras='training=True')}.", {"torch", "keras"})
        'Call training=True.'
    """
    names = [name for name in _NAMES if name in loaded]
    if "keras" in loaded:
        names = ["torch", "keras"] if {"torch", "tensorflow"} <= {*loaded} else ["keras"]
    for whole, own in _KNOWN.items():
        if whole in text:
            used = {name: own[name] for name in names if name in own}
            alike = len({*used.values()}) == 1
            text = text.replace(whole, next(iter(used.values())) if alike else _named(used or own))
    return text


def finding_for(finding: Finding, loaded: Collection[str]) -> Finding:
    """Return a finding whose advice is for the run's own frameworks; see `for_frameworks`."""
    causes = tuple(replace(item, why=for_frameworks(item.why, loaded), remedy=for_frameworks(item.remedy, loaded))
                   for item in finding.causes)
    return replace(finding, message=for_frameworks(finding.message, loaded), causes=causes,
                   remedy=for_frameworks(finding.remedy, loaded))
