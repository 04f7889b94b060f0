"""No text gets into the page but as text."""

from __future__ import annotations

from barograph.report.markup import Markup, element, joined


def test_a_text_that_is_markup_stays_text() -> None:
    assert element("p", "<script>alert(1)</script>") == "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"


def test_an_attribute_cannot_be_left() -> None:
    assert element("a", "x", href='#"onclick="evil()') == '<a href="#&quot;onclick=&quot;evil()">x</a>'
    assert element("a", "x", title="'><b>") == '<a title="&#x27;&gt;&lt;b&gt;">x</a>'


def test_what_moves_cursors_or_turns_the_direction_of_writing_is_spelt_out() -> None:
    assert joined("a\x1b[2J\u202eb\x00") == "a\\x1b[2J\\u202eb\\x00"


def test_half_a_letter_can_be_written_to_a_file() -> None:
    assert str(joined("\udcff")).encode() == b"\\udcff"


def test_markup_is_not_escaped_twice() -> None:
    assert element("p", element("b", "a & b"), ["<", None, Markup("<br/>")]) == "<p><b>a &amp; b</b>&lt;<br/></p>"


def test_texts_of_texts_that_are_put_together_by_hand_are_escaped() -> None:
    assert joined(Markup("<b>") + "<i>") == "&lt;b&gt;&lt;i&gt;"


def test_a_name_without_end_stands_with_its_beginning_and_its_end() -> None:
    name = "begin" + 9_990 * "L" + "ends."
    text = str(element("p", f"The gradient of {name} vanishes, at 中文" + 300 * "中"))

    assert len(text) < 600
    assert "The gradient of beginLLL" in text
    assert "LLL…(10,000 characters)…LLL" in text
    assert "LLLends. vanishes, at 中文" + 300 * "中" in text


def test_what_an_attribute_holds_is_whole() -> None:
    path = "M" + ",".join("1" for _ in range(400))
    assert path in element("path", d=path)
