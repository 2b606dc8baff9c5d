"""Random access to encoded images and their labels, in files and in tar shards.

    photos = open_dataset("photos/train-{000000..000099}.tar")
    order = Order(len(photos), seed=0)
    samples = photos.fetch(order.indices(epoch=0, positions=np.arange(256)))

Nothing is decoded here.
"""

from readers.folder import FolderDataset, ListDataset
from readers.header import Header, read_header
from readers.open import open_dataset
from readers.order import Order, part
from readers.restarts import restart_offsets
from readers.sample import (
    BadSample,
    Dataset,
    HeaderError,
    IndexFileError,
    ReadersError,
    Sample,
    SourceError,
)
from readers.tar import TarDataset

__all__ = [
    "BadSample",
    "Dataset",
    "FolderDataset",
    "Header",
    "HeaderError",
    "IndexFileError",
    "ListDataset",
    "Order",
    "ReadersError",
    "Sample",
    "SourceError",
    "TarDataset",
    "open_dataset",
    "part",
    "read_header",
    "restart_offsets",
]
