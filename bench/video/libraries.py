"""Other people's ways from a video file to the frames of a clip, and on to a tensor.

Each is a small class with the two steps that a user's Dataset has: decode the frames of a clip, augment
them with one draw for all. `bench.video.workers` puts them into worker processes or threads.
"""

import importlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from bench.baselines.libraries import one_opencv_thread
from bench.baselines.translations import albumentations_transforms, torchvision_transforms
from bench.compare.contestant import Unable
from bench.video.plan import Clip
from gpu_aug import Recipe

NUM_TRIED = 4
"""Clips on which settings are tried."""

_ROUNDS = 2
_WITHOUT_FFMPEG = (
    "torchcodec finds no FFmpeg libraries: install FFmpeg, for example with apt install ffmpeg"
)


class ClipReader(ABC):
    """Another library's way from a file to the augmented frames of a clip.

    Attributes:
        name: As it is printed.
        note: What differs from our way.
        worker_init: What its users do at the start of a DataLoader worker.
    """

    name: ClassVar[str]
    note: str
    worker_init: Callable[[int], None] | None = None

    @abstractmethod
    def __init__(self, recipe: Recipe) -> None:
        """Translate the recipe, or be Unable."""

    @abstractmethod
    def decode(self, clip: Clip) -> Any:
        """Open the file and decode the frames of a clip."""

    @abstractmethod
    def augment(self, frames: Any) -> torch.Tensor:
        """Turn decoded frames into a tensor [T, 3, height, width]."""

    def settle(self, clips: Sequence[Clip]) -> None:
        """Find out on a few clips which of its settings is the fastest that gives the right frames."""
        del clips  # most have none that matter


class TorchcodecTorchvision(ClipReader):
    """torchcodec decodes to tensors, torchvision's v2 transforms work on them."""

    name = "torchcodec+torchvision"

    def __init__(self, recipe: Recipe) -> None:
        from torchvision.transforms import v2

        load_torchcodec()
        self.note = "VideoDecoder, one FFmpeg thread each, then transforms.v2 on uint8 clips"
        self._transform = v2.Compose(torchvision_transforms(recipe, before_float=[]))
        self._seek = "exact"

    def decode(self, clip: Clip) -> torch.Tensor:
        """Decode to uint8 [T, 3, height, width]."""
        return torchcodec_frames(clip, self._seek)

    def augment(self, frames: torch.Tensor) -> torch.Tensor:
        """Transform the frames, with one draw for all."""
        tensor: torch.Tensor = self._transform(frames)
        return tensor

    def settle(self, clips: Sequence[Clip]) -> None:
        """Choose among the ways of seeking."""
        self._seek, rates = fastest_seek(clips)
        tried = ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items())
        self.note += f"; {self._seek} seeking (clips/s on a thread when tried: {tried})"


class PyavAlbumentations(ClipReader):
    """PyAV seeks and decodes, Albumentations transforms."""

    name = "pyav+albumentations"
    note = (
        "av.open, seek, decode to the last frame, to_ndarray of those wanted, then Albumentations on "
        "images=, whose resizing is not antialiased"
    )
    worker_init = staticmethod(one_opencv_thread)

    def __init__(self, recipe: Recipe) -> None:
        import albumentations as A
        from albumentations.pytorch import ToTensorV2

        self._transform = A.Compose([*albumentations_transforms(recipe), ToTensorV2()])

    def decode(self, clip: Clip) -> NDArray[np.uint8]:
        """Decode to uint8 [T, height, width, 3]."""
        import av

        wanted = set(clip.pts.tolist())
        found: dict[Any, Any] = {}
        with av.open(str(clip.path)) as container:
            stream = container.streams.video[0]
            stream.thread_type, stream.thread_count = "NONE", 1
            container.seek(min(wanted), stream=stream)
            for frame in container.decode(stream):
                if frame.pts in wanted:
                    found[frame.pts] = frame.to_ndarray(format="rgb24")
                    if len(found) == len(wanted):
                        break
        return np.stack([found[pts] for pts in clip.pts.tolist()])

    def augment(self, frames: NDArray[np.uint8]) -> torch.Tensor:
        """Transform the frames, with one draw for all."""
        tensor: torch.Tensor = self._transform(images=frames)["images"]
        return tensor


class DecordTorchvision(ClipReader):
    """decord decodes, torchvision's v2 transforms work on tensors."""

    name = "decord+torchvision"
    note = "decord.VideoReader, one thread each, then transforms.v2 on uint8 clips"

    def __init__(self, recipe: Recipe) -> None:
        from torchvision.transforms import v2

        try:
            self._decord: Any = importlib.import_module("decord")
        except ImportError as error:
            raise Unable("needs decord: pip install decord") from error
        self._transform = v2.Compose(torchvision_transforms(recipe, before_float=[]))

    def decode(self, clip: Clip) -> torch.Tensor:
        """Decode to uint8 [T, 3, height, width]."""
        reader = self._decord.VideoReader(str(clip.path), num_threads=1)
        pixels = reader.get_batch(clip.frames).asnumpy()
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)

    def augment(self, frames: torch.Tensor) -> torch.Tensor:
        """Transform the frames, with one draw for all."""
        tensor: torch.Tensor = self._transform(frames)
        return tensor


def load_torchcodec() -> Any:
    """Import torchcodec's decoders of videos.

    Raises:
        Unable: It is missing, or finds no FFmpeg; its wheel brings none.
    """
    try:
        decoders = importlib.import_module("torchcodec.decoders")
        package = importlib.import_module("torchcodec")
    except ImportError as error:
        raise Unable("needs torchcodec: pip install torchcodec") from error
    except (OSError, RuntimeError) as error:  # versions before 0.14 load FFmpeg when imported
        raise Unable(_WITHOUT_FFMPEG) from error
    if getattr(package, "ffmpeg_major_version", 0) is None:
        raise Unable(_WITHOUT_FFMPEG)
    return decoders


def torchcodec_frames(clip: Clip, seek: str) -> torch.Tensor:
    """Decode a clip with torchcodec: uint8 [T, 3, height, width].

    Args:
        clip: A clip of any video.
        seek: "approximate", "exact", or "mapped", which is exact with an index made ahead, as ours is.
    """
    way = {"custom_frame_mappings": _mapping(clip)} if seek == "mapped" else {"seek_mode": seek}
    decoder = load_torchcodec().VideoDecoder(clip.path, num_ffmpeg_threads=1, **way)
    frames: torch.Tensor = decoder.get_frames_at(clip.frames.tolist()).data
    return frames


def fastest_seek(clips: Sequence[Clip]) -> tuple[str, dict[str, float]]:
    """Try torchcodec's ways of seeking in turns, once for the same clips.

    Returns:
        The fastest of those that give the same frames as "exact"; the clips per second of each of these.
    """
    key = b"".join(bytes(clip.path) + clip.frames.tobytes() for clip in clips)
    if key not in _rates:
        _rates[key] = _seek_rates(clips)
    rates = _rates[key]
    return max(rates, key=lambda seek: rates[seek]), rates


def _seek_rates(clips: Sequence[Clip]) -> dict[str, float]:
    right = [torchcodec_frames(clip, "exact") for clip in clips]
    rates: dict[str, float] = {}
    for seek in ("exact", "approximate", "mapped"):
        try:
            found = [torchcodec_frames(clip, seek) for clip in clips]
        except (RuntimeError, ValueError):
            continue
        if all(map(torch.equal, found, right)):
            rates[seek] = 0.0
    for _ in range(_ROUNDS):
        for seek in rates:
            began = time.perf_counter()
            for clip in clips:
                torchcodec_frames(clip, seek)
            rates[seek] = max(rates[seek], len(clips) / (time.perf_counter() - began))
    return rates


_rates: dict[bytes, dict[str, float]] = {}
_mappings: dict[Path, str] = {}


def _mapping(clip: Clip) -> str:
    """The index of a video in torchcodec's form, made once."""
    if clip.path not in _mappings:
        info = clip.info
        keys = set(info.packet_pts[info.keyframes].tolist())
        ends = [*info.pts[1:].tolist(), int(info.pts[-1]) + info.last_duration]
        frames = [
            {"pts": pts, "duration": end - pts, "key_frame": int(pts in keys)}
            for pts, end in zip(info.pts.tolist(), ends, strict=True)
        ]
        _mappings[clip.path] = json.dumps({"frames": frames})
    return _mappings[clip.path]
