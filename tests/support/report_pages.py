"""Pages of `gpu-aug report`, read again with the parsers of Python."""

import base64
import re
from html.parser import HTMLParser
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

SVG = "{http://www.w3.org/2000/svg}"
_ELSEWHERE = re.compile(r"url\(|@import|https?:|//[a-z]", re.IGNORECASE)
_WITHIN = ("#", "data:image/webp;base64,", "data:image/svg+xml;base64,")
_LINKS = ("href", "src", "srcset", "action", "data", "poster", "background", "formaction")


def parse(page: str) -> Element:
    """The root of a page, which is XML as well as HTML; fails where a browser would see other elements."""
    kind, _, text = page.partition("\n")
    assert kind == "<!DOCTYPE html>"
    root = ElementTree.fromstring(text)
    seen = Names()
    seen.feed(page)
    seen.close()
    assert seen.found == [one.tag.removeprefix(SVG) for one in root.iter()]
    return root


class Names(HTMLParser):
    """The names of the elements that HTML's rules find."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Called by the parser."""
        del attrs
        self.found.append(tag)


def loads(root: Element) -> list[str]:
    """What a page would load, run or send: nothing, where it is whole in itself."""
    found = [one.tag for one in root.iter() if one.tag in ("script", "iframe", "object", "embed")]
    found += [one.tag for one in root.iter("link")] + [one.tag for one in root.iter("form")]
    for one in root.iter():
        for name, value in one.attrib.items():
            is_link = name in _LINKS and not value.startswith(_WITHIN)
            is_event = name.startswith("on") or name == "style"
            if is_link or is_event:
                found.append(f"{name}={value}")
    found += [css for style in root.iter("style") for css in _ELSEWHERE.findall(style.text or "")]
    return found


def text_of(element: Element) -> str:
    """All text of an element, in one line."""
    return " ".join(" ".join(element.itertext()).split())


def section(root: Element, name: str) -> Element:
    """A section by its name."""
    [found] = [one for one in root.iter("section") if one.get("id") == name]
    return found


def rows(root: Element, caption: str) -> dict[str, list[str]]:
    """The cells of a table by the names of its rows."""
    [table] = [one for one in root.iter("table") if caption in one.findtext("caption", "")]
    body = table.find("tbody")
    assert body is not None
    return {text_of(row[0]): [text_of(cell) for cell in row[1:]] for row in body}


def tiles(root: Element, name: str) -> dict[str, str]:
    """The most important numbers of a section."""
    return {
        text_of(one[0]): text_of(one[1])
        for list_ in section(root, name).iter("dl")
        for one in list_
    }


def charts(root: Element) -> dict[str, Element]:
    """The SVG drawings of a page by their titles."""
    found = {}
    for image in root.iter("img"):
        kind, _, text = image.attrib["src"].partition(",")
        if kind == "data:image/svg+xml;base64":
            found[image.attrib["alt"]] = ElementTree.fromstring(base64.b64decode(text))
    return found
