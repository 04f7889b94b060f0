"""Safe HTML and SVG: every text is escaped, unless it is `Markup`."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from barograph.watch.wording import shown

_EMPTY = frozenset({"br", "hr", "meta", "img", "line", "rect", "path", "circle", "polygon", "polyline"})


_LONGEST_WORD = 200
_LONG_WORD = re.compile(rf"[!-~]{{{_LONGEST_WORD + 1},}}")
_BEGINNING, _END = 80, 40


class Markup(str):
    """HTML; created only by `element`, `joined` and the style sheet."""

    __slots__ = ()


Child = str | Markup | None


def element(name: str, /, *children: Child | Iterable[Child], **attributes: object) -> Markup:
    """Return an HTML or SVG element.

    Args:
        name: Name of the element.
        children: Texts, which are escaped and shortened by `brief`, markup, and lists of both; None is skipped.
        attributes: By name; "_" becomes "-", and a trailing "_" is dropped; None is skipped.

    Example:
        >>> element("p", "1 < 2", class_="note")
        '<p class="note">1 &lt; 2</p>'
        >>> element("text", "<script>", text_anchor="end")
        '<text text-anchor="end">&lt;script&gt;</text>'
    """
    given = "".join(
        f' {key.removesuffix("_").replace("_", "-")}="{escaped(str(value))}"'
        for key, value in attributes.items() if value is not None
    )
    if name in _EMPTY and not children:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{joined(*children)}</{name}>")


def joined(*children: Child | Iterable[Child]) -> Markup:
    """Return children in order, as in `element`.

    Example:
        >>> joined("a & b", element("br"), None)
        'a &amp; b<br/>'
    """
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            parts.append(str(child))
        elif isinstance(child, str):
            parts.append(escaped(brief(child)))
        else:
            parts.append(str(joined(*child)))
    return Markup("".join(parts))


def escaped(text: str) -> str:
    r"""Return a text escaped for HTML and attributes, without control characters.

    Example:
        >>> escaped('<b title="x">' + "\u202e")
        '&lt;b title=&quot;x&quot;&gt;\\u202e'
    """
    return html.escape(shown(text), quote=True)


def brief(text: str) -> str:
    """Return a text with very long words shortened to their beginning and end; data files keep them.

    Example:
        >>> brief(500 * "ab")[76:104]
        'abab…(1,000 characters)…abab'
    """
    return _LONG_WORD.sub(lambda word: f"{word[0][:_BEGINNING]}…({len(word[0]):,} characters)…{word[0][-_END:]}", text)
