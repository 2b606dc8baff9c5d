"""Step: the first minute on a GPU. What is there, are its decoders at work, and are the pixels Pillow's?"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.compare.usage import Busy
from bench.gpu import decoders, engines, video
from bench.gpu.broken import again
from bench.gpu.image_kinds import Kind, Pixels, judge, pixels_of, taken
from bench.gpu.our_loader import endless
from bench.gpu.photographs import photographs, write_files
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, finish
from dali_pipes import Batch
from dali_pipes.doctor import examine

_SIZE = (160, 213)
_BATCH = 32
_BUSY_SECONDS = 1.5  # the driver averages over a sixth of a second


def smoke(scale: Scale, data: Path, rows: Rows) -> None:
    """From what everything else needs to what nothing else shows."""
    with rows.check("imports and driver") as row:
        for one in examine():
            text = f"{one.found}; {one.advice}" if one.advice else one.found
            row.facts[one.subject] = text.replace(str(Path.home()), "~")
        row.value = len(list(data.rglob("*.jpg")))
        assert row.value, f"{data} has no JPEG: install scikit-image, which brings photographs"
    encoded = photographs(data, _SIZE, 2 * _BATCH)
    with rows.check("the JPEG engine is at work") as row:
        share = 1.0 if scale.on_gpu else None  # all for the engine, whatever our loader's share is
        decode = decoders.dali(
            encoded, _BATCH, scale, jpeg_fancy_upsampling=True, hw_decoder_load=share
        )
        judge_busy(row, "the JPEG engine", decode, scale)
    for name, with_pngs in (("JPEGs", False), ("JPEGs and PNGs", True)):
        kinds = _kinds(encoded, with_pngs=with_pngs)
        files = {f"{n:05d}{kind.ending}": kind.encoded for n, kind in enumerate(kinds)}
        title = f"20 batches of {name} beside Pillow"
        with rows.check(title) as row, TemporaryDirectory() as root:
            folder = write_files(Path(root) / "files", files)
            batches = taken(scale, folder, _SIZE, _BATCH, 20 if scale.on_gpu else 3)
            judge_pictures(batches, kinds, row)
    few = ("imagenet_train_jitter", "uint8")
    engines.compare(scale, data, rows, few, ("kornia",))
    with rows.check("NVDEC is at work") as row, TemporaryDirectory() as root:
        folder = video.write(Path(root), (256, 340), scale)
        with video.loader_for_clips(scale, folder, "dali") as loader:
            batches = endless(loader)
            judge_busy(row, "NVDEC", lambda: next(batches).images, scale)


def judge_busy(row: Row, engine: str, work: Any, scale: Scale) -> None:
    """Fill in a row: the most that NVML says an engine was busy while it should be; in a rehearsal nobody is.

    Raises:
        AssertionError: It was idle, or NVML does not tell.
    """
    work()  # what is made once
    with Busy(scale.device) as busy:
        for _ in video.until(_BUSY_SECONDS if scale.on_gpu else 0.0):
            work()
            finish(scale.device)
    row.unit = "% at most"
    row.facts |= busy.found
    row.value = busy.found.get(f"percent of {engine} at most", 0)
    assert row.value or not scale.on_gpu, (
        f"{engine} was idle while it should decode; NVML says {busy.found}"
    )


def judge_pictures(batches: Iterator[Batch], kinds: Sequence[Kind], row: Row) -> None:
    """Fill in a row: the largest difference of a picture from Pillow's, beside that of pictures moved by one pixel.

    Raises:
        AssertionError: A picture is another one, or too far from Pillow's.
    """
    expected: list[Kind] = []
    images: list[Pixels] = []
    for batch in batches:
        expected += [kinds[index % len(kinds)] for index in batch.indices.tolist()]
        images += pixels_of(batch)
    row.facts["pictures"] = len(images)
    judge(expected, images, row)


def _kinds(encoded: Sequence[bytes], *, with_pngs: bool) -> list[Kind]:
    """JPEGs; every fifth is a PNG of the same picture, which the CPU decodes."""
    return [
        Kind("", ".png", again(one, "PNG")) if with_pngs and n % 5 == 0 else Kind("", ".jpg", one)
        for n, one in enumerate(encoded)
    ]
