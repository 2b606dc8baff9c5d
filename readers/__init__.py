"""Random access to encoded images and their labels in files, shards and databases, on local disks and in object stores.

    photos = open_dataset("photos/train-{000000..000099}.tar").where("label < 100")
    order = photos.order(seed=0)
    samples = photos.fetch(order.indices(epoch=0, positions=np.arange(256)))

Images are not decoded here.
"""

import logging
import sys

if sys.platform == "win32":
    raise ImportError(
        "gpu-aug reads files as Linux and macOS do, and Windows does not: run it in Windows Subsystem for Linux"
    )

from readers.datasets.arrays import ArrayDataset, from_arrays
from readers.datasets.custom import CustomDataset
from readers.datasets.dataset import Balanced, IndexedDataset, Subset
from readers.datasets.mixture import Mixture, mix
from readers.formats.folder import FolderDataset, ListDataset
from readers.formats.tar import TarDataset
from readers.image.header import Header, read_header
from readers.image.restarts import restart_offsets
from readers.open import open_dataset
from readers.order.buckets import Buckets
from readers.order.shuffle import Order, part
from readers.sample import (
    BadSample,
    Dataset,
    HeaderError,
    IndexFileError,
    ReadersError,
    Sample,
    SelectionError,
    SourceError,
)

# A library must not print: without this handler, Python prints warnings to stderr if the user has configured no logging.
logging.getLogger("gpu_aug.readers").addHandler(logging.NullHandler())

__all__ = [
    "ArrayDataset",
    "BadSample",
    "Balanced",
    "Buckets",
    "CustomDataset",
    "Dataset",
    "FolderDataset",
    "Header",
    "HeaderError",
    "IndexFileError",
    "IndexedDataset",
    "ListDataset",
    "Mixture",
    "Order",
    "ReadersError",
    "Sample",
    "SelectionError",
    "SourceError",
    "Subset",
    "TarDataset",
    "from_arrays",
    "mix",
    "open_dataset",
    "part",
    "read_header",
    "restart_offsets",
]
