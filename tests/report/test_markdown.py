"""Notes that anybody wrote, on a page that can do nothing."""

from __future__ import annotations

import pytest

from barograph.report.markdown import MOST_CHARS, rendered


@pytest.mark.parametrize(("text", "html"), [
    ("# A\n\nb *c* **d** ~~e~~ `f<`", "<h4>A</h4><p>b <em>c</em> <strong>d</strong> <s>e</s> <code>f&lt;</code></p>"),
    ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"), ("3. a", '<ol start="3"><li>a</li></ol>'),
    ("```py\na\n\tb\n```", "<pre><code>a<br/>    b</code></pre>"), ("> a", "<blockquote><p>a</p></blockquote>"),
    ("---", "<hr/>"), ("a  \nb\nc", "<p>a<br/>b c</p>"),
    ("|a|\n|-|\n|1|", "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>"),
    ("", ""), ("<b>a</b>", "<p>&lt;b&gt;a&lt;/b&gt;</p>"),
])
def test_what_people_write_is_shown_as_they_mean_it(text: str, html: str) -> None:
    assert rendered(text) == html


@pytest.mark.parametrize("address", [
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,<script>", "vbscript:x", "file:///etc/passwd",
    "//evil", "&#106;avascript:alert(1)", "java\tscript:alert(1)", "data:image/svg+xml;base64,AAAA", "#findings",
    "/local", "http://[", "\x01javascript:alert(1)",
])
def test_no_link_leads_but_to_the_web(address: str) -> None:
    forms = ("[x]({})", "[x](<{}>)", "![x]({})", "<{}>", "[x][1]\n\n[1]: {}")
    for text in (form.format(address) for form in forms):
        assert "href" not in rendered(text).replace('href="http', "")
        assert "<img" not in rendered(text)


@pytest.mark.parametrize("text", [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[x](https://a.org/\"onmouseover=alert(1))",
    "![\"><script>alert(1)</script>](https://a.org)", "`</code><script>`", "```\n</code></pre><script>\n```",
    "<!-- --><script>", "<svg/onload=alert(1)>", "[<b>](https://a.org '\"><script>')", "\u202e\x1b[2J",
])
def test_nothing_in_a_note_becomes_an_element_of_its_own(text: str) -> None:
    html = str(rendered(text))
    assert "<script" not in html
    assert "<img" not in html
    assert "<svg" not in html
    assert "<b>" not in html
    assert not any(letter in html for letter in "\u202e\x1b")


def test_a_picture_is_a_link_and_is_not_fetched() -> None:
    assert rendered("![the loss](https://a.org/x.png)") == (
        '<p><a href="https://a.org/x.png" rel="noopener noreferrer">the loss</a></p>')


def test_a_long_note_is_cut_and_a_deep_one_is_flat() -> None:
    assert "5 more characters not shown." in rendered("a" * (MOST_CHARS + 5))
    assert rendered("> " * 5000 + "a").count("<blockquote>") < 100
