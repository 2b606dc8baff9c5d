"""What decoding costs by kind of image, and what it would cost if images were stored or decoded in another way."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from bench.tune.ceilings import Stored
from bench.tune.facts_kinds import BASELINE, kind_of
from bench.tune.stages import StageCost
from bench.tune.stages_held import Parts, make_parts
from bench.tune.stages_turns import Threads, Timed, Work
from bench.tune.stages_work import decode_work
from dali_pipes.decode import opencv
from readers import Dataset, Sample, read_header

LARGEST_CHUNK = 32
CHANGES = ("fast", "smaller")
_MOST_STORED_BYTES = 24 << 20
_SMALLER = 2.0  # the short side of smaller copies, in sides of what the recipe decodes
_WORTH = 1.3
_QUALITY = 92


@dataclass(slots=True)
class Decoding:
    """Decoding some samples in one way, to be measured.

    Attributes:
        parts: The loader's parts that hold them.
        chunk_seconds: How long a chunk of rows may take.
        timed: Its turns.
    """

    parts: Parts
    chunk_seconds: float
    timed: Timed = field(default_factory=Timed)
    _work: Work | None = None

    def prepare(self, threads: Threads) -> None:
        """Choose how many rows are decoded at once: as many as take less time than a turn has, at most 32."""
        one = threads.once(decode_work(self.parts, 1))
        one = min(one, threads.once(decode_work(self.parts, 1)))  # the first time compiles
        size = int(min(self.chunk_seconds / max(one, 1e-7), LARGEST_CHUNK))
        self._work = decode_work(self.parts, max(size, 1))

    def turn(self, threads: Threads, seconds: float) -> None:
        """Let one thread work, then all."""
        assert self._work is not None
        threads.turn(self._work, self.timed, seconds)

    @property
    def cost(self) -> StageCost:
        """What was measured."""
        alone, together, cpu = self.timed.rates
        samples = [one for batch in self.parts.batches for one in batch.samples if one is not None]
        sizes = np.concatenate([batch.sizes for batch in self.parts.batches])
        num_bytes = float(np.mean([len(sample.image or b"") for sample in samples]))
        return StageCost("decode", cpu, alone, together, num_bytes, float(sizes.prod(1).mean()))


@dataclass(slots=True)
class Change:
    """Another way to store or decode some of the images.

    Attributes:
        before: Decoding these images as they are.
        after: Decoding them in the other way.
        size_factor: Their bytes then, divided by those now.
        share: Share of all images that these stand for.
        how: See `Stored`.
        parts: See `Stored`.
    """

    before: Decoding
    after: Decoding
    size_factor: float
    share: float
    how: str
    parts: dict[str, float]

    @property
    def stored(self) -> Stored:
        """What was measured."""
        before, after = self.before.cost, self.after.cost
        return Stored(after, before, self.size_factor, self.share, self.how, self.parts)


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes what decodes samples.

    Attributes:
        dataset: Where they are from.
        recipe: As for Loader.
        settings: As for Loader.
        chunk_seconds: See `Decoding`.
        most_stored: The most images to store in another way, which takes a while each.
    """

    dataset: Dataset
    recipe: Any
    settings: Mapping[str, Any]
    chunk_seconds: float
    most_stored: int = 24

    def decoding(self, samples: Sequence[Sample], **changes: Any) -> Decoding:
        """Decode these, under settings of which some are changed."""
        settings = {**self.settings, "targets": [], "maps": None, **changes}
        parts = make_parts(self.dataset, samples, self.recipe, settings)
        return Decoding(parts, self.chunk_seconds)


def by_kind(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    """Samples by the kind of their image."""
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(kind_of(sample.image or b""), []).append(sample)
    return found


def find_changes(
    maker: Maker, samples: Sequence[Sample], shares: Mapping[str, float]
) -> tuple[dict[str, Change], dict[str, str]]:
    """What can be stored or decoded in another way, and why the rest cannot.

    Args:
        maker: Makes what decodes.
        samples: Samples in memory.
        shares: Of kinds of images among all.
    """
    kinds = by_kind(samples)
    changes: dict[str, Change] = {}
    skipped: dict[str, str] = {}
    finders: dict[str, Callable[..., Change | str]] = {
        "fast": _fast,
        "smaller": _smaller,
    }
    for name, find in finders.items():
        found = find(maker, kinds, shares)
        if isinstance(found, Change):
            changes[name] = found
        else:
            skipped[name] = found
    return changes, skipped


def _fast(
    maker: Maker, kinds: Mapping[str, Sequence[Sample]], shares: Mapping[str, float]
) -> Change | str:
    """Decode at a smaller size what is shrunk anyway."""
    if maker.settings.get("decode") == "fast":
        return 'decode="fast" is set already'
    samples = kinds.get(BASELINE, ())
    if not samples:
        return 'decode="fast" is for baseline JPEGs, and there are none'
    how = (
        f'{len(samples)} {BASELINE}s were decoded with decode="fast", which changes pixels a little'
    )
    before, after = maker.decoding(samples), maker.decoding(samples, decode="fast")
    return Change(before, after, 1.0, shares.get(BASELINE, 0.0), how, {BASELINE: 1.0})


def _smaller(
    maker: Maker, kinds: Mapping[str, Sequence[Sample]], shares: Mapping[str, float]
) -> Change | str:
    """Shrink large images in memory to twice the side of what the recipe decodes, as baseline JPEGs."""
    first = next(iter(kinds.values()))[:1]
    side = _SMALLER * _decoded_side(maker.decoding(first).parts)
    if not side:
        return "the recipe decodes images of sizes of their own"
    large = {
        kind: [sample for sample in some if _short_side(sample) >= _WORTH * side]
        for kind, some in kinds.items()
    }
    before = _few([one for some in large.values() for one in some], maker.most_stored)
    if not before:
        return f"images are not much larger than {side:.0f} pixels, twice what the recipe decodes"
    after = [_with_image(sample, _shrunk(_image(sample), side)) for sample in before]
    how = (
        f"{len(before)} images were shrunk in memory to a short side of {side:.0f} pixels, twice what the recipe decodes, and "
        f"stored as JPEGs of quality {_QUALITY}, which loses detail"
    )
    share = sum(shares.get(kind, 0.0) * len(large[kind]) / len(kinds[kind]) for kind in kinds)
    # Decoding costs about as much as an image has bytes.
    parts = {kind: _num_bytes(large[kind]) / _num_bytes(kinds[kind]) for kind in kinds}
    return _change(maker, before, after, share, how, parts)


def _change(
    maker: Maker,
    before: Sequence[Sample],
    after: Sequence[Sample],
    share: float,
    how: str,
    parts: dict[str, float],
) -> Change:
    size_factor = _num_bytes(after) / _num_bytes(before)
    return Change(maker.decoding(before), maker.decoding(after), size_factor, share, how, parts)


def _few(samples: Sequence[Sample], most: int) -> list[Sample]:
    """Some of them, spread evenly over their sizes in bytes: no more than can be encoded in a few seconds."""
    by_size = sorted(samples, key=lambda sample: len(_image(sample)))
    mean_bytes = fmean([len(_image(sample)) for sample in by_size] or [1])
    count = min(most, len(by_size), max(int(_MOST_STORED_BYTES / max(mean_bytes, 1)), 1))
    return [by_size[(2 * at + 1) * len(by_size) // (2 * count)] for at in range(count)]


def _decoded_side(parts: Parts) -> int:
    sizes = [view.recipe.decode_size for view in parts.engines.views]
    return 0 if None in sizes else max(max(size) for size in sizes if size is not None)


def _short_side(sample: Sample) -> int:
    header = read_header(_image(sample))
    return min(header.height, header.width)


def _num_bytes(samples: Sequence[Sample]) -> int:
    return sum(len(_image(sample)) for sample in samples)


def _shrunk(data: bytes, side: float) -> bytes:
    import cv2

    header = read_header(data)
    image = opencv.decode(data, (header.height, header.width))
    scale = side / min(header.height, header.width)
    size = (round(header.width * scale), round(header.height * scale))
    small = cv2.resize(image[..., ::-1], size, interpolation=cv2.INTER_AREA)
    _, encoded = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return bytes(encoded)


def _image(sample: Sample) -> bytes:
    return bytes(sample.image or b"")


def _with_image(sample: Sample, data: bytes) -> Sample:
    """The sample with another encoded image, whose header and restart intervals are looked for anew."""
    name = next(name for name, value in sample.fields.items() if value is sample.image)
    return replace(sample, fields={**sample.fields, name: data}, size=None, restarts=None)
