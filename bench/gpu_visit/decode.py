"""Steps: how fast JPEGs are decoded, by which decoder of the GPU, whole and in part."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu_visit.photographs import bits_per_pixel, photographs
from bench.gpu_visit.scale import Notes, Scale, Size, rate
from bench.machine import num_cores
from readers import read_header

_HARDWARE_LOADS = (0.0, 0.65, 0.9, 1.0)  # shares for the GPU's JPEG engine; 0.65 is DALI's default


def dali(scale: Scale, data: Path, notes: Notes) -> None:
    """DALI's decoder over sizes, batch sizes and shares for the JPEG engine, and its pixels."""
    best: dict[Size, tuple[float, str]] = {}
    for size, (count, batch_sizes) in scale.pictures.items():
        encoded = photographs(data, size, count)
        notes.put(**{f"bits per pixel at {_name(size)}": bits_per_pixel(encoded, size)})
        for batch_size in batch_sizes:
            for load in _HARDWARE_LOADS if scale.on_gpu else (None,):
                for fancy in (True, False) if load in (0.65, None) else (True,):
                    name = f"{_name(size)}, batch {batch_size}, load {load}, fancy {fancy}"
                    with notes.attempt(name) as row:
                        options = {"hw_decoder_load": load, "jpeg_fancy_upsampling": fancy}
                        pipeline = DaliDecoder(encoded, batch_size, scale, options)
                        row["difference"] = _difference(pipeline.run()[0].as_cpu(), encoded)
                        row |= rate(pipeline.run, batch_size, scale, warm_up=3)
                        best[size] = max(
                            best.get(size, (0.0, "")), (row["images_per_second"], name)
                        )
    notes.put(headline="; ".join(f"{speed:.0f} images/s ({name})" for speed, name in best.values()))


def others(scale: Scale, data: Path, notes: Notes) -> None:
    """Each backend of nvImageCodec, and torchvision's nvJPEG."""
    for size, (count, batch_sizes) in scale.pictures.items():
        encoded = photographs(data, size, count)
        for batch_size in batch_sizes:
            batch = [encoded[number % count] for number in range(batch_size)]
            for kind in backends(scale):
                with notes.attempt(f"nvimgcodec {kind} {_name(size)}, batch {batch_size}") as row:
                    decode = NvImageCodec(kind, scale)
                    images = decode(batch)
                    row["difference"] = _difference([image.cpu() for image in images], encoded)
                    row |= rate(partial(decode, batch), batch_size, scale)
            with notes.attempt(f"torchvision {_name(size)}, batch {batch_size}") as row:
                row |= rate(_torchvision(batch, scale), batch_size, scale)
    speeds = {name: row.get("images_per_second", 0.0) for name, row in notes.found.items()}
    fastest = max(speeds, key=speeds.__getitem__)
    notes.put(headline=f"fastest: {fastest}, {speeds[fastest]:.0f} images/s")


def regions_of_dali(scale: Scale, data: Path, notes: Notes) -> None:
    """A region of each image, decoded by DALI alone and cut out of the whole. It may crash on a GPU."""
    encoded = photographs(data, next(iter(scale.pictures)), 8)
    options = {"jpeg_fancy_upsampling": True}
    whole = DaliDecoder(encoded, 8, scale, options)
    region = DaliDecoder(encoded, 8, scale, options, is_region=True)
    pairs = zip(whole.run()[0].as_cpu(), region.run()[0].as_cpu(), strict=True)
    gaps = [np.abs(_middle(np.asarray(one)).astype(int) - other).max() for one, other in pairs]
    notes.put(largest_difference=int(max(gaps)))
    speeds = [rate(pipeline.run, 8, scale)["images_per_second"] for pipeline in (whole, region)]
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
            row |= rate(partial(decode, encoded, is_region=True), 8, scale)
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

    def __call__(self, encoded: list[Any], *, is_region: bool = False) -> list[Any]:
        """Decode a batch.

        Raises:
            RuntimeError: Some image was refused.
        """
        streams = [self._codec.CodeStream(bytes(part)) for part in encoded]
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
    """Largest and mean difference of the first four images from OpenCV's, in units of 1/255."""
    import cv2

    gaps: list[Any] = []
    for image, part in zip(list(images)[:4], encoded, strict=False):
        expected: Any = cv2.imdecode(np.frombuffer(part, np.uint8), cv2.IMREAD_COLOR)
        gaps.append(np.abs(np.asarray(image).astype(int) - expected[..., ::-1]))
    return {
        "max": int(max(gap.max() for gap in gaps)),
        "mean": round(float(np.mean([gap.mean() for gap in gaps])), 4),
    }


def _bounds(height: int, width: int) -> tuple[int, int, int, int]:
    return height // 4, width // 4, height // 4 + height // 2, width // 4 + width // 2


def _middle(image: Any) -> Any:
    top, left, bottom, right = _bounds(*image.shape[:2])
    return image[top:bottom, left:right]


def _name(size: Size) -> str:
    return f"{size[1]}x{size[0]}"
