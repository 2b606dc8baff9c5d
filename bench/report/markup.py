"""HTML that is built of tags: whatever is not markup already is escaped."""

import re
from html import escape
from typing import Any

# What XML 1.0 (section 2.2) does not allow: control characters, and surrogates, which stand for bytes that are no UTF-8.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Markup(str):
    """HTML, which is not escaped again.

    Example:
        >>> from bench.report.markup import Markup, escaped
        >>> escaped("<b>"), escaped(Markup("<b>"))
        ('&lt;b&gt;', '<b>')
    """

    __slots__ = ()


def escaped(value: object) -> Markup:
    """Return a value as HTML: markup as it is, None as nothing, all else as text that holds no markup."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return Markup()
    return Markup(escape(_FORBIDDEN.sub("\ufffd", str(value))))


def tag(tag_name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element.

    Args:
        tag_name: As in ``p``.
        children: Markup or text; see `escaped`. An element without any is closed at once, as XML allows.
        attributes: ``class_`` stands for class, ``aria_label`` for aria-label. None and False are left out, numbers
            are written with up to six digits.

    Example:
        >>> from bench.report.markup import tag
        >>> tag("p", "1 < 2", tag("br"), class_="note")
        '<p class="note">1 &lt; 2<br/></p>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    inside = joined(*children)
    if not inside and tag_name in _VOID:
        return Markup(f"<{tag_name}{written}/>")
    return Markup(f"<{tag_name}{written}>{inside}</{tag_name}>")


def joined(*children: object) -> Markup:
    """Return elements and texts one after the other."""
    return Markup("".join(map(escaped, children)))


def _attribute(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else escaped(value)


# Elements that HTML knows to be empty, and shapes, which are.
_VOID = frozenset({"br", "img", "meta", "link", "line", "rect", "circle", "polyline", "path"})
