"""HTML document of a page: head, content security policy, navigation and sections."""

from __future__ import annotations

from collections.abc import Sequence

from barograph.report.markup import Markup, element
from barograph.report.style import STYLE

# Second line of defense after escaping: the browser runs no script and loads nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def document(title: str, header: Markup, sections: Sequence[tuple[str, str, Markup]], footer: str, *,
             pictures: bool = False) -> str:
    """Return a self-contained HTML document.

    Args:
        title: Title of the window.
        header: Markup at the top.
        sections: Anchor, title and content of each.
        footer: Markup at the bottom.
        pictures: Whether it has embedded images.
    """
    links = [element("li", element("a", name, href=f"#{anchor}")) for anchor, name, _ in sections]
    body = element(
        "body", header,
        element("main", element("nav", element("ul", links), aria_label="Sections"),
                [element("section", element("h2", name, id=f"{anchor}-title"), content, id=anchor,
                         aria_labelledby=f"{anchor}-title") for anchor, name, content in sections]),
        element("footer", footer),
    )
    head = element(
        "head", element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy",
                content=f"{_POLICY}; img-src data:" if pictures else _POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} – Barograph"), element("style", STYLE),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"
