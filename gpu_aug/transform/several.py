"""Several recipes as one callable: Views, which give several images of a sample, and Schedule, with a recipe for each epoch."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import torch

from gpu_aug.errors import RecipeError
from gpu_aug.schedule import Schedule
from gpu_aug.transform.transform import Transform
from gpu_aug.views import Views


class ViewsTransform:
    """Views as a callable like `Transform`; `Views.transform` makes it.

    Every call returns a tuple with the result of each view, in order: a tuple of images for an image, of samples for a sample,
    of batches for a batch. `collate` returns a tuple of the views' batches in place of one batch; labels are mixed as in the
    first view. The draws are those of a Loader with this seed and index.

    Args:
        views: The views.
        seed: Seed; see `Transform`.
        options: Arguments ``engine`` and ``exact`` of `Transform`.

    Raises:
        RecipeError: A view after the first mixes images, or the recipes move frames in time, which would have to be drawn once
            for all views.

    Example:
        >>> views = Views([Recipe([RandomCrop(32)]), Recipe([RandomCrop(16)])])
        >>> [image.shape for image in views.transform(seed=0)(np.zeros((48, 64, 3), np.uint8))]
        [(32, 32, 3), (16, 16, 3)]
    """

    def __init__(self, views: Views, seed: int | None = None, **options: Any) -> None:
        if any(recipe.group > 1 for recipe in views.recipes[1:]):
            raise RecipeError(
                "a view after the first mixes images, but there is one set of labels: mix in the first view alone"
            )
        if views.recipes[0].temporal_operations:
            raise RecipeError(
                "transform cannot move the frames of clips alike in all views: call gpu_aug.apply(views, samples)"
            )
        self.views = views
        self.transforms = [
            Transform(recipe, seed, **options, view=number)
            for number, recipe in enumerate(views.recipes)
        ]

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch; see `Transform.set_epoch`."""
        for transform in self.transforms:
            transform.set_epoch(epoch)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return a tuple of what `Transform` returns, one for each view."""
        return tuple(transform(*args, **kwargs) for transform in self.transforms)

    def collate(self, items: Sequence[Any]) -> Any:
        """Return what `Transform.collate` returns, with a tuple of batches in place of the batch of images."""
        made = [transform.collate(items) for transform in self.transforms]
        if isinstance(made[0], list):
            return [tuple(one[0] for one in made), *made[0][1:]]
        return tuple(made)


class ScheduleTransform:
    """A schedule as a callable like `Transform`; `Schedule.transform` makes it.

    Call ``set_epoch(epoch)`` before each loop over the data. It also reaches workers of a DataLoader that outlive an
    epoch (``persistent_workers=True``).

    Args:
        schedule: The schedule.
        seed: Seed; see `Transform`.
        options: Arguments ``engine`` and ``exact`` of `Transform`.

    Raises:
        RecipeError: A call comes before ``set_epoch``, and the schedule has several recipes.

    Example:
        >>> schedule = Schedule({0: Recipe([RandomCrop(32)]), 5: Recipe([RandomCrop(16)])})
        >>> transform = schedule.transform(seed=0)
        >>> transform.set_epoch(7)
        >>> transform(np.zeros((48, 64, 3), np.uint8)).shape
        (16, 16, 3)
    """

    def __init__(self, schedule: Schedule, seed: int | None = None, **options: Any) -> None:
        self.schedule = schedule
        self.transforms = [recipe.transform(seed, **options) for recipe in schedule.recipes]
        # Shared memory: a process that was started in an earlier epoch sees the number change.
        self._epoch = torch.full((), -1 if len(schedule) > 1 else 0).share_memory_()  # type: ignore[no-untyped-call]
        self._begun = self._epoch.item()

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch: its recipe is used from now on, and calls are counted from 0."""
        self.transforms[0].set_epoch(epoch)  # checks the epoch
        self._epoch.fill_(epoch)
        self._begun = -1

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the transform of the current epoch's recipe returns."""
        return self._current()(*args, **kwargs)

    def collate(self, items: Sequence[Any]) -> Any:
        """Return the batch that the transform of the current epoch's recipe makes of items; see `Transform.collate`."""
        return self._current().collate(items)

    def _current(self) -> Transform | ViewsTransform:
        epoch = int(self._epoch.item())
        if epoch < 0:
            raise RecipeError(
                "the transform of a schedule must know the epoch, got none: call transform.set_epoch(epoch) before each "
                "loop over the data"
            )
        transform: Transform | ViewsTransform = self.transforms[
            bisect_right(self.schedule.first_epochs, epoch) - 1
        ]
        if epoch != self._begun:
            transform.set_epoch(epoch)
            self._begun = epoch
        return transform
