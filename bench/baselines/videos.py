"""Other libraries' pipelines from a video file to augmented clips, written like their users write them."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.baselines.torch_loader import Baseline, one_opencv_thread
from bench.baselines.translations import albumentations_compose
from bench.compare.clips import Clip, ClipPlan
from bench.compare.task import Task, Unable
from gpu_aug import Recipe
from readers.video.info import UNSPECIFIED_MATRIX

_BT601 = 5  # number in ITU-T H.273; FFmpeg's choice if a video does not state its matrix
_NUM_TRIED = 4  # clips on which torchcodec's approximate seeking is checked
_WITHOUT_FFMPEG = (
    "torchcodec finds no FFmpeg libraries: install FFmpeg, for example with apt install ffmpeg"
)


class _ClipBaseline(Baseline):
    """Base class of baselines that decode clips to uint8, and transform them with one draw for all frames of a clip.

    Attributes:
        decode: A function that returns the frames of a clip: uint8 [T, height, width, 3].
    """

    decode: Callable[[Clip], NDArray[np.uint8]]

    def load(self, item: Clip) -> torch.Tensor:
        """Decode a clip, and transform it with torchvision's v2 transforms."""
        return self.transform(torch.from_numpy(self.decode(item)).permute(0, 3, 1, 2))


class PyavTorchvision(_ClipBaseline):
    """Baseline in which PyAV seeks and decodes, and torchvision transforms."""

    note = "av.open, seek, decode to the last frame, to_ndarray of those wanted, then transforms.v2 on uint8 clips"

    def decode(self, clip: Clip) -> NDArray[np.uint8]:
        """Decode from the keyframe before the clip, or from the beginning if seeking misses frames."""
        import av

        wanted = set(clip.pts.tolist())
        found: dict[Any, NDArray[np.uint8]] = {}
        for is_sought in (True, False):
            with av.open(str(clip.path)) as container:
                stream = container.streams.video[0]
                stream.thread_type, stream.thread_count = "NONE", 1
                if is_sought:
                    container.seek(min(wanted), stream=stream)
                for frame in container.decode(stream):
                    if frame.pts in wanted:
                        found[frame.pts] = upright(frame)
                        if len(found) == len(wanted):
                            return np.stack([found[pts] for pts in clip.pts.tolist()])
        raise RuntimeError(f"PyAV shows {len(found)} of {len(wanted)} frames of {clip.path.name}")


class OpencvAlbumentations(_ClipBaseline):
    """Baseline in which OpenCV's VideoCapture decodes, and Albumentations transforms."""

    note = (
        "cv2.VideoCapture, set(CAP_PROP_POS_FRAMES), read to the last frame, then Albumentations on images=, whose "
        "resizing is not antialiased"
    )
    worker_init = staticmethod(one_opencv_thread)

    def __init__(self, recipe: Recipe) -> None:
        self._compose = albumentations_compose(recipe)

    def load(self, item: Clip) -> Any:
        """Decode and transform arrays."""
        return self._compose(images=self.decode(item))["images"]

    def decode(self, clip: Clip) -> NDArray[np.uint8]:
        """Seek to the index of the first frame and decode, or read from the beginning if seeking misses frames."""
        import cv2

        wanted = set(clip.frames.tolist())
        found: dict[int, NDArray[np.uint8]] = {}
        for first in (min(wanted), 0):
            capture = cv2.VideoCapture(str(clip.path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
            capture.set(cv2.CAP_PROP_POS_FRAMES, first)
            for number in range(first, max(wanted) + 1):
                if not capture.grab():
                    break
                if number in wanted:
                    found[number] = cv2.cvtColor(capture.retrieve()[1], cv2.COLOR_BGR2RGB)
            capture.release()
            if len(found) == len(wanted):
                return np.stack([found[number] for number in clip.frames.tolist()])
        raise RuntimeError(f"OpenCV shows {len(found)} of {len(wanted)} frames of {clip.path.name}")


class DecordTorchvision(_ClipBaseline):
    """Baseline in which decord decodes, and torchvision transforms."""

    note = "decord.VideoReader, one thread each, then transforms.v2 on uint8 clips"

    def decode(self, clip: Clip) -> NDArray[np.uint8]:
        """Open the file, and return the clip's frames with decord's `get_batch`."""
        decord = importlib.import_module("decord")
        reader = decord.VideoReader(str(clip.path), num_threads=1)
        return np.asarray(reader.get_batch(clip.frames).asnumpy(), np.uint8)


class TorchcodecTorchvision(_ClipBaseline):
    """Baseline in which torchcodec decodes to tensors, and torchvision transforms."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        load_torchcodec()
        self.note = "VideoDecoder, one FFmpeg thread each, then transforms.v2 on uint8 clips"
        self._seek = "exact"

    def load(self, item: Clip) -> torch.Tensor:
        """Decode to uint8 [T, 3, height, width], and transform."""
        return self.transform(torchcodec_frames(item, self._seek))

    def adjust(self, task: Task) -> None:
        """Choose torchcodec's faster seek mode that returns the right frames."""
        self._seek = seek_mode(task.clips)
        self.note += f"; {self._seek} seeking"


def upright(frame: Any) -> NDArray[np.uint8]:
    """Convert a PyAV frame to RGB, turned as its video states: uint8 [height, width, 3]."""
    matrix = int(frame.colorspace)
    colours = _BT601 if matrix == UNSPECIFIED_MATRIX else matrix
    rgb = frame.reformat(format="rgb24", src_colorspace=colours).to_ndarray()
    return np.ascontiguousarray(np.rot90(rgb, round(frame.rotation / 90)))


def load_torchcodec() -> Any:
    """Import and return torchcodec's video decoders.

    Raises:
        Unable: torchcodec is not installed, or finds no FFmpeg, which its wheel does not include.
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
        seek: "approximate" or "exact".
    """
    decoder = load_torchcodec().VideoDecoder(clip.path, num_ffmpeg_threads=1, seek_mode=seek)
    return torch.as_tensor(decoder.get_frames_at(clip.frames.tolist()).data)


def seek_mode(plan: ClipPlan) -> str:
    """Return torchcodec's seek mode "approximate" if it returns the right frames of the first clips, else "exact".

    "approximate" reads no packets before it seeks, so it is never slower than "exact", torchcodec's default.
    """
    for clip in plan.first(_NUM_TRIED):
        try:
            frames = torchcodec_frames(clip, "approximate")
        except (RuntimeError, IndexError):
            return "exact"
        if not torch.equal(frames, torchcodec_frames(clip, "exact")):
            return "exact"
    return "approximate"
