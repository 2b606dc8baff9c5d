"""The digest of files."""

import numpy as np
import pytest

from dali_pipes.jpeg.checkpoints import digests_of
from dali_pipes.jpeg.spans import spans_of

# From the published test vectors and `xxhsum -H1` (seed 0).
PUBLISHED = {
    b"": 0xEF46DB3751D8E999,
    b"a": 0xD24EC4F1A98C6E5B,
    b"abc": 0x44BC2CF5AD770999,
    b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
    b"xxhash": 0x32DD38952C4BC720,
}


@pytest.mark.parametrize("data", PUBLISHED)
def test_published_values(data: bytes) -> None:
    """XXH64 of short and longer texts."""
    assert digests_of(spans_of([np.frombuffer(data, np.uint8)])).tolist() == [PUBLISHED[data]]


def test_every_byte_counts() -> None:
    """A change of any bit of a file of any length changes its digest."""
    rng = np.random.default_rng(0)
    for length in (*range(1, 70), 1000):
        data = rng.integers(0, 256, length).astype(np.uint8)
        files = [data]
        for offset in range(length):
            changed = data.copy()
            changed[offset] ^= 1 << int(rng.integers(8))
            files.append(changed)
        assert len(set(digests_of(spans_of(files)).tolist())) == length + 1
