"""Average the scores of clips and views per video, for evaluation."""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
import torch.distributed
from numpy.typing import NDArray

from dali_pipes.arguments.values import require_integers, require_one_of, require_positive
from dali_pipes.batch import Batch
from dali_pipes.errors import LoaderError


class VideoScores(NamedTuple):
    """Mean scores of N videos, sorted by key, and for equal keys by `numbers`.

    Attributes:
        videos: The keys of the videos; two videos may share a key.
        numbers: int64 [N], the numbers from `Batch.video_numbers`.
        scores: float64 [N, C], on the CPU.
        labels: int64 [N], -1 if the data has no label.
    """

    videos: list[str]
    numbers: torch.Tensor
    scores: torch.Tensor
    labels: torch.Tensor

    def accuracy(self, top_k: int = 1) -> float:
        """Return the share of labelled videos whose label is among the `top_k` classes with the highest scores.

        NaN if no video has a label. Among equal scores, the smaller class number ranks higher.

        Raises:
            LoaderError: `top_k` is not a number from 1 to C, or a label is not below C.
        """
        num_classes = self.scores.shape[1]
        require_integers(1, num_classes, top_k=top_k)
        largest = int(self.labels.max())
        if largest >= num_classes:
            raise LoaderError(
                f"a video has the label {largest}, but there are scores of {num_classes} classes, from 0 on; give "
                "ViewMean.add the scores of all classes of the dataset"
            )
        highest = self.scores.argsort(dim=1, descending=True, stable=True)[:, :top_k]
        right = (highest == self.labels[:, None]).any(dim=1)
        return float(right[self.labels >= 0].double().mean())


class ViewMean:
    """Averages a model's scores over the clips and views of each video.

    Clips of one video may come in any batches, on any ranks and in any order. Each clip counts once, even if it is
    added several times, and rows that pad the last batch (`batch.valid`) do not count. Scores are summed in float64, so
    their order only affects the last digits. Videos are distinguished by `batch.video_numbers`: two videos with the
    same name in a mixture, or two lines of a list that name the same file, count separately. Memory: C and a few more
    numbers per video.

    Args:
        num_clips: Number of clips that each video should have, as in `Clips(clips_per_video=...)`; None if videos differ.
        average: "softmax" averages the probabilities, like SlowFast and most others; "logits" averages the scores themselves.

    Example:
        >>> clips = Clips(open_dataset("videos/"), num_frames=4, stride=2, sampling="uniform", clips_per_video=3)
        >>> mean = ViewMean(num_clips=3)
        >>> for batch in Loader.eval(clips, Recipe.preset("video_test", size=32), batch_size=2):
        ...     mean.add(batch, [torch.zeros(len(view), 2) for view in batch.views])   # scores of your model
        >>> mean.scores().accuracy()
        0.5
    """

    def __init__(
        self, *, num_clips: int | None = None, average: Literal["softmax", "logits"] = "softmax"
    ) -> None:
        require_one_of("average", average, ("softmax", "logits"))
        if num_clips is not None:
            require_positive(num_clips=num_clips)
        self.num_clips = num_clips
        self._average = average
        self._videos: dict[int, _Video] = {}

    def __len__(self) -> int:
        """Return the number of videos so far."""
        return len(self._videos)

    def add(self, batch: Batch, scores: torch.Tensor | Sequence[torch.Tensor]) -> None:
        """Add the scores of a batch.

        Args:
            batch: A batch of B clips.
            scores: [B, C] logits, or one such tensor per view.

        Raises:
            LoaderError: The batch has no clips, or the scores do not fit the batch.
        """
        views = [scores] if isinstance(scores, torch.Tensor) else list(scores)
        if batch.videos is None or batch.video_numbers is None:
            raise LoaderError(
                "the batch has images, not clips; give the loader Clips(dataset, ...)"
            )
        if not views or any(view.ndim != 2 or len(view) != len(batch) for view in views):
            shapes = [list(view.shape) for view in views]
            raise LoaderError(
                f"scores must be [{len(batch)}, C], or a list of such tensors with one for each view, "
                f"got {shapes}"
            )
        # One copy to the host per batch.
        logits = torch.stack([view.detach().double() for view in views])
        each = logits.softmax(dim=2) if self._average == "softmax" else logits
        means = each.mean(dim=0).cpu().numpy()
        classes = isinstance(batch.labels, torch.Tensor) and batch.labels.ndim == 1
        labels = batch.labels.tolist() if classes else [-1] * len(batch)  # type: ignore[union-attr]
        numbers, clips = batch.video_numbers.tolist(), batch.indices.tolist()
        for row in torch.nonzero(batch.valid).flatten().tolist():
            new = _Video(batch.videos[row], labels[row], np.zeros_like(means[row]))
            video = self._videos.setdefault(numbers[row], new)
            if clips[row] not in video.clips:
                video.total += means[row]
                video.clips.add(clips[row])

    def merge(self, other: Self) -> None:
        """Add the scores of another ViewMean. A clip that both contain counts once.

        Raises:
            LoaderError: Of a video, both have some clips in common, but neither has all clips of the other.
        """
        self._merge(other._videos)

    def gather(self) -> None:
        """Add the scores of all ranks of torch.distributed; every rank must call it. Does nothing in a single process."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return
        everything: list[dict[int, _Video]] = [{}] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(everything, self._videos)
        self._videos = {}
        for videos in everything:
            self._merge(videos)

    def _merge(self, videos: "Mapping[int, _Video]") -> None:
        for number, theirs in videos.items():
            mine = self._videos.get(number)
            if mine is None or theirs.clips >= mine.clips:
                self._videos[number] = deepcopy(theirs)
            elif not mine.clips & theirs.clips:
                mine.total += theirs.total
                mine.clips |= theirs.clips
            elif not mine.clips >= theirs.clips:
                raise LoaderError(
                    f"video {mine.key}: both have its clips {sorted(mine.clips & theirs.clips)[:4]}, whose scores "
                    "cannot be separated from those of its other clips; merge what ranks of one loader counted, with "
                    'on_bad_sample="skip", because substitutes come twice'
                )

    def scores(self) -> VideoScores:
        """Return the mean score of each video over the clips that were added; see `missing` for missing clips.

        Raises:
            LoaderError: No scores were added yet.
        """
        if not self._videos:
            raise LoaderError("no scores were added yet; call add(batch, scores) for each batch")
        numbers = sorted(self._videos, key=lambda number: (self._videos[number].key, number))
        videos = [self._videos[number] for number in numbers]
        means = np.stack([video.total / len(video.clips) for video in videos])
        labels = torch.tensor([video.label for video in videos])
        keys = [video.key for video in videos]
        return VideoScores(keys, torch.tensor(numbers), torch.from_numpy(means), labels)

    def missing(self) -> dict[str, int]:
        """Return by video key how many clips are missing, for videos with fewer than `num_clips` clips.

        Raises:
            LoaderError: `num_clips` was not given.
        """
        if self.num_clips is None:
            raise LoaderError(
                "num_clips is not known; give ViewMean(num_clips=...) to list what is missing"
            )
        lacks = Counter[str]()
        for video in self._videos.values():
            lacks[video.key] += max(self.num_clips - len(video.clips), 0)
        return {key: lack for key, lack in sorted(lacks.items()) if lack > 0}


@dataclass(slots=True)
class _Video:
    """The key and label of a video, the sum of its clips' scores, and the indices of these clips."""

    key: str
    label: int
    total: NDArray[np.float64]
    clips: set[int] = field(default_factory=set)
