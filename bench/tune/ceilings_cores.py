"""How many cores this process has, and how many it gets."""

from dataclasses import dataclass

TAKEN = 0.8
"""Others take the cores where a process that wants all of them gets less than this share."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Cores, nominal and real.

    Attributes:
        usable: Cores that this process may use.
        got: Cores that its threads got when as many of them as there are cores had work all the time: their CPU
            seconds divided by the seconds that passed.
        others: Cores that were busy with other processes meanwhile; None where the system does not tell.
    """

    usable: int
    got: float
    others: float | None = None

    @property
    def taken(self) -> bool:
        """Whether somebody else takes a noticeable part of them."""
        return self.got < TAKEN * self.usable
