"""The position of a loader in its run: each loop is an epoch, or the rest of one that a loaded state began."""

import warnings
import weakref
from collections.abc import Generator
from typing import Any

from dali_pipes.steps.schedule import Consumed, total
from dali_pipes.steps.streams.steps import AnySteps


class Epochs:
    """Counts the epochs of a loader, and the positions of the current one that the user received.

    Attributes:
        epoch: Epoch of the current loop; before it that of the first loop, or the one in which a loaded state resumes.
        consumed: Positions of that epoch that all ranks together have received.
        began: Whether a loop began since construction or `load_state_dict`/`set_epoch`.
        ended: The epoch at whose end the loaded state was taken; None otherwise.
        loaded: Whether a state was loaded, after which the loader counts its epochs by itself.
        loop: Number of the latest loop, the only one whose steps are counted.
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
        """Begin the next loop and return its number."""
        self.epoch, self.consumed = self.upcoming(steps)
        self._from_end = self.ended is not None
        self.began, self.ended, self._num_taken = True, None, 0
        self.loop += 1
        return self.loop

    def set_loop(self, loop: Generator[Any]) -> None:
        """Set the generator of the latest loop, by a weak reference: a loop that the user dropped must end."""
        self._generator = weakref.ref(loop)

    def running_loop(self) -> Generator[Any] | None:
        """Return the latest loop unless it is finished or was dropped."""
        loop: Any = None if self._generator is None else self._generator()
        return None if loop is None or loop.gi_frame is None else loop

    def set_epoch(self, epoch: int) -> None:
        """Make the next loop this epoch of a trainer, unless a state was loaded; see `Loader.batch_sampler`.

        Lightning loads no state from the end of an epoch, so that only its number tells where to resume. After a load
        the number is ignored: after `max_steps` ended an epoch Lightning's is one too high, and that of transformers
        differs if an epoch now has another number of steps.
        """
        if not self.loaded:
            self.choose(epoch)
        elif self._from_end and self._num_taken == 1:
            # Under max_steps Lightning's Trainer takes one more batch for an epoch that had ended when it was saved,
            # and then begins the next: the loop that this batch began is resumed.
            self.move_to(self.epoch, self.consumed)

    def move_to(self, epoch: int, consumed: Consumed, ended: int | None = None) -> None:
        """Let the next loop resume at a position; `ended` is the epoch at whose end the loaded state was taken."""
        self.epoch, self.consumed, self.began, self.ended = epoch, consumed, False, ended
        self.loop += 1  # the steps of a loop that still runs are no longer counted

    def choose(self, epoch: int) -> None:
        """Make the next loop this epoch; the position within it, from a loaded state, stays."""
        if epoch == self.ended:
            warnings.warn(
                f"the loaded state stands at the end of epoch {epoch}, so set_epoch({epoch}) repeats that epoch; "
                f"to continue use loader.epoch, which is {self.epoch}",
                stacklevel=3,
            )
        if epoch != self.epoch or self.began:
            self.move_to(epoch, 0)

    def count(self, consumed: Consumed) -> None:
        """Count a step that the user received from the latest loop."""
        self.consumed = consumed
        self._num_taken += 1

    def warn_of_a_short_loop(self, length: int) -> None:
        """Warn once if the loop before was left after the first batch of an epoch of `length` positions."""
        was_left = self.began and self.running_loop() is None and self._num_taken == 1
        if was_left and total(self.consumed) < length and not self._warned:
            self._warned = True
            warnings.warn(
                f"the loop before this one was left after its first batch, and every loop is an epoch, so epoch "
                f"{self.epoch} is over and this is epoch {self.epoch + 1}; to look at a batch use loader.peek(), to "
                f"continue within an epoch keep the iterator",
                stacklevel=4,
            )
