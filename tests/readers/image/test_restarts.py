"""Where the restart intervals of a JPEG lie, by its header and markers."""

import pytest

from readers import restart_offsets
from tests.support.jpeg_kinds import KINDS, encode, picture


@pytest.mark.parametrize("kind", KINDS)
def test_files_by_libjpeg(kind: str) -> None:
    """Files that libjpeg wrote with restart markers have them, those that it wrote without have none."""
    image = picture(40, 70)
    data = encode(image, kind, restart=2)

    offsets = restart_offsets(data)

    assert offsets is not None
    before = [data[stop - 2 : stop] for stop in offsets[1:-1].tolist()]
    assert before == [bytes([0xFF, 0xD0 + number % 8]) for number in range(len(before))]
    assert before
    assert data[offsets[-1] :] == b"\xff\xd9"
    assert restart_offsets(encode(image, kind)) is None


def test_no_header() -> None:
    """What ends within its header, and what is no JPEG."""
    data = encode(picture(40, 70), "4:2:0", restart=2)

    assert not any(restart_offsets(data[:length]) is not None for length in range(100))
    assert restart_offsets(b"\x89PNG" + data) is None
