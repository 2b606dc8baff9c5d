"""Shards for tests of remote data."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from readers import Dataset, Sample
from tests.support.tars import write_samples

MakeJpeg = Callable[..., bytes]


def write_shards(folder: Path, jpeg: MakeJpeg, *, num: int = 3, per_shard: int = 16) -> list[str]:
    """Write tar shards of labelled JPEGs of several sizes; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for shard in range(num):
        names.append(f"train-{shard:03d}.tar")
        samples = {}
        for number in range(per_shard):
            seed = shard * per_shard + number
            image = jpeg(40 + 4 * number, 64, seed=seed)
            samples[f"{number:04d}"] = {"jpg": image, "cls": b"%d" % (seed % 10)}
        write_samples(folder / names[-1], samples)
    return names


def set_up(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Credentials that no server checks, and caches in a folder of the test."""
    for name in ("AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing-secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("GPU_AUG_CACHE", str(folder / "gpu-aug-cache"))


def assert_same_samples(one: Dataset, other: Dataset, *, seed: int = 0) -> None:
    """Every sample is the same, read in a random order with repetitions."""
    assert len(one) == len(other)
    order = np.random.default_rng(seed).permutation(len(one))
    order = np.concatenate([order, order[:5]])
    for batch in np.array_split(order, 4):
        assert plain(one.fetch(batch)) == plain(other.fetch(batch))


def plain(samples: Sequence[object]) -> list[tuple[object, ...]]:
    """Samples as values that can be compared."""
    assert all(isinstance(sample, Sample) for sample in samples), samples
    return [
        (s.index, s.key, s.label, s.size, {name: bytes(data) for name, data in s.fields.items()})
        for s in samples
        if isinstance(s, Sample)
    ]
