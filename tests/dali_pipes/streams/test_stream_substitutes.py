"""A step of a stream whose samples are all bad draws substitutes from the samples near it, after a resume the same."""

from pathlib import Path
from typing import Any

import pytest
import torch

from dali_pipes import BadSampleError, Loader
from gpu_aug import Recipe, Resize
from readers import open_dataset
from tests.support.loaders import loader_maker
from tests.support.streams import write_shards

NUM_SAMPLES = 12
BAD = (0, 5, 6, 11)  # the first, two in a row, the last


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Three shards of four, some of whose pictures are none."""
    paths = write_shards(tmp_path, [4, 4, 4])
    for label in BAD:
        shard = Path(paths[label // 4])
        data = bytearray(shard.read_bytes())
        [start] = [
            at + 512
            for at in range(0, len(data), 512)
            if data[at : at + 8] == b"%03d.jpg\0" % (label % 4)
        ]
        data[start : start + 4] = b"none"
        shard.write_bytes(data)
    return paths


make_loader = loader_maker(
    Recipe([Resize((8, 8))]),
    batch_size=1,
    num_threads=2,
    shuffle="none",
    last_batch="partial",
    on_bad_sample="replace",
)


def load(paths: list[str], length: int | None = None, **options: Any) -> Loader:
    return make_loader(open_dataset(paths, format="stream", samples_per_epoch=length), **options)


@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("shuffle", [{}, {"shuffle": "block", "shuffle_window": 5}])
@pytest.mark.parametrize("length", [None, 20])
def test_each_bad_sample_is_replaced(
    paths: list[str], batch_size: int, shuffle: dict[str, Any], length: int | None
) -> None:
    """Also at the beginning and at the end of the stream, by the same sample whatever the number of threads."""
    options = {"batch_size": batch_size, "length": length, **shuffle}
    batches = list(load(paths, **options))
    other = list(load(paths, **options, num_threads=5))

    assert sum(map(len, batches)) == (length or NUM_SAMPLES)
    assert not {int(label) for batch in batches for label in batch.labels}.intersection(BAD)
    assert all(torch.equal(a.images, b.images) for a, b in zip(batches, other, strict=True))


@pytest.mark.parametrize("shuffle", [{}, {"shuffle": "block", "shuffle_window": 5}])
@pytest.mark.parametrize("length", [None, 20])
def test_a_resumed_run_draws_the_same(
    paths: list[str], shuffle: dict[str, Any], length: int | None
) -> None:
    first = load(paths, length=length, **shuffle)
    whole, states = zip(*((int(one.labels), first.state_dict()) for one in first), strict=True)
    for stop, state in enumerate(states[:-1], 1):
        second = load(paths, length=length, **shuffle)
        second.load_state_dict(state)

        assert [int(batch.labels) for batch in second] == list(whole[stop:])


def test_an_error_says_what_limits_substitutes(tmp_path: Path) -> None:
    [path] = write_shards(tmp_path, [1])
    data = bytearray(Path(path).read_bytes())
    data[512:516] = b"none"
    Path(path).write_bytes(data)

    with pytest.raises(BadSampleError, match="a stream has no other sample of its step or near it"):
        list(load([path]))
