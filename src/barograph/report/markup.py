"""HTML and SVG that nothing in a run can break out of: every text is escaped on its way in, unless it is markup."""

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
    """Text that is HTML already; only `element`, `joined` and the style sheet make it."""

    __slots__ = ()


Child = str | Markup | None


def element(name: str, /, *children: Child | Iterable[Child], **attributes: object) -> Markup:
    """Return an element of HTML or SVG.

    Args:
        name: Of the element.
        children: Texts, which are escaped and `brief`, markup, and lists of both; None is left out.
        attributes: By name, "_" standing for "-" and one at the end for nothing; None is left out.

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
    """Return children one after the other, as `element` takes them.

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
    r"""Return a text that stands for itself in HTML and in its attributes, without control characters.

    Example:
        >>> escaped('<b title="x">' + "\u202e")
        '&lt;b title=&quot;x&quot;&gt;\\u202e'
    """
    return html.escape(shown(text), quote=True)


def brief(text: str) -> str:
    """Return a text whose very long words stand with their beginning and end: a name of ten thousand letters would be
    pages of nothing else. Files of data have it whole.

    Example:
        >>> brief(500 * "ab")[76:104]
        'abab…(1,000 characters)…aba'
    """
    return _LONG_WORD.sub(lambda word: f"{word[0][:_BEGINNING]}…({len(word[0]):,} characters)…{word[0][-_END:]}", text)
