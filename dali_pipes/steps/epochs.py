"""The position of a loader in its run: each loop is an epoch, or the rest of the epoch of a loaded state."""

import warnings
import weakref
from collections.abc import Generator
from typing import Any

from dali_pipes.steps.schedule import Consumed, total
from dali_pipes.steps.streams.steps import AnySteps


class Epochs:
    """Counts the epochs of a loader, and the positions of the current epoch whose samples the user received.

    Attributes:
        epoch: Epoch of the current loop. Before any loop: epoch of the first loop, or the epoch in which a loaded state resumes.
        consumed: Count of that epoch's positions that all ranks together have received; with buckets, one count per
            bucket.
        began: Whether a loop has started since construction or `load_state_dict`/`set_epoch`.
        ended: The epoch that was complete when the loaded state was taken; None if no epoch was.
        loaded: Whether a state was loaded; after that the loader counts its epochs by itself.
        loop: Index of the latest loop; only steps of this loop are counted.
    """

    def __init__(self) -> None:
        self.epoch = self.loop = 0
        self.consumed: Consumed = 0
        self.began = self.loaded = False
        self.ended: int | None = None
        self._from_end = False
        self._num_taken = 0
        self._warned = False
        self._generator: weakref.ref[Generator[Any]] | None = None

    def upcoming(self, steps: AnySteps) -> tuple[int, Consumed]:
        """Return epoch and consumed positions of the next loop."""
        if self.began or steps.num_steps(self.consumed) <= 0:
            return self.epoch + 1, 0
        return self.epoch, self.consumed

    def begin(self, steps: AnySteps) -> int:
        """Start the next loop and return the loop's index."""
        self.epoch, self.consumed = self.upcoming(steps)
        self._from_end = self.ended is not None
        self.began, self.ended, self._num_taken = True, None, 0
        self.loop += 1
        return self.loop

    def set_loop(self, loop: Generator[Any]) -> None:
        """Store a weak reference to the generator of the latest loop, so that a loop that the user drops can end."""
        self._generator = weakref.ref(loop)

    def running_loop(self) -> Generator[Any] | None:
        """Return the generator of the latest loop; None if it is finished or was dropped."""
        loop: Any = None if self._generator is None else self._generator()
        return None if loop is None or loop.gi_frame is None else loop

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next loop to a trainer's epoch, unless a state was loaded; see `Loader.batch_sampler`.

        Lightning does not load the state of a checkpoint from the end of an epoch, so its epoch number alone says where
        to resume. After a state was loaded, the number is ignored: Lightning's is one too high after `max_steps` ended
        an epoch, and that of transformers is wrong if the number of steps per epoch has changed.
        """
        if not self.loaded:
            self.choose(epoch)
        elif self._from_end and self._num_taken == 1:
            # With max_steps, Lightning's Trainer takes one more batch of an epoch that was complete when it was saved,
            # and then starts the next epoch: the loop of that batch is resumed.
            self.move_to(self.epoch, self.consumed)

    def move_to(self, epoch: int, consumed: Consumed, ended: int | None = None) -> None:
        """Set the epoch and position of the next loop, for instance from a loaded state.

        Args:
            epoch: Epoch of the next loop.
            consumed: Count of that epoch's positions that all ranks together have received.
            ended: The epoch that was complete when the state was taken; None if no epoch was.
        """
        self.epoch, self.consumed, self.began, self.ended = epoch, consumed, False, ended
        self.loop += 1  # steps of a loop that still runs are not counted any more

    def choose(self, epoch: int) -> None:
        """Set the epoch of the next loop; if a loaded state lies inside this epoch, keep the state's position."""
        if epoch == self.ended:
            warnings.warn(
                f"the loaded state stands at the end of epoch {epoch}, so set_epoch({epoch}) repeats that epoch; "
                f"to continue use loader.epoch, which is {self.epoch}",
                stacklevel=3,
            )
        if epoch != self.epoch or self.began:
            self.move_to(epoch, 0)

    def count(self, consumed: Consumed) -> None:
        """Count a step of the latest loop that the user received.

        Args:
            consumed: Count of the epoch's positions that all ranks together have received after this step.
        """
        self.consumed = consumed
        self._num_taken += 1

    def warn_of_a_short_loop(self, length: int) -> None:
        """Warn once if the previous loop was left after the first batch of an epoch of `length` positions."""
        was_left = self.began and self.running_loop() is None and self._num_taken == 1
        if was_left and total(self.consumed) < length and not self._warned:
            self._warned = True
            warnings.warn(
                f"the loop before this one was left after its first batch, and every loop is an epoch, so epoch "
                f"{self.epoch} is over and this is epoch {self.epoch + 1}; to look at a batch use loader.peek(), to "
                f"continue within an epoch keep the iterator",
                stacklevel=4,
            )
