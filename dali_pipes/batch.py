"""Define Batch, the samples of one step as a Loader yields them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import torch

from gpu_aug.targets.targets import BoxParams

# Attributes besides images that are on the loader's device, because a training step uses them there.
_ON_DEVICE = ("labels", "masks", "boxes", "box_labels", "keypoints", "keypoint_labels")


@dataclass(frozen=True, slots=True)
class Batch:
    """The samples of one step on one rank, B of them.

    B is `batch_size`, except for the last batch with last_batch="partial" and for batches that lost samples with
    on_bad_sample="skip"; then B may be smaller, down to 0.

    Everything except `indices`, `dataset_index`, `keys`, `valid` and the data of frames is on the loader's device. On a GPU it is ready
    for the stream that was current in `next()`; see `record_stream` for other streams. Boxes, masks and keypoints
    belong to `images` and are moved by the recipe. Each is None if no sample of the batch has any. If only some have,
    the others have 0 boxes, 0 keypoints, 0 masks, or a mask that is -1 everywhere.

    Attributes:
        images: [B, 3, H, W], for clips [B, T, 3, H, W], of the loader's dtype; another number of channels with
            ImageOptions(channels=...). Values are in [0, 1] unless the recipe normalises, and 0 to 255 for torch.uint8.
            With several views it is the first of `views`; with CameraRecipes the pictures of the first group.
        labels: int64 [B], -1 if the data has no label. With a recipe that mixes samples float32 [B, num_classes], the
            shares of the classes in `images`; a sample without a label is an error unless it has boxes, masks or
            keypoints, and then its shares are 0 (int64 and -1 if neither the recipe nor the data has classes). For a
            dataset whose labels are vectors float32 [B, K], mixed like the images, or a list of B float32 [Ki] if their
            lengths differ; see `readers.IndexedDataset.label_shape`.
        indices: int64 [B] on the CPU: the samples' indices in the dataset.
        keys: The samples' names, for people.
        valid: bool [B] on the CPU: False in rows that repeat a sample to fill the last batch.
        views: One tensor like `images` for each recipe of Views or each group of CameraRecipes, whose sizes may differ; one
            view if the loader has one recipe.
        masks: int64 [B, H, W] if each sample has one mask; a list of B int64 [Ni, H, W] if samples have numbered masks.
        boxes: B float32 [Ni, 4], for oriented boxes [Ni, 5] or [Ni, 8], in the form of the recipe's BoxParams; without these
            left, top, right, bottom in pixels. See `bounding_boxes` for torchvision's tensors.
        box_labels: B int64 [Ni]; -1 if the data has no label.
        keypoints: B float32 [Ni, 2], (x, y) in pixels. Other lists in a field ``json``, such as ``keypoint_visibility``, keep
            the rows of the data: they match these rows only with KeypointParams(remove_invisible=False) in a recipe that
            mixes no images. Where flip_pairs exchanges rows (without labels), row k of the list belongs to the partner of k.
        keypoint_labels: B int64 [Ni]; -1 if the data has no label.
        frames: int64 [B, T] on the CPU: numbers of each clip's frames in its video, from 0 in presentation order; a
            damaged frame has the number of its replacement, and -1 stands for a camera that the sample's dataset lacks. None
            if samples are images; so are `seconds`, `videos` and `video_numbers`.
        seconds: float64 [B, T] on the CPU: presentation times of these frames, in seconds after the first frame of the video;
            0 for a camera that the sample's dataset lacks.
        videos: The keys of the videos, for people; two videos may share a key.
        video_numbers: int64 [B] on the CPU: a number for each video; all clips of one sample of the dataset of videos share it.
        fields: The fields of ``Loader(fields=...)`` by name: a tensor [B, ...] on the loader's device if type and shape
            are known, else a list of B values. It also has the images of samples with several images, [B, C, H, W]
            each, and the maps, float32 [B, 1 or 2, H, W]; of a robot's depth cameras float32 [B, T, 1, H, W], in metres.
        camera_columns: For datasets with named cameras (LeRobot), the range of each camera's pictures in `frames` and `seconds`.
        box_params: The form of `boxes`; None if there are none.
        dataset_index: int64 [B] on the CPU: for a mixture, the position of each sample's dataset among `Mixture.datasets`; else None.
        camera_groups: For each view, the cameras whose pictures it has one after the other; see `cameras`.

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
    box_params: BoxParams | None = None
    dataset_index: torch.Tensor | None = None
    camera_groups: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if not self.views:
            object.__setattr__(self, "views", (self.images,))

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Any]:
        """Yield `images` and `labels`, for ``for images, labels in loader``."""
        return iter((self.images, self.labels))

    @property
    def cameras(self) -> dict[str, torch.Tensor]:
        """The pictures of each camera, [B, T, 3, H, W], as parts of the first of `views` that shows it.

        T is the count of the camera's pictures. It is empty if the data names no cameras. The pictures are black before the
        recipe's batch stage where `camera_mask` is False.
        """
        parts: dict[str, torch.Tensor] = {}
        for view, group in zip((self.images, *self.views[1:]), self.camera_groups, strict=False):
            columns = [self.camera_columns[name] for name in group]
            lengths = [one.stop - one.start for one in columns]
            parts = dict(zip(group, torch.split(view, lengths, dim=1), strict=True)) | parts
        return {name: parts[name] for name in self.camera_columns}

    @property
    def camera_mask(self) -> dict[str, torch.Tensor]:
        """For each camera, which samples have it: bool [B] on the CPU, False if the sample's dataset lacks the camera."""
        if self.frames is None:
            return {}
        frames, columns = self.frames, self.camera_columns
        return {name: (frames[:, own] >= 0).all(1) for name, own in columns.items()}

    def bounding_boxes(self) -> list[Any] | None:
        """Return `boxes` as `torchvision.tv_tensors.BoundingBoxes`, one per sample; None without boxes.

        They have the shapes of `boxes`, are on their device, in pixels (shares of the image are multiplied by its size) and in the
        format of the recipe's BoxParams. Their ``canvas_size`` is the height and width of `images`.

        Example:
            >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
            >>> loader.peek().bounding_boxes() is None
            True
        """
        from torchvision.tv_tensors import BoundingBoxes

        if self.boxes is None or self.box_params is None:
            return None
        height, width = self.images.shape[-2:]
        form = self.box_params.format.upper()
        return [
            BoundingBoxes(
                # x and y take turns in all formats that may be normalized.
                boxes * boxes.new_tensor([width, height] * (boxes.shape[1] // 2))
                if self.box_params.normalized
                else boxes,
                format=form,
                canvas_size=(height, width),
            )
            for boxes in self.boxes
        ]

    def __getitem__(self, name: str) -> Any:
        """Return an entry of `to_dict`, such as ``batch["images"]`` or a further field.

        Raises:
            KeyError: There is no entry with this name.
        """
        entries = self.to_dict()
        if not isinstance(name, str) or name not in entries:
            raise KeyError(f"a batch has no {name!r}; it has {', '.join(entries)}")
        return entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """Return all entries by name, including cameras and further fields; `views` only if there are several."""
        left_out = {"fields", "camera_columns", "camera_groups", "box_params"} | (
            {"views"} if len(self.views) == 1 else set()
        )
        named = {own.name: getattr(self, own.name) for own in fields(self)}
        entries = {
            name: value
            for name, value in named.items()
            if value is not None and name not in left_out
        }
        if self.camera_columns:
            entries["camera_mask"] = self.camera_mask
        return {**entries, **self.cameras, **self.fields}

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """Return the batch with all tensors of the loader's device on another device; the rest stays on the CPU."""
        return self._with(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """Return the batch with all tensors that `to` moves in pinned memory, for ``to(..., non_blocking=True)``."""
        return self._with(lambda tensor: tensor.pin_memory())

    def record_stream(self, stream: Any) -> None:
        """Keep the memory of the batch until a CUDA stream that was not current in `next()` has used it.

        Calls `torch.Tensor.record_stream` for every tensor on a GPU. The stream must wait for the batch: call
        ``stream.wait_stream(current)`` after `next()`.

        Args:
            stream: A `torch.cuda.Stream` of the loader's device; ignored for a batch on the CPU.

        Example:
            >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
            >>> batch = loader.peek()
            >>> if batch.images.is_cuda:
            ...     mine = torch.cuda.Stream()
            ...     mine.wait_stream(torch.cuda.current_stream())
            ...     batch.record_stream(mine)
        """

        def record(tensor: torch.Tensor) -> torch.Tensor:
            tensor.record_stream(stream)
            return tensor

        if self.images.is_cuda:
            self._with(record)

    def _with(self, convert: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        """Return the batch with every tensor of the loader's device converted."""

        def converted(value: Any) -> Any:
            if isinstance(value, list):
                return [convert(tensor) for tensor in value]
            return convert(value) if isinstance(value, torch.Tensor) else value

        views = tuple(map(convert, self.views))
        moved = {name: converted(getattr(self, name)) for name in _ON_DEVICE}
        # Lists of further fields hold strings and results of users' functions, on the CPU.
        further = {
            name: convert(value) if isinstance(value, torch.Tensor) else value
            for name, value in self.fields.items()
        }
        return replace(self, images=views[0], views=views, fields=further, **moved)

    def __repr__(self) -> str:
        dtype = str(self.images.dtype).removeprefix("torch.")
        shapes = " and ".join(str(list(view.shape)) for view in self.views)
        names = ("masks", "boxes", "keypoints", *self.fields)
        targets = [f"with {name}" for name in names if name in self]
        parts = [
            f"images={dtype} {shapes} on {self.images.device}",
            *targets,
            f"valid={int(self.valid.sum())}",
        ]
        return f"Batch({', '.join(parts)})"
