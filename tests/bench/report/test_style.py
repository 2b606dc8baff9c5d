"""Text on the page can be read."""

import re
from importlib import resources

import pytest

STYLE = resources.files("bench.report").joinpath("style.css").read_text()
COLOURS = {"paper": "ffffff"} | dict(re.findall(r"--([\w-]+): #(\w{6})", STYLE))
TEXTS = [("ink", "paper"), ("ink", "card"), ("soft", "paper"), ("soft", "card")]
TEXTS += [("accent", "paper"), ("ink", "warn-paper"), ("warn", "warn-paper")]


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """The contrast of WCAG 2.2, 1 to 21."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("ink", "paper"), TEXTS)
def test_contrast(ink: str, paper: str) -> None:
    """Text has a contrast of at least 4.5 (WCAG 2.2, 1.4.3); 777777 on white would fall short of it."""
    assert contrast(COLOURS[ink], COLOURS[paper]) >= 4.5 > contrast("777777", "ffffff")
