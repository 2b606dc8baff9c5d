"""SeekPoints as they are kept: the same bytes for the same file for ever, or under another version."""

from hashlib import sha256

import numpy as np
import pytest

from dali_pipes.jpeg import status as verdicts
from dali_pipes.jpeg.seek_points import (
    _BYTES_BETWEEN,
    EVERY,
    FINDER,
    SEEK_POINT,
    digests_of,
    find_seek_points,
    from_stored,
    spans_of,
)
from dali_pipes.jpeg.status import GOOD
from tests.support.identities import DATA
from tests.support.jpegs import encode, picture

GOLDEN = {
    1: "2472553798f92b0330e06f159efd14d5",
    2: "4755e7e772b64160c9602531b6b8491a",
    3: "4755e7e772b64160c9602531b6b8491a",  # other rows of scans of 512 MB or more
}
"""What a version says of one file; what changes it needs another version."""
VERDICTS = (
    *("GOOD", "NOT_JPEG", "NOT_BASELINE", "BAD_HEADER", "NOT_YCBCR", "NOT_SUPPORTED", "BAD_TABLE"),
    *("BAD_CODE", "CUT_SHORT", "LEFT_OVER", "WRONG_RESTART", "WRONG_SIZE", "WRONG_CROP"),
    *("SCRATCH_SHORT", "BAD_NUMBER", "WRONG_SEEK_POINT"),
    *("SEVERAL_SCANS", "ODD_SCANS", "UNFINISHED", "MANY_SCANS"),
)


def test_golden_seek_points() -> None:
    """Files that were written before are read as if they were written now: else give the finder another version.

    The distance of the rows is no part of it: each file names its own.
    """
    image = (DATA / "checkpoints" / "picture.jpg").read_bytes()
    kept, (status, rows) = FINDER.find(image), find_seek_points(image, 24)
    told = f"{FINDER.digest(image)} {status} 24\n".encode() + rows.tobytes()

    assert len(rows) == 6  # of 150 MCUs
    assert (kept.status, kept.every % EVERY) == (status, 0)
    assert kept.rows == find_seek_points(image, kept.every)[1].tobytes()
    assert sha256(told).hexdigest()[:32] == GOLDEN[FINDER.version]
    assert [getattr(verdicts, name) for name in VERDICTS] == list(range(len(VERDICTS)))


@pytest.mark.parametrize("quality", [20, 60, 95])
def test_what_is_kept_takes_little(quality: int) -> None:
    """Of files of little and of much detail, and no rows are left out where all of them take less."""
    image = encode(picture(600, 800), "4:2:0", quality=quality)
    status, rows = find_seek_points(image, EVERY)
    kept, share = FINDER.find(image), SEEK_POINT.itemsize / _BYTES_BETWEEN

    assert status == GOOD
    assert len(kept.rows) <= 1.01 * share * len(image)
    assert len(kept.rows) >= min(0.5 * share * len(image), rows.nbytes)
    step = kept.every // EVERY
    assert kept.every == step * EVERY
    assert np.array_equal(from_stored(kept).rows, rows[step - 1 :: step])


# From the published test vectors, `xxhsum -H1` and, of more than 240 bytes, `xxhsum -H3` (seed 0).
_COUNTED = bytes(range(256)) * 400


PUBLISHED = {
    b"": 0xEF46DB3751D8E999,
    b"a": 0xD24EC4F1A98C6E5B,
    b"abc": 0x44BC2CF5AD770999,
    b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
    b"xxhash": 0x32DD38952C4BC720,
    _COUNTED[:241]: 0x02E8CD95421C6D02,
    _COUNTED[:256]: 0x9408A4433B952D71,
    _COUNTED[:1024]: 0xA870F92984398D22,
    _COUNTED[:1025]: 0x78C86E91EE939852,
    _COUNTED[:1089]: 0x42F8401C93F322B4,
    _COUNTED[:100_000]: 0x39CF9D035D60AD58,
}


@pytest.mark.parametrize("data", PUBLISHED, ids=len)
def test_published_values(data: bytes) -> None:
    """XXH64 of short texts, and XXH3 of longer ones: up to, at and behind the ends of stripes and blocks."""
    assert digests_of(spans_of([np.frombuffer(data, np.uint8)])).tolist() == [PUBLISHED[data]]


def test_every_byte_counts() -> None:
    """A change of any bit of a file of any length changes its digest."""
    rng = np.random.default_rng(0)
    for length in (*range(1, 70), 241, 1000, 1100):
        data = rng.integers(0, 256, length).astype(np.uint8)
        files = [data]
        for offset in range(length):
            changed = data.copy()
            changed[offset] ^= 1 << int(rng.integers(8))
            files.append(changed)
        assert len(set(digests_of(spans_of(files)).tolist())) == length + 1
