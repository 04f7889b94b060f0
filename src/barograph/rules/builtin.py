"""The rules that come with Barograph, in the order of their codes."""

from __future__ import annotations

from barograph.rules.base import Rule
from barograph.rules.numbers import NonFinite

RULES: tuple[type[Rule], ...] = (NonFinite,)
