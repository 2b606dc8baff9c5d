"""The digest of files."""

import numpy as np
import pytest

from dali_pipes.jpeg.checkpoints import digests_of
from dali_pipes.jpeg.spans import spans_of

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
