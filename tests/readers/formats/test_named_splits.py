"""A split is chosen by a dataset's own name for it or by a word, and never guessed."""

import pytest

from readers.formats.named_splits import choose_name
from tests.support.opening import assert_refused

NAMES = {"train2017": "train", "val2017": "validation", "extra": "extra"}


@pytest.mark.parametrize(
    ("names", "split", "expected"),
    [
        (NAMES, "val2017", "val2017"),
        (NAMES, "dev", "val2017"),
        (NAMES, "extra", "extra"),
        ({"val": "val"}, None, "val"),
        ({"val": "val"}, "validation", "val"),
        ({"val": "validation", "valid": "validation"}, "valid", "valid"),
    ],
)
def test_a_split_by_its_name_or_a_word(
    names: dict[str, str], split: str | None, expected: str
) -> None:
    """The name itself comes first, then a word for the split; the only split needs no name."""
    assert choose_name(names, split, "data") == expected


@pytest.mark.parametrize(
    ("names", "split", "sentence"),
    [
        (NAMES, None, "data holds the splits train, validation, extra"),
        (NAMES, "test", "data has no split 'test': its splits are train, validation, extra"),
        ({"val": "validation", "valid": "validation"}, "dev", "may be val or valid: name one"),
    ],
)
def test_no_split_is_guessed(names: dict[str, str], split: str | None, sentence: str) -> None:
    """Several splits without a choice, an unknown one, and a word for two of them are refused."""
    assert_refused(sentence, names, by=lambda names: choose_name(names, split, "data"))
