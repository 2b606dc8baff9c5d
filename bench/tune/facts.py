"""What the data are like, from a sample of their rows: kinds of images, sizes, where they lie."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bench.output.errors import BenchError
from bench.tune.facts_kinds import kind_of
from bench.tune.facts_place import Place, place_of
from readers import BadSample, Dataset, HeaderError, Sample, read_header

_CHUNK = 16
_MOST = 512
_MOST_HELD_BYTES = 192 << 20


@dataclass(frozen=True, slots=True)
class Percentiles:
    """How a number is spread over samples.

    Attributes:
        p10: A tenth of the samples have less.
        p50: The median.
        p90: A tenth of the samples have more.
        mean: The mean.
    """

    p10: float
    p50: float
    p90: float
    mean: float

    @classmethod
    def of(cls, values: Sequence[float] | NDArray[np.float64]) -> "Percentiles":
        """Of at least one value."""
        found = np.asarray(values, np.float64)
        p10, p50, p90 = np.percentile(found, (10, 50, 90)).tolist()
        return cls(p10, p50, p90, float(found.mean()))


@dataclass(frozen=True, slots=True)
class Facts:
    """What the data are like.

    Attributes:
        num_samples: Samples in all.
        num_looked_at: Samples that were read for this, drawn evenly; the same rows every time.
        num_bad: How many of those were no good.
        kinds: How many of them are what, such as "baseline JPEG", "progressive JPEG", "PNG"; most first.
        sample_bytes: Bytes of a sample, all its fields together.
        image_bytes: Bytes of its encoded image.
        megapixels: Millions of pixels of an image.
        total_bytes: Bytes of all samples: the mean times their number.
        place: Where they lie.
    """

    num_samples: int
    num_looked_at: int
    num_bad: int
    kinds: dict[str, int]
    sample_bytes: Percentiles
    image_bytes: Percentiles
    megapixels: Percentiles
    total_bytes: int
    place: Place

    @property
    def shares(self) -> dict[str, float]:
        """The kinds as shares of the sound images; together 1."""
        count = sum(self.kinds.values())
        return {kind: number / count for kind, number in self.kinds.items()}

    @property
    def fits_memory(self) -> bool:
        """Whether all samples together fit into the memory that the page cache may take."""
        return self.total_bytes <= self.place.memory_bytes

    @property
    def stays_near(self) -> bool:
        """Whether later epochs find the data in the page cache, or in the cache of remote blocks."""
        if self.place.cache_bytes is not None:
            return self.total_bytes <= self.place.cache_bytes
        return self.fits_memory


def rows_of(length: int, count: int) -> NDArray[np.int64]:
    """So many rows, drawn evenly over a dataset and in no order of its own: int64 [<= count], the same ones every time."""
    count = min(length, count)
    rows = np.arange(count, dtype=np.int64) * length // max(count, 1)
    return np.random.default_rng(0).permutation(rows)


@dataclass(slots=True)
class Look:
    """What a look at some rows found.

    Attributes:
        samples: Sound ones, copied into memory, as far as they take no more than 192 MB.
        num_bad: How many were no good.
    """

    samples: list[Sample] = field(default_factory=list)
    num_bad: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    sample_bytes: list[int] = field(default_factory=list)
    image_bytes: list[int] = field(default_factory=list)
    megapixels: list[float] = field(default_factory=list)

    def add(self, sample: Sample | BadSample) -> None:
        """Count a sample in."""
        data = None if isinstance(sample, BadSample) else sample.image
        try:
            header = None if data is None else read_header(data)
        except HeaderError:
            header = None
        if isinstance(sample, BadSample) or data is None or header is None:
            self.num_bad += 1
            return
        self.kinds[kind_of(data)] += 1
        self.sample_bytes.append(sum(len(value) for value in sample.fields.values()))
        self.image_bytes.append(len(data))
        self.megapixels.append(header.height * header.width / 1e6)
        if sum(self.sample_bytes) <= _MOST_HELD_BYTES or not self.samples:
            copies = {name: bytes(value) for name, value in sample.fields.items()}
            self.samples.append(replace(sample, fields=copies))


def look_at_facts(
    dataset: Dataset, *, source: str | None = None, seconds: float = 3.0, most: int = _MOST
) -> tuple[Facts, list[Sample]]:
    """Read a sample of the rows and say what the data are like.

    Args:
        dataset: The data.
        source: Path, pattern or URL of the data, where it is known: it tells where they lie.
        seconds: Stop after so long; the first 16 rows are always read.
        most: Rows to read at most.

    Returns:
        The facts, and sound samples in memory, at most 192 MB of them.

    Raises:
        BenchError: Not one of the rows holds an image.
    """
    look, rows = Look(), rows_of(len(dataset), most)
    until, done = time.monotonic() + seconds, 0
    while done < len(rows) and (done == 0 or time.monotonic() < until):
        for sample in dataset.fetch(rows[done : done + _CHUNK]):
            look.add(sample)
        done = min(done + _CHUNK, len(rows))
    if not look.samples:
        raise BenchError(
            f"not one of {done} samples that were looked at holds an image: give a dataset of images, "
            "and look at it with gpu-aug inspect"
        )
    sample_bytes = Percentiles.of(look.sample_bytes)
    facts = Facts(
        len(dataset),
        done,
        look.num_bad,
        dict(look.kinds.most_common()),
        sample_bytes,
        Percentiles.of(look.image_bytes),
        Percentiles.of(look.megapixels),
        round(sample_bytes.mean * len(dataset)),
        place_of(source),
    )
    return facts, look.samples
