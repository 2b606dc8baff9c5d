"""Where the loops of a loader stand: each is an epoch, or the rest of one that a loaded state began."""

import warnings

from dali_pipes.schedule import Schedule


class Epochs:
    """Counts the epochs of a loader, and what was handed over of the present one.

    Attributes:
        epoch: The epoch of the present loop, or of the first one, or where a loaded state goes on.
        consumed: Positions of that epoch that all ranks together have received.
        began: Whether there was a loop since the loader was made or moved.
        ended: The epoch at whose end the loaded state was taken.
        loop: The number of the latest loop, the only one that counts what it hands over.
    """

    def __init__(self) -> None:
        self.epoch = self.consumed = self.loop = 0
        self.began = False
        self.ended: int | None = None
        self._num_taken = 0
        self._warned = False

    def upcoming(self, schedule: Schedule) -> tuple[int, int]:
        """Epoch and consumed positions of the next loop."""
        if self.began or schedule.num_steps(self.consumed) <= 0:
            return self.epoch + 1, 0
        return self.epoch, self.consumed

    def begin(self, schedule: Schedule) -> int:
        """Begin the next loop; returns its number."""
        self.epoch, self.consumed = self.upcoming(schedule)
        self.began, self.ended, self._num_taken = True, None, 0
        self.loop += 1
        return self.loop

    def move_to(self, epoch: int, consumed: int) -> None:
        """Let the next loop go on elsewhere."""
        self.epoch, self.consumed, self.began, self.ended = epoch, consumed, False, None
        self.loop += 1  # a loop that is still under way has no say any more

    def count(self, consumed: int) -> None:
        """Count a step of the latest loop."""
        self.consumed = consumed
        self._num_taken += 1

    def warn_of_a_short_loop(self, length: int) -> None:
        """Say once that a look at the first batch of an epoch of `length` positions has used it up."""
        if self._num_taken == 1 and self.consumed < length and not self._warned:
            self._warned = True
            warnings.warn(
                f"the loop before this one was left after its first batch, and every loop is an epoch, so epoch "
                f"{self.epoch} is over and this is epoch {self.epoch + 1}; to look at a batch use loader.peek(), to go "
                f"on within an epoch keep the iterator",
                stacklevel=3,
            )
