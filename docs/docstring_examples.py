"""Griffe extension for the API reference: renders "Example:" in a docstring as code, as it does "Examples:"."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_HEADING = re.compile(r"^Example:$", re.MULTILINE)


class DocstringExamples(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _HEADING.sub("Examples:", obj.docstring.value)
