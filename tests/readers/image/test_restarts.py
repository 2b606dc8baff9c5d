"""Whether a JPEG has restart intervals, by its header."""

import pytest

from readers.image.restarts import has_restarts
from tests.support.jpeg_kinds import KINDS, encode, picture


@pytest.mark.parametrize("kind", KINDS)
def test_files_by_libjpeg(kind: str) -> None:
    """Files that libjpeg wrote with restart markers have them, those that it wrote without have none."""
    image = picture(40, 70)

    assert has_restarts(encode(image, kind, restart=2))
    assert not has_restarts(encode(image, kind))


def test_no_header() -> None:
    """What ends within its header, and what is no JPEG."""
    data = encode(picture(40, 70), "4:2:0", restart=2)

    assert not any(has_restarts(data[:length]) for length in range(100))
    assert not has_restarts(b"\x89PNG" + data)
