"""What all datasets of this package can do beyond being fetched from: tell columns, and be narrowed down."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from readers.order import AnyOrder, Shuffle, make_order
from readers.plural import counted
from readers.sample import BadSample, ReadersError, Sample

if TYPE_CHECKING:
    from readers.mixture import Balanced
    from readers.selection import Subset

ColumnName = Literal["label", "height", "width", "num_bytes"]
COLUMNS: tuple[ColumnName, ...] = ("label", "height", "width", "num_bytes")


class SelectionError(ReadersError):
    """A selection, split or mixture that cannot be made; the text says what can.

    Example:
        >>> open_dataset("photos/").where("label == 'horse'")
        Traceback (most recent call last):
        SelectionError: ...
    """


class IndexedDataset(ABC):
    """A `readers.Dataset` whose samples can be selected.

    Selections are datasets, too, with indices of their own, the keys and class names of what they were
    taken from, and another fingerprint, so that a run is resumed on the same selection alone. Nothing is
    copied; the selections can be selected from again.

    Example:
        >>> photos = open_dataset("photos/")
        >>> train, val = photos.split(0.75, 0.25, seed=0)
        >>> len(train), len(val)
        (27, 9)
        >>> photos.column("label")[:3]
        array([0, 0, 0])
    """

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """See `Dataset.fingerprint`."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class number; empty where the data does not name its classes."""
        return ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What `readers.open_dataset` warns of: sentences about choices that may not be what was meant."""
        return ()

    @abstractmethod
    def __len__(self) -> int: ...

    def __repr__(self) -> str:
        """Its kind, and how many samples and classes it has."""
        classes = f", {counted(len(self.class_names), 'class')}" if self.class_names else ""
        return f"{type(self).__name__}({counted(len(self), 'sample')}{classes})"

    @abstractmethod
    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """See `Dataset.fetch`."""

    @property
    def block_size(self) -> int:
        """How many neighbouring samples are best read together; the unit of the block shuffle."""
        return 256

    @abstractmethod
    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """One number for every sample, int64 [len].

        ``label`` is -1 and ``height`` and ``width`` are 0 where the data does not say; ``num_bytes`` is
        the size of all fields together, -1 where it is not known without reading.
        """

    def verify(self) -> Iterator[BadSample]:
        """Read everything and compare the format's own checksums, if it has any.

        Yields:
            Every sample that is not as it was written, as far as they tell.
        """
        yield from ()

    def order(
        self, *, seed: int = 0, shuffle: Shuffle = "global", shuffle_window: int | None = None
    ) -> AnyOrder:
        """The order of the samples in every epoch.

        Args:
            seed: >= 0.
            shuffle: As for `readers.Order`.
            shuffle_window: For "block", how many samples the open blocks hold together; None is 4096, or
                16 blocks where that is more.
        """
        return make_order(
            len(self), seed, shuffle, block_size=self.block_size, shuffle_window=shuffle_window
        )

    def where(self, condition: "str | NDArray[np.bool_] | Sequence[bool]") -> "Subset":
        """The samples for which a condition holds, in their order.

        Args:
            condition: Text such as ``"label in [1, 2] and height >= 224"``, over the columns label, height,
                width and num_bytes; see `readers.expression`. Labels may be named where the data names its
                classes: ``"label == 'cat'"``. Or a truth for every sample, bool [len].

        The columns that the text names are read once. 4 bytes are kept for every selected sample, 8 where
        there are more than 2**32.

        Raises:
            SelectionError: The text is no such condition, or no sample fulfils it.
        """
        from readers.selection import select_where  # it derives from this class

        self._require_selectable("where")
        return select_where(self, condition)

    def take(self, which: "int | slice | range | Sequence[int] | NDArray[np.int64]") -> "Subset":
        """The first n samples, those of a slice or range, or those at the indices given, in that order.

        Indices may be repeated; they are kept, in 4 or 8 bytes each. Everything else takes no memory.

        Raises:
            SelectionError: There are no such samples, or none are asked for.
        """
        from readers.selection import select_taken

        self._require_selectable("take")
        return select_taken(self, which)

    def split(self, *shares: float, seed: int = 0) -> "tuple[Subset, ...]":
        """Divide the samples at random into disjoint parts.

        Args:
            shares: Parts of the whole, such as 0.9 and 0.1, or whole numbers of samples. What they leave
                over is in no part.
            seed: Of the division, >= 0.

        The sizes are exact: shares are rounded so that shares of 1 together are all samples. Every 256
        neighbours are divided in the same proportions, give or take a sample, so data that is sorted by
        class is divided evenly within the classes. Parts follow the order of the whole, from anywhere in it
        on and but for such groups of 256, and take no memory.

        Raises:
            SelectionError: The shares are more than there is, or one of them gets no sample.
        """
        from readers.selection import select_shares

        self._require_selectable("split")
        return select_shares(self, shares, seed)

    def balanced(
        self, weights: Mapping[int | str, float] | None = None, *, length: int | None = None
    ) -> "Balanced":
        """The same samples, drawn so that all classes come equally often.

        Each class is gone through completely, in an order of its own, before one of its samples comes
        again; that goes on from epoch to epoch. The labels are read, and 4 or 8 bytes a sample are kept.

        Args:
            weights: How often a class comes, by number or name, 1 where it is not given; 0 leaves it out.
            length: Samples in an epoch; None is as many as there are.

        Raises:
            SelectionError: A sample has no label, or there is no such class.
        """
        from readers.mixture import Balanced

        self._require_selectable("balanced")
        return Balanced(self, weights, length=length)

    @property
    def _is_mixture(self) -> bool:
        """Whether how often a sample comes is settled, which selecting would undo."""
        return False

    def _require_selectable(self, method: str) -> None:
        if self._is_mixture:
            raise SelectionError(
                f"{method}() is not possible on a mixture or a balanced dataset, which says itself how often "
                f"each sample comes; call {method}() on the datasets it is made of, then mix or balance"
            )
