"""The colours of a page can be told apart."""

import re
from importlib import resources

import pytest

STYLE = resources.files("bench.report").joinpath("style.css").read_text()
TEXTS = [
    ("ink", "paper"),
    ("ink", "card"),
    ("soft", "paper"),
    ("soft", "card"),
    ("accent", "paper"),
    ("ink", "warn-paper"),
    ("warn", "warn-paper"),
]
SHAPES = [("accent", "paper"), ("accent", "card")]
COLOURS = dict(re.findall(r"--([\w-]+): #(\w{6})", STYLE))


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """The contrast of WCAG 2.2, 1 to 21."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_contrast() -> None:
    """Text has a contrast of at least 4.5, shapes of at least 3 (WCAG 2.2, 1.4.3 and 1.4.11)."""
    found = {name: contrast(COLOURS[name[0]], COLOURS[name[1]]) for name in (*TEXTS, *SHAPES)}

    assert [name for name in TEXTS if found[name] < 4.5] == []
    assert [name for name in SHAPES if found[name] < 3] == []
    assert set(re.findall(r"var\(--([\w-]+)\)", STYLE)) <= COLOURS.keys()


def test_the_measure_of_contrast() -> None:
    """Negative control: black on white is 21, gray 777777 on white falls short of 4.5."""
    assert contrast("000000", "ffffff") == pytest.approx(21)
    assert 4.4 < contrast("777777", "ffffff") < 4.5
