"""What the loader hands over: a batch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import torch

_ON_DEVICE = ("labels", "masks", "boxes", "box_labels", "keypoints", "keypoint_labels")


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's samples on one rank, B of them.

    B is `batch_size`, except for the last batch under last_batch="partial" and for batches that lost
    samples under on_bad_sample="skip"; then B may be smaller, down to 0.

    Everything but `indices`, `keys`, `valid` and what is said of frames lies on the loader's device; on a GPU it is ready for the
    stream that was the current one in `next()`, see `record_stream` for others. Boxes, masks and keypoints
    are those of `images`, moved by the recipe. Each is None where no sample of the batch has any; where
    some have, the others have none of them: 0 boxes, 0 keypoints, 0 masks, or a mask that is -1 throughout.

    Attributes:
        images: [B, 3, H, W], of clips [B, T, 3, H, W], of the loader's dtype; as many channels as it was asked for. In [0, 1] unless the recipe normalises; 0 to 255 for
            torch.uint8. With several views it is the first of `views`.
        labels: int64 [B], -1 where the data has no label. Under a recipe that mixes samples float32
            [B, num_classes], the shares of the classes in `images`; a sample without label is refused unless it has boxes,
            masks or keypoints, and then all 0 (int64 and -1 if neither the recipe nor the data has classes). Of a dataset whose labels are vectors
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
        fields: What ``Loader(fields=...)`` asked for, by name: a tensor [B, ...] on the loader's device where type
            and shape are known, else a list of B values. Where samples have several images these are among them,
            [B, C, H, W] each, and maps as well, float32 [B, 1 or 2, H, W].
        camera_columns: Of datasets with named cameras (LeRobot), which of the T pictures are each one's; see
            `cameras`.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> batch = loader.peek()
        >>> batch.images.shape, batch.labels.shape, len(batch.keys)
        (torch.Size([8, 3, 64, 64]), torch.Size([8]), 8)
        >>> images, labels = batch
        >>> batch["images"] is images, sorted(batch.to_dict())
        (True, ['images', 'indices', 'keys', 'labels', 'valid'])
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
    fields: Mapping[str, torch.Tensor | list[Any]] = field(default_factory=dict)
    camera_columns: Mapping[str, slice] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.views:
            object.__setattr__(self, "views", (self.images,))

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Any]:
        """Give `images` and `labels`, for ``for images, labels in loader``."""
        return iter((self.images, self.labels))

    @property
    def cameras(self) -> dict[str, torch.Tensor]:
        """The pictures of each camera, [B, T, 3, H, W], parts of `images`; empty where the data names no cameras."""
        return {name: self.images[:, columns] for name, columns in self.camera_columns.items()}

    def __getitem__(self, name: str) -> Any:
        """Return what `to_dict` has under a name, such as ``batch["images"]`` or a further field.

        Raises:
            KeyError: There is nothing of that name.
        """
        there = self.to_dict()
        if not isinstance(name, str) or name not in there:
            raise KeyError(f"a batch has no {name!r}; it has {', '.join(there)}")
        return there[name]

    def __contains__(self, name: object) -> bool:
        return name in self.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """Return everything that the batch has, by name, cameras and further fields among it; `views` where there are several."""
        further = ("fields", "camera_columns")
        named = {
            own.name: getattr(self, own.name) for own in fields(self) if own.name not in further
        }
        if len(self.views) == 1:
            del named["views"]
        there = {name: one for name, one in named.items() if one is not None}
        return {**there, **self.cameras, **self.fields}

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """Return the batch with all that lies on the loader's device on another one; the rest stays on the CPU."""
        return self._with(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """Return the batch with all that would go to a GPU in pinned memory, for ``to(..., non_blocking=True)``."""
        return self._with(lambda tensor: tensor.pin_memory())

    def record_stream(self, stream: Any) -> None:
        """Say that a stream reads the batch which is not the one that was current in `next()`, for each tensor on a GPU.

        The stream waits for the batch by ``stream.wait_stream(current)``, called after `next()`; this keeps the memory of what is
        dropped until the stream is through with what it was asked for before, as `torch.Tensor.record_stream` does.

        Args:
            stream: A `torch.cuda.Stream` of the loader's device; for a batch on the CPU it is not looked at.

        Example:
            >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
            >>> batch = loader.peek()
            >>> if batch.images.is_cuda:
            ...     mine = torch.cuda.Stream()
            ...     mine.wait_stream(torch.cuda.current_stream())
            ...     batch.record_stream(mine)
        """

        def record(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.is_cuda:
                tensor.record_stream(stream)
            return tensor

        self._with(record)

    def _with(self, convert: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        """Return the batch with everything converted that is not for the CPU alone."""

        def converted(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return convert(value)
            return [convert(each) for each in value] if isinstance(value, list) else value

        views = tuple(map(convert, self.views))
        moved = {name: converted(getattr(self, name)) for name in _ON_DEVICE}
        further = {
            name: convert(value) if isinstance(value, torch.Tensor) else value
            for name, value in self.fields.items()
        }
        return replace(self, images=views[0], views=views, fields=further, **moved)

    def __repr__(self) -> str:
        dtype = str(self.images.dtype).removeprefix("torch.")
        shapes = " and ".join(str(list(view.shape)) for view in self.views)
        names = ("masks", "boxes", "keypoints")
        targets = [f"with {name}" for name in names if getattr(self, name) is not None]
        targets += [f"with {name}" for name in self.fields]
        parts = [
            f"images={dtype} {shapes} on {self.images.device}",
            *targets,
            f"valid={int(self.valid.sum())}",
        ]
        return f"Batch({', '.join(parts)})"
