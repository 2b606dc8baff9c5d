"""The colours of a page can be told apart, on light screens and on dark ones."""

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
SHAPES = [("accent", "paper"), ("accent", "card"), ("ceiling", "paper"), ("s5", "paper")]


def colours(scheme: str) -> dict[str, str]:
    """The variables of a scheme."""
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    return dict(re.findall(r"--([\w-]+): #(\w{6})", light if scheme == "light" else dark))


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """The contrast of WCAG 2.2, 1 to 21."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(scheme: str) -> None:
    """Text has a contrast of at least 4.5, shapes of at least 3 (WCAG 2.2, 1.4.3 and 1.4.11)."""
    found = colours(scheme)

    assert {
        name: contrast(found[name[0]], found[name[1]]) >= 4.5 for name in TEXTS
    } == dict.fromkeys(TEXTS, True)
    assert all(contrast(found[one], found[other]) >= 3 for one, other in SHAPES)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_shades_rise(scheme: str) -> None:
    """Cells of more things are further from the paper, and the palest are seen on it."""
    found = colours(scheme)
    steps = [contrast(found[f"s{number}"], found["paper"]) for number in range(1, 6)]

    assert steps == sorted(steps)
    assert steps[0] > 1.4


def test_the_measure_of_contrast() -> None:
    """Negative control: black on white is 21, gray 777777 on white falls short of 4.5."""
    assert contrast("000000", "ffffff") == pytest.approx(21)
    assert 4.4 < contrast("777777", "ffffff") < 4.5


def test_dark_has_every_colour_of_light() -> None:
    """No variable is forgotten, and none is used that is not defined."""
    assert colours("light").keys() == colours("dark").keys()
    assert set(re.findall(r"var\(--([\w-]+)\)", STYLE)) <= colours("light").keys()
