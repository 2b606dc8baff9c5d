"""What decoding costs by kind of image, and what it would cost if images were stored or decoded in another way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from bench.tune.ceilings import Stored
from bench.tune.facts_kinds import BASELINE, PROGRESSIVE, kind_of
from bench.tune.stages import StageCost
from bench.tune.stages_held import Parts, make_parts
from bench.tune.stages_turns import Threads, Timed, Work
from bench.tune.stages_work import decode_work
from dali_pipes.decode import opencv
from dali_pipes.jpeg.tiling.add_restarts import tile_jpeg
from readers import Dataset, Sample, read_header, restart_offsets

LARGEST_CHUNK = 32
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
    """

    before: Decoding
    after: Decoding
    size_factor: float
    share: float
    how: str

    @property
    def stored(self) -> Stored:
        """What was measured."""
        return Stored(self.after.cost, self.before.cost, self.size_factor, self.share, self.how)


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
    for name, find in (("tile", _tiled), ("fast", _fast), ("smaller", _smaller)):
        found = find(maker, kinds, shares)
        if isinstance(found, Change):
            changes[name] = found
        else:
            skipped[name] = found
    return changes, skipped


def _tiled(
    maker: Maker, kinds: Mapping[str, Sequence[Sample]], shares: Mapping[str, float]
) -> Change | str:
    """Put restart markers into JPEGs that have none, in memory; no pixel changes."""
    untiled = {
        kind: [sample for sample in kinds.get(kind, ()) if restart_offsets(_image(sample)) is None]
        for kind in (BASELINE, PROGRESSIVE)
    }
    tried = _few([one for some in untiled.values() for one in some], maker.most_stored)
    before, after = [], []
    for sample in tried:
        data, reason = tile_jpeg(_image(sample))
        if not reason:
            before.append(sample)
            after.append(_with_image(sample, bytes(data)))
    if not before:
        return (
            "no JPEG here can be given restart markers: there is none without, or it is too small"
        )
    share = sum(
        shares.get(kind, 0.0) * len(untiled[kind]) / len(kinds[kind])
        for kind in untiled
        if untiled[kind]
    )
    share *= len(before) / len(tried)
    progressive = shares.get(PROGRESSIVE, 0.0)
    how = f"{len(before)} images were given restart markers in memory, which changes no pixel"
    how += (
        f"; progressive JPEGs, {progressive:.0%} of all, become baseline by it"
        if progressive
        else ""
    )
    return _change(maker, before, after, share, how)


def _fast(
    maker: Maker, kinds: Mapping[str, Sequence[Sample]], shares: Mapping[str, float]
) -> Change | str:
    """Decode at a smaller size what is shrunk anyway."""
    if maker.settings.get("decode") == "fast":
        return 'decode="fast" is set already'
    samples = _few(kinds.get(BASELINE, ()), maker.most_stored)
    if not samples:
        return 'decode="fast" is for baseline JPEGs, and there are none'
    before, after = maker.decoding(samples), maker.decoding(samples, decode="fast")
    how = f'{len(samples)} baseline JPEGs were decoded with decode="fast", which changes pixels a little'
    return Change(before, after, 1.0, shares.get(BASELINE, 0.0), how)


def _smaller(
    maker: Maker, kinds: Mapping[str, Sequence[Sample]], shares: Mapping[str, float]
) -> Change | str:
    """Shrink large images in memory to twice the side of what the recipe decodes, as baseline JPEGs."""
    samples = _few([one for some in kinds.values() for one in some], maker.most_stored)
    side = _SMALLER * _decoded_side(maker.decoding(samples[:1]).parts)
    if not side:
        return "the recipe decodes images of sizes of their own"
    before, after = [], []
    for sample in samples:
        header = read_header(_image(sample))
        if min(header.height, header.width) >= _WORTH * side:
            before.append(sample)
            after.append(_with_image(sample, _shrunk(_image(sample), side)))
    if not before:
        return f"images are not much larger than {side:.0f} pixels, twice what the recipe decodes"
    how = (
        f"{len(before)} images were shrunk in memory to a short side of {side:.0f} pixels, twice what the recipe decodes, and "
        f"stored as JPEGs of quality {_QUALITY}; that loses detail"
    )
    share = len(before) / len(samples) * sum(shares.values())
    return _change(maker, before, after, share, how)


def _change(
    maker: Maker, before: Sequence[Sample], after: Sequence[Sample], share: float, how: str
) -> Change:
    size_factor = sum(len(_image(one)) for one in after) / sum(len(_image(one)) for one in before)
    return Change(maker.decoding(before), maker.decoding(after), size_factor, share, how)


def _few(samples: Sequence[Sample], most: int) -> list[Sample]:
    """Some of them, spread evenly: at least one, and no more than can be encoded in a few seconds."""
    mean_bytes = fmean([len(_image(sample)) for sample in samples] or [1])
    count = min(most, len(samples), max(int(_MOST_STORED_BYTES / max(mean_bytes, 1)), 1))
    return [samples[at * len(samples) // count] for at in range(count)]


def _decoded_side(parts: Parts) -> int:
    sizes = [view.recipe.decode_size for view in parts.engines.views]
    return 0 if None in sizes else max(max(size) for size in sizes if size is not None)


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
