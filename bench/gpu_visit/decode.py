"""Steps: how fast JPEGs are decoded, by which decoder of the GPU, whole and in part."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.compare.usage import Busy
from bench.gpu_visit.flow import flow_rate
from bench.gpu_visit.photographs import bits_per_pixel, photographs
from bench.gpu_visit.scale import Notes, Scale, Size
from bench.machine import num_cores
from readers import read_header

HARDWARE_LOADS = (0.0, 0.65, 0.9, 1.0)
"""Shares for the GPU's JPEG engine: 0.65 is DALI's default, 0 decodes with CUDA alone."""

_AHEAD = 4  # batches to take before the clock starts: DALI works on two ahead
_MEAN_MAX = 3.0  # of 1/255: decoders round in their own ways, and upsample chroma in two
_LINES = slice(None, None, 4)  # enough to tell, and quick
_CONTROL_MIN = 10.0  # between photographs that differ


def dali(scale: Scale, data: Path, notes: Notes) -> None:
    """DALI's decoder over sizes and shares for the JPEG engine, what was at work, and its pixels."""
    for size, (count, batch_sizes) in scale.pictures.items():
        encoded = photographs(data, size, count)
        batch_size = batch_sizes[-1]
        notes.put(**{f"bits per pixel at {_name(size)}": bits_per_pixel(encoded, size)})
        for load, fancy in _dalis_choices(scale):
            with notes.attempt(
                f"{_name(size)}, batch {batch_size}, load {load}, fancy {fancy}"
            ) as row:
                row |= {"hw_decoder_load": load, "batch_size": batch_size, "size": size}
                options = {"hw_decoder_load": load, "jpeg_fancy_upsampling": fancy}
                pipeline = DaliDecoder(encoded, batch_size, scale, options)
                row["difference"] = _difference(pipeline.run()[0].as_cpu(), encoded)
                row |= _timed(pipeline.run, batch_size, scale, discard=_AHEAD)
                del pipeline
    notes.put(headline=_fastest_of_sizes(notes, scale))


def _dalis_choices(scale: Scale) -> list[tuple[float | None, bool]]:
    """Shares for the JPEG engine, and whether chroma is upsampled as on the CPU."""
    loads = HARDWARE_LOADS if scale.on_gpu else (None,)
    return [*((load, True) for load in loads), (0.65 if scale.on_gpu else None, False)]


def others(scale: Scale, data: Path, notes: Notes) -> None:
    """Each backend of nvImageCodec, headers already read, and torchvision's nvJPEG.

    That a row is what its name says can be seen in the percents of the JPEG engine: they are 0 for GPU_ONLY
    and HYBRID_CPU_GPU, and not for HW_GPU_ONLY.
    """
    for size, (count, batch_sizes) in scale.pictures.items():
        encoded = photographs(data, size, count)
        batch_size = batch_sizes[-1]
        batch = [encoded[number % count] for number in range(batch_size)]
        for kind in backends(scale):
            with notes.attempt(f"nvimgcodec {kind} {_name(size)}, batch {batch_size}") as row:
                row |= {"backend": kind, "batch_size": batch_size, "size": size}
                decode = NvImageCodec(kind, scale)
                images = decode(batch)
                row["difference"] = _difference([image.cpu() for image in images], encoded)
                streams = decode.parsed(batch)
                row |= _timed(partial(decode, streams), batch_size, scale, discard=1)
        with notes.attempt(f"torchvision {_name(size)}, batch {batch_size}") as row:
            row |= {"backend": "torchvision", "batch_size": batch_size, "size": size}
            row |= _timed(_torchvision(batch, scale), batch_size, scale, discard=1)
    notes.put(told_apart=_told_apart(notes))
    notes.put(
        headline=f"{_fastest_of_sizes(notes, scale)}; told apart: {notes.found['told_apart']}"
    )


def _timed(call: Callable[[], Any], num: int, scale: Scale, *, discard: int) -> dict[str, Any]:
    """The steady rate, and how busy the engines were."""
    with Busy(scale.device) as busy:
        found = flow_rate(call, num, scale.seconds, scale.device, discard=discard)
    return {**found, **busy.found}


def _fastest_of_sizes(notes: Notes, scale: Scale) -> str:
    parts = []
    for size in scale.pictures:
        rows = {
            name: row["images_per_second"]
            for name, row in notes.found.items()
            if isinstance(row, dict) and row.get("size") == size and "images_per_second" in row
        }
        best = max(rows, key=rows.__getitem__, default="")
        parts.append(f"{best}: {rows[best]:.0f} images/s" if best else f"{_name(size)}: none ran")
    return "; ".join(parts)


def _told_apart(notes: Notes) -> str:
    """Whether the JPEG engine worked for HW_GPU_ONLY and rested for those that must not use it."""
    used: dict[str, list[Any]] = {}
    for row in notes.found.values():
        if isinstance(row, dict) and "backend" in row:
            percent = row.get("percent of the JPEG engine at most", "unknown")
            used.setdefault(row["backend"], []).append(percent)
    return (
        ", ".join(f"{kind} {percents}" for kind, percents in used.items()) + " % of the JPEG engine"
    )


def regions_of_dali(scale: Scale, data: Path, notes: Notes) -> None:
    """A region of each image, decoded by DALI alone and cut out of the whole. It may crash on a GPU."""
    encoded = photographs(data, next(iter(scale.pictures)), 8)
    options = {"jpeg_fancy_upsampling": True}
    whole = DaliDecoder(encoded, 8, scale, options)
    region = DaliDecoder(encoded, 8, scale, options, is_region=True)
    pairs = zip(whole.run()[0].as_cpu(), region.run()[0].as_cpu(), strict=True)
    gaps = [np.abs(_middle(np.asarray(one)).astype(int) - other).max() for one, other in pairs]
    notes.put(largest_difference=int(max(gaps)))
    speeds = [
        _timed(pipeline.run, 8, scale, discard=_AHEAD)["images_per_second"]
        for pipeline in (whole, region)
    ]
    notes.put(
        whole=speeds[0],
        region=speeds[1],
        headline=f"region {speeds[1]:.0f}, whole {speeds[0]:.0f} images/s, differ by at most {max(gaps)}/255",
    )


def regions_of_nvimgcodec(scale: Scale, data: Path, notes: Notes) -> None:
    """The same by nvImageCodec, one backend after the other. It may crash on a GPU."""
    encoded = photographs(data, next(iter(scale.pictures)), 8)
    for kind in backends(scale):
        with notes.attempt(kind) as row:
            decode = NvImageCodec(kind, scale)
            whole = [np.asarray(image.cpu()) for image in decode(encoded)]
            part = [np.asarray(image.cpu()) for image in decode(encoded, is_region=True)]
            pairs = zip(whole, part, strict=True)
            gaps = [np.abs(_middle(one).astype(int) - other).max() for one, other in pairs]
            row["largest_difference"] = int(max(gaps))
            row |= _timed(partial(decode, encoded, is_region=True), 8, scale, discard=1)
    notes.put(headline=", ".join(f"{name}: {row}" for name, row in notes.found.items())[:200])


class DaliDecoder:
    """A DALI pipeline that decodes the same images over and over."""

    def __init__(
        self,
        encoded: list[Any],
        batch_size: int,
        scale: Scale,
        options: dict[str, Any],
        *,
        is_region: bool = False,
    ) -> None:
        from nvidia.dali import Pipeline, fn, types

        arrays = [np.frombuffer(part, np.uint8) for part in encoded]
        batches = max(1, len(arrays) // batch_size)

        def source(number: Any) -> list[Any]:
            first = int(number) % batches * batch_size
            return [arrays[(first + place) % len(arrays)] for place in range(batch_size)]

        given = {name: value for name, value in options.items() if value is not None}
        device = "mixed" if scale.on_gpu else "cpu"
        self._pipeline = Pipeline(batch_size, num_cores(), scale.device.index)
        with self._pipeline:
            bytes_ = fn.external_source(source, dtype=types.UINT8, ndim=1, batch=True, no_copy=True)
            if is_region:
                header = read_header(encoded[0])
                top, left, bottom, right = _bounds(header.height, header.width)
                middle: Any = {"start": [top, left], "shape": [bottom - top, right - left]}
                images = fn.decoders.image_slice(
                    bytes_, device=device, axes=[0, 1], **middle, **given
                )
            else:
                images = fn.decoders.image(bytes_, device=device, output_type=types.RGB, **given)
            self._pipeline.set_outputs(images)
        self._pipeline.build()

    def run(self) -> Any:
        """Take a batch."""
        return self._pipeline.run()


def backends(scale: Scale) -> list[str]:
    """What nvImageCodec may decode with; "adaptive" shares between all of the GPU's."""
    if not scale.on_gpu:
        return ["CPU_ONLY"]
    return ["HW_GPU_ONLY", "GPU_ONLY", "HYBRID_CPU_GPU", "adaptive"]


class NvImageCodec:
    """The decoder of nvImageCodec with one backend."""

    def __init__(self, kind: str, scale: Scale) -> None:
        from nvidia import nvimgcodec

        self._codec = nvimgcodec
        kinds = backends(scale)[:-1] if kind == "adaptive" else [kind]
        policies = nvimgcodec.LoadHintPolicy
        policy = policies.ADAPTIVE_MINIMIZE_IDLE_TIME if kind == "adaptive" else policies.FIXED
        self._decoder = nvimgcodec.Decoder(
            device_id=0 if scale.on_gpu else nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY,
            max_num_cpu_threads=num_cores(),
            backends=[
                nvimgcodec.Backend(getattr(nvimgcodec.BackendKind, one), 1.0, policy)
                for one in kinds
            ],
            options=":fancy_upsampling=1",
        )

    def parsed(self, encoded: list[Any]) -> list[Any]:
        """Read the headers, which Python does one after the other, so that they can be kept out of a measurement."""
        return [self._codec.CodeStream(bytes(part)) for part in encoded]

    def __call__(self, encoded: list[Any], *, is_region: bool = False) -> list[Any]:
        """Decode a batch of files, or of what `parsed` made of them.

        Raises:
            RuntimeError: Some image was refused.
        """
        kind = self._codec.CodeStream
        streams = [part if isinstance(part, kind) else kind(bytes(part)) for part in encoded]
        if is_region:
            streams = [
                stream.get_sub_code_stream(
                    region=self._codec.Region(*_bounds(stream.height, stream.width))
                )
                for stream in streams
            ]
        images: list[Any] = self._decoder.decode(streams)
        if refused := sum(image is None for image in images):
            raise RuntimeError(f"{refused} of {len(images)} images were refused")
        return images


def _torchvision(batch: list[bytes], scale: Scale) -> Any:
    from torchvision.io import ImageReadMode, decode_jpeg

    tensors = [torch.frombuffer(bytearray(part), dtype=torch.uint8) for part in batch]
    return lambda: decode_jpeg(tensors, mode=ImageReadMode.RGB, device=scale.device)


def _difference(images: Any, encoded: list[bytes]) -> dict[str, float]:
    """Difference of the first four images from OpenCV's, in units of 1/255.

    Raises:
        AssertionError: They are not those pictures; "control" is how far other pictures are.
    """
    images = [np.asarray(image)[_LINES].astype(np.int16) for image in list(images)[:4]]
    expected = [_by_opencv(part) for part in encoded[: len(images)]]
    gaps = [np.abs(one - other) for one, other in zip(images, expected, strict=True)]
    others = zip(images, [*expected[1:], expected[0]], strict=True)
    found = {
        "max": int(max(gap.max() for gap in gaps)),
        "mean": round(float(np.mean([gap.mean() for gap in gaps])), 4),
        "control": round(float(np.mean([np.abs(one - other).mean() for one, other in others])), 1),
    }
    if found["mean"] > _MEAN_MAX or found["control"] < _CONTROL_MIN:
        raise AssertionError(
            f"pixels differ from OpenCV's by {found['mean']}/255 on average, at most {_MEAN_MAX} was expected, "
            f"and from other pictures by {found['control']}, at least {_CONTROL_MIN} was expected"
        )
    return found


def _by_opencv(encoded: bytes) -> Any:
    import cv2

    decoded: Any = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
    return decoded[_LINES, :, ::-1].astype(np.int16)


def _bounds(height: int, width: int) -> tuple[int, int, int, int]:
    return height // 4, width // 4, height // 4 + height // 2, width // 4 + width // 2


def _middle(image: Any) -> Any:
    top, left, bottom, right = _bounds(*image.shape[:2])
    return image[top:bottom, left:right]


def _name(size: Size) -> str:
    return f"{size[1]}x{size[0]}"
