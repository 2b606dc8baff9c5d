"""The formats that `open_dataset` knows: how each is detected, its reader, and its features."""

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from readers.sample import SourceError

FormatName = Literal[
    "folder",
    "list",
    "csv",
    "video-folder",
    "clip-list",
    "frame-folder",
    "tar",
    "parquet",
    "arrow",
    "lmdb",
    "hdf5",
    "tfrecord",
    "arrayrecord",
    "mds",
    "npy",
    "manifest",
    "coco",
    "voc",
    "yolo",
    "labelme",
    "mask-folder",
    "imagenet",
    "openimages",
    "lerobot",
    "lance",
    "delta",
    "iceberg",
    "energon",
]
"""Those that are read at random."""


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of source.

    Attributes:
        name: Short, as in ``open_dataset(source, format=name)``.
        title: For tables.
        reader: ``module:class``, imported when it is first needed.
        takes: What the class is given: one "folder", one "file", or a list of "files".
        suffixes: Endings of its files' names, in lower case.
        extra: The optional extra of this package that brings its library, "" when none is needed.
        random_access: Any sample can be fetched at any time; so order and resume are exact.
        remote: It is read from object stores and HTTP servers as well.
        zero_copy: Payloads of local, uncompressed files are views into the storage.
        fits: ``module:function`` that says whether the contents of a folder or file are of this format.
        unique_options: Options that only its class has: giving one chooses the format.
        own_splits: Its class takes ``split``, as its files say themselves what a split is.
    """

    name: str
    title: str
    reader: str
    takes: Literal["folder", "file", "files"]
    suffixes: tuple[str, ...] = ()
    extra: str = ""
    random_access: bool = True
    remote: bool = False
    zero_copy: bool = False
    fits: str = ""
    unique_options: tuple[str, ...] = ()
    own_splits: bool = False

    def load(self) -> Any:
        """Return the class that reads it."""
        return _imported(self.reader)

    def recognises(self, path: Path) -> bool:
        """Return whether the contents of a folder or file fit this format; False for formats recognised by name alone."""
        return bool(self.fits) and _imported(self.fits)(path)


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


FORMATS = {
    found.name: found
    for found in (
        Format("folder", "class folders", "readers.formats.folder:FolderDataset", "folder"),
        Format(
            "list",
            "list of files",
            "readers.formats.folder:ListDataset",
            "file",
            (".txt", ".lst", ".tsv"),
        ),
        Format(
            "csv",
            "CSV, TSV or Parquet of paths",
            "readers.formats.path_table.dataset:PathTableDataset",
            "file",
            (".csv",),
            own_splits=True,
        ),
        Format(
            "video-folder",
            "video folders",
            "readers.video.files:VideoFolderDataset",
            "folder",
            zero_copy=True,
        ),
        Format(
            "clip-list",
            "list of videos or clips",
            "readers.video.files:ClipListDataset",
            "file",
            zero_copy=True,
        ),
        Format(
            "frame-folder",
            "folders of frames",
            "readers.video.frame_folder:FrameFolderDataset",
            "folder",
        ),
        Format(
            "tar",
            "WebDataset tar",
            "readers.formats.tar.dataset:TarDataset",
            "files",
            (".tar",),
            remote=True,
            zero_copy=True,
        ),
        Format(
            "stream",
            "tar, read forward (gz, pipe, http)",
            "readers.formats.stream.tar:TarStream",
            "files",
            (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"),
            random_access=False,
            remote=True,
        ),
        Format(
            "parquet",
            "Parquet",
            "readers.formats.parquet.dataset:ParquetDataset",
            "files",
            (".parquet",),
            "arrow",
            remote=True,
            zero_copy=True,
        ),
        Format(
            "arrow",
            "Arrow, Hugging Face datasets",
            "readers.formats.arrow.dataset:ArrowDataset",
            "files",
            (".arrow",),
            "arrow",
            zero_copy=True,
        ),
        Format(
            "lmdb",
            "LMDB",
            "readers.formats.lmdb.dataset:LmdbDataset",
            "file",
            (".lmdb", ".mdb"),
            remote=True,
            zero_copy=True,
        ),
        Format(
            "hdf5",
            "HDF5",
            "readers.formats.hdf5.dataset:Hdf5Dataset",
            "file",
            (".h5", ".hdf5"),
            "hdf5",
            zero_copy=True,
        ),
        Format(
            "tfrecord",
            "TFRecord",
            "readers.formats.tfrecord.dataset:TfRecordDataset",
            "files",
            (".tfrecord", ".tfrecords", ".tfrec"),
            remote=True,
            zero_copy=True,
        ),
        Format(
            "arrayrecord",
            "ArrayRecord",
            "readers.formats.arrayrecord.dataset:ArrayRecordDataset",
            "files",
            (".array_record", ".arrayrecord"),
            "arrayrecord",
        ),
        Format(
            "mds",
            "MosaicML MDS",
            "readers.formats.mds.dataset:MdsDataset",
            "folder",
            ("/index.json",),
            remote=True,
            zero_copy=True,
        ),
        Format("npy", "NumPy array", "readers.formats.npy:NpyDataset", "file", (".npy",)),
        Format(
            "manifest",
            "JSON lines manifest",
            "readers.formats.manifest:ManifestDataset",
            "file",
            (".jsonl", ".ndjson"),
        ),
        Format("coco", "COCO json", "readers.formats.coco.dataset:CocoDataset", "file", (".json",)),
        Format(
            "voc",
            "Pascal VOC",
            "readers.formats.voc.dataset:VocDataset",
            "folder",
            fits="readers.formats.boxes.fits:is_voc",
            own_splits=True,
        ),
        Format(
            "yolo",
            "Ultralytics YOLO",
            "readers.formats.yolo.dataset:YoloDataset",
            "file",
            (".yaml", ".yml"),
            fits="readers.formats.boxes.fits:is_yolo",
            own_splits=True,
        ),
        Format(
            "labelme",
            "LabelMe",
            "readers.formats.labelme.dataset:LabelMeDataset",
            "folder",
            fits="readers.formats.boxes.fits:is_labelme",
            own_splits=True,
        ),
        Format(
            "mask-folder",
            "folders of images and masks",
            "readers.formats.mask_folder.dataset:MaskFolderDataset",
            "folder",
            fits="readers.formats.mask_folder.layout:fits",
            own_splits=True,
        ),
        Format(
            "imagenet",
            "ImageNet with its development kit",
            "readers.formats.imagenet.dataset:ImageNetDataset",
            "folder",
            fits="readers.formats.imagenet.dataset:fits",
            unique_options=("devkit",),
            own_splits=True,
        ),
        Format(
            "openimages",
            "OpenImages",
            "readers.formats.openimages.dataset:OpenImagesDataset",
            "file",
            fits="readers.formats.openimages.dataset:fits",
        ),
        Format(
            "lerobot",
            "LeRobot v3.0",
            "readers.formats.lerobot.dataset:LeRobotDataset",
            "folder",
            ("/meta/info.json",),
            "arrow",
            zero_copy=True,
            fits="readers.formats.lerobot.meta:fits",
            own_splits=True,
        ),
        Format(
            "lance",
            "Lance",
            "readers.formats.lance.dataset:LanceDataset",
            "folder",
            (".lance",),
            "lance",
            fits="readers.detect.files:is_lance",
        ),
        Format(
            "delta",
            "Delta table",
            "readers.formats.delta.dataset:DeltaDataset",
            "folder",
            (),
            "delta",
            zero_copy=True,
            fits="readers.detect.files:is_delta",
        ),
        Format(
            "iceberg",
            "Iceberg table",
            "readers.formats.iceberg.dataset:IcebergDataset",
            "folder",
            (".metadata.json",),
            "iceberg",
            zero_copy=True,
            fits="readers.detect.files:is_iceberg",
        ),
        Format(
            "energon",
            "WebDataset of Energon",
            "readers.formats.energon.dataset:EnergonDataset",
            "folder",
            zero_copy=True,
            fits="readers.detect.files:is_energon",
            own_splits=True,
        ),
    )
}
"""By name, in the order of the documentation."""


NUMBERED = re.compile(r"-[0-9]{5}-of-[0-9]{5}$")
"""What counts the files of a dataset, at the end of a name: of TFRecord files often in place of an ending."""


def format_of(name: str) -> Format | None:
    """Return the format of a file name, the longest suffix first; None for other names.

    A number of the file may follow the suffix: ``mnist-train.tfrecord-00000-of-00001``.
    """
    name = NUMBERED.sub("", name)
    suffixes = {suffix: found for found in FORMATS.values() for suffix in found.suffixes}
    fitting = [suffix for suffix in suffixes if name.lower().endswith(suffix)]
    return suffixes[max(fitting, key=len)] if fitting else None


def format_by_contents(folder: Path) -> Format | None:
    """Return the format whose `Format.fits` accepts a folder; None if there is none.

    Raises:
        SourceError: They tell several.
    """
    found = [kind for kind in FORMATS.values() if kind.recognises(folder)]
    if len(found) > 1:
        ways = " or ".join(f"format={kind.name!r}" for kind in found)
        raise SourceError(
            f"{folder} is laid out as {' and as '.join(kind.title for kind in found)}: say {ways}"
        )
    return found[0] if found else None


def require(module: str, *, extra: str) -> ModuleType:
    """Import a format's own library.

    Raises:
        SourceError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SourceError(
            f"this format is read by the package {module.partition('.')[0]}, which cannot be imported "
            f"({error}): pip install 'gpu-aug[{extra}]'"
        ) from None
