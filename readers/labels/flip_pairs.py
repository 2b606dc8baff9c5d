"""Pairs of keypoints or classes that a mirror exchanges, such as left and right eye, found by their names."""

import re
from collections.abc import Sequence

FlipPairs = tuple[tuple[int, int], ...]
"""Pairs of numbers of keypoints, the smaller first."""

# Single letters count only as words of their own: left_eye, LeftEye, eyeLeft, lefteye, l_eye, LEye, "eye L", but not "ear".
_SIDE = re.compile(
    r"left|right|Left|Right|LEFT|RIGHT|(?<![A-Za-z])[lLrR](?![a-z])|(?<=[a-z])[LR](?![A-Za-z])"
)
_LEFT = {"left": "right", "Left": "Right", "LEFT": "RIGHT", "l": "r", "L": "R"}
_OTHER_SIDE = _LEFT | {right: left for left, right in _LEFT.items()}


def pairs_of_names(names: Sequence[str]) -> FlipPairs | None:
    """Return the pairs of numbers whose names differ only in left and right; None if there are none.

    Args:
        names: Name of each number. Of equal names, the last counts.
    """
    numbers = {name: number for number, name in enumerate(names)}
    others = [numbers.get(_mirrored(name), -1) for name in names]
    pairs = tuple((number, other) for number, other in enumerate(others) if other > number)
    return pairs or None


def pairs_of_permutation(numbers: Sequence[int]) -> FlipPairs:
    """Return the pairs that a permutation exchanges, such as ((1, 2),) for (0, 2, 1)."""
    return tuple((number, other) for number, other in enumerate(numbers) if number < other)


def _mirrored(name: str) -> str:
    """Return a name with left and right exchanged."""
    return _SIDE.sub(lambda found: _OTHER_SIDE[found[0]], name)
