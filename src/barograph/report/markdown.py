"""Renders user Markdown as safe HTML: no raw HTML, no images, links to the web only.

Every element is created by `markup.element` from a short list of names.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from barograph.report.markup import Child, Markup, element, joined

MOST_CHARS = 20_000
"""Maximum length of a rendered text."""

_SCHEMES = ("http", "https", "mailto")
_NAMES = {
    "p": "p", "em": "em", "strong": "strong", "s": "s", "ul": "ul", "ol": "ol", "li": "li", "blockquote": "blockquote",
    "table": "table", "thead": "thead", "tbody": "tbody", "tr": "tr", "th": "th", "td": "td",
    # Headings of a note rank below the page's own.
    "h1": "h4", "h2": "h4", "h3": "h5", "h4": "h5", "h5": "h6", "h6": "h6",
}
_READER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def rendered(text: str) -> Markup:
    """Return Markdown as HTML.

    Args:
        text: Untrusted Markdown; cut to `MOST_CHARS`, with a note.

    Example:
        >>> rendered("**fine** <script>alert(1)</script>")
        '<p><strong>fine</strong> &lt;script&gt;alert(1)&lt;/script&gt;</p>'
        >>> rendered("[here](javascript:alert) and [there](https://example.org/)")
        '<p>[here](javascript:alert) and <a href="https://example.org/" rel="noopener noreferrer">there</a></p>'
    """
    body = _rendered(_READER.parse(text[:MOST_CHARS]))
    if len(text) <= MOST_CHARS:
        return body
    return joined(body, element("p", f"{len(text) - MOST_CHARS:,} more characters not shown.", class_="note"))


def _rendered(tokens: Sequence[Token]) -> Markup:
    """Return tokens as nested elements."""
    stack: list[tuple[Token | None, list[Child]]] = [(None, [])]
    for token in tokens:
        if token.nesting > 0:
            stack.append((token, []))
        elif token.nesting < 0:
            opened, children = stack.pop()
            assert opened is not None
            stack[-1][1].append(_around(opened, children))
        else:
            stack[-1][1].append(_leaf(token))
    return joined(stack[0][1])


def _around(opened: Token, children: list[Child]) -> Markup:
    if opened.tag == "a":
        address = str(opened.attrGet("href") or "")
        if not _leads_to_the_web(address):
            return joined(children)
        return element("a", children, href=address, rel="noopener noreferrer")
    if opened.hidden or opened.tag not in _NAMES:
        return joined(children)
    start = opened.attrGet("start") if opened.tag == "ol" else None
    return element(_NAMES[opened.tag], children, start=start)


def _leaf(token: Token) -> Markup | str:
    match token.type:
        case "inline":
            return _rendered(token.children or [])
        case "code_inline":
            return element("code", token.content)
        case "code_block" | "fence":
            lines = token.content.removesuffix("\n").split("\n")
            return element("pre", element("code", [joined(element("br") if number else None, line.replace("\t", "    "))
                                                   for number, line in enumerate(lines)]))
        case "hardbreak":
            return element("br")
        case "softbreak":
            return " "
        case "hr":
            return element("hr")
        case "image":
            # An image would be loaded from elsewhere.
            address = str(token.attrGet("src") or "")
            named = token.content or "picture"
            return element("a", named, href=address, rel="noopener noreferrer") if _leads_to_the_web(address) else named
        case _:
            return token.content


def _leads_to_the_web(address: str) -> bool:
    try:
        return urlsplit(address).scheme.lower() in _SCHEMES
    except ValueError:
        return False
