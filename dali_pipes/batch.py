"""What the loader hands over: a batch, and where the time went."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from gpu_aug.compiled.clock import clock

Stage = Literal["read", "decode", "augment", "copy", "wait"]


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's samples on one rank, B of them.

    B is `batch_size`, except for the last batch under last_batch="partial" and for batches that lost
    samples under on_bad_sample="skip"; then B may be smaller, down to 0.

    Everything but `indices`, `keys`, `valid` and what is said of frames lies on the loader's device. Boxes, masks and keypoints
    are those of `images`, moved by the recipe. Each is None where no sample of the batch has any; where
    some have, the others have none of them: 0 boxes, 0 keypoints, 0 masks, or a mask that is -1 throughout.

    Attributes:
        images: [B, 3, H, W], of clips [B, T, 3, H, W], of the loader's dtype. In [0, 1] unless the recipe normalises; 0 to 255 for
            torch.uint8. With several views it is the first of `views`.
        labels: int64 [B], -1 where the data has no label. Under a recipe that mixes samples float32
            [B, num_classes], the shares of the classes in `images`; all 0 where the data has no label
            (int64 and -1 if neither the recipe nor the data has classes). Of a dataset whose labels are vectors
            float32 [B, K], mixed like the images, or a list of B float32 [Ki] where their lengths differ; see
            `readers.IndexedDataset.label_shape`.
        indices: int64 [B] on the CPU: the samples' indices in the dataset.
        keys: The samples' names, for people.
        valid: bool [B] on the CPU: False in rows that repeat a sample to fill the last batch.
        views: One tensor like `images` for each recipe of Views, whose sizes may differ; a loader of one
            recipe has one view.
        masks: int64 [B, H, W] where each sample has one mask; a list of B int64 [Ni, H, W] where samples
            have numbered ones.
        boxes: B float32 [Ni, 4], in the form that the recipe's BoxParams name: left, top, right, bottom in
            pixels where it has none.
        box_labels: B int64 [Ni]; -1 where the data has no label.
        keypoints: B float32 [Ni, 2], (x, y) in pixels.
        keypoint_labels: B int64 [Ni]; -1 where the data has no label.
        frames: int64 [B, T] on the CPU: which frames of its video each clip is made of, counted from 0 in the
            order of presentation; if a damaged frame was replaced, the one that is shown. None if samples are
            images, as the next three.
        seconds: float64 [B, T] on the CPU: when these frames are shown, in seconds after the video's first.
        videos: The keys of the videos, for people; two videos may have one.
        video_numbers: int64 [B] on the CPU: a number for each video, which all clips of one sample of the
            dataset of videos share.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> batch = loader.peek()
        >>> batch.images.shape, batch.labels.shape, len(batch.keys)
        (torch.Size([8, 3, 64, 64]), torch.Size([8]), 8)
        >>> images, labels = batch
    """

    images: torch.Tensor
    labels: torch.Tensor | list[torch.Tensor]
    indices: torch.Tensor
    keys: list[str]
    valid: torch.Tensor
    views: tuple[torch.Tensor, ...] = ()
    masks: torch.Tensor | list[torch.Tensor] | None = None
    boxes: list[torch.Tensor] | None = None
    box_labels: list[torch.Tensor] | None = None
    keypoints: list[torch.Tensor] | None = None
    keypoint_labels: list[torch.Tensor] | None = None
    frames: torch.Tensor | None = None
    seconds: torch.Tensor | None = None
    videos: list[str] | None = None
    video_numbers: torch.Tensor | None = None

    def __post_init__(self) -> None:
        if not self.views:
            object.__setattr__(self, "views", (self.images,))

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Any]:
        """Give `images` and `labels`, for ``for images, labels in loader``."""
        return iter((self.images, self.labels))

    def __repr__(self) -> str:
        dtype = str(self.images.dtype).removeprefix("torch.")
        shapes = " and ".join(str(list(view.shape)) for view in self.views)
        names = ("masks", "boxes", "keypoints")
        targets = [f"with {name}" for name in names if getattr(self, name) is not None]
        parts = [
            f"images={dtype} {shapes} on {self.images.device}",
            *targets,
            f"valid={int(self.valid.sum())}",
        ]
        return f"Batch({', '.join(parts)})"


@dataclass(slots=True)
class Timings:
    """Seconds spent since the epoch began.

    Read, decode, augment and copy are summed over the threads that do them, so together they may exceed
    the wall clock. On a GPU they count the host's part alone. Wait is what the training loop waited. Compiling our
    own functions, which is done once, is part of none.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> for batch in loader:
        ...     pass
        >>> loader.timings.decode > 0
        True
    """

    read: float = 0.0
    decode: float = 0.0
    augment: float = 0.0
    copy: float = 0.0
    wait: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def __reduce__(self) -> tuple[type["Timings"], tuple[()]]:
        """In another process nothing is spent yet."""
        return Timings, ()

    def reset(self) -> None:
        """Begin a new epoch."""
        with self._lock:
            self.read = self.decode = self.augment = self.copy = self.wait = 0.0

    @contextmanager
    def measure(self, stage: Stage) -> Iterator[None]:
        """Add the duration of the block to a stage; safe from any thread."""
        began = clock()
        try:
            yield
        finally:
            # The clock goes back while this waits if a helper process says that it has compiled.
            self.add(stage, max(0.0, clock() - began))

    def add(self, stage: Stage, seconds: float) -> None:
        """Add a duration to a stage; safe from any thread."""
        with self._lock:
            setattr(self, stage, getattr(self, stage) + seconds)
