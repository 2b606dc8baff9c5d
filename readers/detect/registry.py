"""The formats that `open_dataset` knows: how each is detected, its reader, and its features."""

import importlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

from readers.sample import SourceError

FormatName = Literal[
    "folder",
    "list",
    "csv",
    "manifest",
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


Hook = Literal[
    "fits",
    "detect",
    "refine",
    "begins",
    "shards_of",
    "reads_single",
    "warn",
    "warn_unread",
    "split_options",
]


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of source: facts, and hooks that are named ``module:function`` and imported when they are first needed.

    Attributes:
        name: Short, as in ``open_dataset(source, format=name)``.
        title: For tables.
        reader: ``module:class``.
        takes: What the class is given: one "folder", one "file", or a list of "files".
        suffixes: Endings of its files' names, in lower case; ``/NAME`` is a file that stands for the folder around it.
        prefixes: Beginnings of sources that are no paths.
        single_files: What a single file of a list of this format may be, if the file itself is given.
        extra: The optional extra of this package that brings its library, "" when none is needed.
        random_access: Any sample can be fetched at any time; so order and resume are exact.
        remote: It is read from object stores and HTTP servers as well.
        zero_copy: Payloads of local, uncompressed files are views into the storage.
        unique_options: Options that only its class has: giving one chooses the format.
        own_splits: Its class takes ``split``, as its files say themselves what a split is.
        split_column: Its rows may have a column ``split``, which its class does not read.
        vague_suffixes: Other files, such as notes, have these suffixes as well.
        refuses_records: Record files beside its folder are refused, as either may be the wanted data.
        remote_marks: Patterns of names in a folder of an object store by which the format is refused there.
        if_several: Advice for a folder that holds nothing but several of its files; ``{pattern}`` stands for these.
        stage: When `detect` is asked about a folder: before the folders in it are taken for splits, after none of them was,
            or last, if it holds no records ("media"; then the last row of the table is asked first).
        fits: ``(folder) -> bool``: the contents of a folder are of this format and of no other.
        detect: ``(ListedFolder, split) -> list[str] | None``: the paths to open in a folder of this format, None for others.
        refine: ``(file, options) -> str | None``: the name of the format of a local file with one of these suffixes, if it
            is another one. Of a format that takes many files one alone is looked at.
        begins: ``(bytes) -> bool``: a file of any name that begins with these 16 bytes is of this format.
        shards_of: ``(path) -> list[str] | None``: the shards that an index names; None for other files and folders.
        reads_single: ``(paths, many) -> bool``: the paths are samples themselves, which the class takes as a list; else one
            path is a file that lists samples.
        warn: ``(Opened) -> Iterable[str]``: warnings about what was opened.
        warn_unread: ``(folder, images) -> Iterable[str]``: warnings about annotations of this format beside images that
            are read without them.
        split_options: ``(folder, train) -> dict``: options for the folder of a split that follow from that of the
            training data.
    """

    name: str
    title: str
    reader: str
    takes: Literal["folder", "file", "files"]
    suffixes: tuple[str, ...] = ()
    extra: str = ""
    prefixes: tuple[str, ...] = ()
    single_files: Literal["", "image", "video"] = ""
    random_access: bool = True
    remote: bool = False
    zero_copy: bool = False
    unique_options: tuple[str, ...] = ()
    own_splits: bool = False
    split_column: bool = False
    vague_suffixes: bool = False
    refuses_records: bool = False
    remote_marks: tuple[str, ...] = ()
    if_several: str = ""
    stage: Literal["", "before splits", "after splits", "media"] = ""
    fits: str = ""
    detect: str = ""
    refine: str = ""
    begins: str = ""
    shards_of: str = ""
    reads_single: str = ""
    warn: str = ""
    warn_unread: str = ""
    split_options: str = ""

    def load(self) -> Any:
        """Return the class that reads it."""
        return _imported(self.reader)

    def ask(self, hook: Hook, *arguments: Any) -> Any:
        """Return what a hook answers; None if the format has no such hook."""
        place = getattr(self, hook)
        return _imported(place)(*arguments) if place else None

    def index_file(self, names: Collection[str]) -> str | None:
        """Return the file among those of a folder that stands for the folder; None if there is none."""
        return next((one[1:] for one in self.suffixes if one[0] == "/" and one[1:] in names), None)


class Opened(NamedTuple):
    """A dataset that was opened, for `Format.warn`.

    Attributes:
        dataset: The dataset or stream.
        path: The first of its paths.
        options: Options of the format's class.
        is_detected: Whether the format was detected; else the caller has named it.
    """

    dataset: Any
    path: str
    options: Mapping[str, Any]
    is_detected: bool


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


FORMATS = {
    found.name: found
    for found in (
        Format(
            "folder",
            "class folders",
            "readers.formats.folder:FolderDataset",
            "folder",
            stage="media",
            warn="readers.formats.class_folders:warn",
            split_options="readers.formats.class_folders:classes_of_train",
        ),
        Format(
            "list",
            "list of files",
            "readers.formats.folder:ListDataset",
            "file",
            (".txt", ".lst", ".tsv"),
            vague_suffixes=True,
            single_files="image",
            refine="readers.formats.path_table.detect:kind_of_list",
            reads_single="readers.formats.folder:are_images",
        ),
        Format(
            "csv",
            "CSV, TSV or Parquet of paths",
            "readers.formats.path_table.dataset:PathTableDataset",
            "file",
            (".csv",),
            own_splits=True,
            stage="after splits",
            detect="readers.formats.path_table.detect:detect_metadata",
            refine="readers.formats.path_table.detect:kind_of_csv",
            warn="readers.formats.path_table.warn:warn_table",
            warn_unread="readers.formats.path_table.warn:warn_unread",
        ),
        Format(
            "manifest",
            "JSON lines manifest",
            "readers.formats.manifest:ManifestDataset",
            "file",
            (".jsonl", ".ndjson"),
            split_column=True,
            stage="after splits",
            detect="readers.formats.path_table.detect:detect_json_lines",
            warn="readers.formats.path_table.warn:warn_manifest",
        ),
        Format(
            "video-folder",
            "video folders",
            "readers.video.files:VideoFolderDataset",
            "folder",
            zero_copy=True,
            stage="media",
            detect="readers.video.detect:detect_videos",
        ),
        Format(
            "clip-list",
            "list of videos or clips",
            "readers.video.files:ClipListDataset",
            "file",
            zero_copy=True,
            single_files="video",
            reads_single="readers.video.files:are_videos",
        ),
        Format(
            "frame-folder",
            "folders of frames",
            "readers.video.frame_folder:FrameFolderDataset",
            "folder",
            stage="media",
            detect="readers.video.detect:detect_frames",
        ),
        Format(
            "tar",
            "WebDataset tar",
            "readers.formats.tar.dataset:TarDataset",
            "files",
            (".tar",),
            remote=True,
            zero_copy=True,
            stage="after splits",
            detect="readers.formats.tar.listed:detect_finished",
            shards_of="readers.formats.tar.listed:shards_of_index",
        ),
        Format(
            "stream",
            "tar, read forward (gz, pipe, http)",
            "readers.formats.stream.tar:TarStream",
            "files",
            (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"),
            random_access=False,
            remote=True,
            prefixes=("pipe:",),
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
            split_column=True,
            stage="after splits",
            detect="readers.formats.parquet.detect:detect_partitions",
            refine="readers.formats.path_table.detect:kind_of_arrow",
        ),
        Format(
            "arrow",
            "Arrow, Hugging Face datasets",
            "readers.formats.arrow.dataset:ArrowDataset",
            "files",
            (".arrow",),
            "arrow",
            zero_copy=True,
            split_column=True,
            stage="before splits",
            detect="readers.formats.arrow.detect:detect_saved",
            refine="readers.formats.path_table.detect:kind_of_arrow",
        ),
        Format(
            "lmdb",
            "LMDB",
            "readers.formats.lmdb.dataset:LmdbDataset",
            "file",
            (".lmdb", ".mdb", "/data.mdb"),
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
            begins="readers.formats.tfrecord.dataset:looks_like_tfrecord",
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
        Format(
            "npy",
            "NumPy array",
            "readers.formats.npy:NpyDataset",
            "file",
            (".npy",),
            if_several="where each is one image, say open_dataset({pattern!r}, format='list'), else give one of these files",
        ),
        Format(
            "coco",
            "COCO json",
            "readers.formats.coco.dataset:CocoDataset",
            "file",
            (".json",),
            stage="before splits",
            detect="readers.formats.coco.beside:detect_roboflow",
            warn_unread="readers.formats.coco.beside:warn_unread",
        ),
        Format(
            "voc",
            "Pascal VOC",
            "readers.formats.voc.dataset:VocDataset",
            "folder",
            fits="readers.formats.boxes.fits:is_voc",
            own_splits=True,
            refuses_records=True,
            warn_unread="readers.formats.boxes.unread:warn_unread_voc",
        ),
        Format(
            "yolo",
            "Ultralytics YOLO",
            "readers.formats.yolo.dataset:YoloDataset",
            "file",
            (".yaml", ".yml"),
            fits="readers.formats.boxes.fits:is_yolo",
            own_splits=True,
            refuses_records=True,
            warn_unread="readers.formats.boxes.unread:warn_unread_yolo",
        ),
        Format(
            "labelme",
            "LabelMe",
            "readers.formats.labelme.dataset:LabelMeDataset",
            "folder",
            fits="readers.formats.boxes.fits:is_labelme",
            own_splits=True,
            refuses_records=True,
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
            warn_unread="readers.formats.openimages.dataset:warn_unread",
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
            fits="readers.formats.tables.fits:is_lance",
            split_column=True,
            remote_marks=("_versions/",),
        ),
        Format(
            "delta",
            "Delta table",
            "readers.formats.delta.dataset:DeltaDataset",
            "folder",
            (),
            "delta",
            zero_copy=True,
            fits="readers.formats.tables.fits:is_delta",
            split_column=True,
            remote_marks=("_delta_log/",),
        ),
        Format(
            "iceberg",
            "Iceberg table",
            "readers.formats.iceberg.dataset:IcebergDataset",
            "folder",
            (".metadata.json",),
            "iceberg",
            zero_copy=True,
            fits="readers.formats.tables.fits:is_iceberg",
            split_column=True,
            remote_marks=("metadata/*.metadata.json",),
        ),
        Format(
            "energon",
            "WebDataset of Energon",
            "readers.formats.energon.dataset:EnergonDataset",
            "folder",
            zero_copy=True,
            fits="readers.formats.energon.metadata:fits",
            own_splits=True,
            remote_marks=(".nv-meta/",),
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
    name = f"/{NUMBERED.sub('', name)}".lower()
    suffixes = {suffix: found for found in FORMATS.values() for suffix in found.suffixes}
    fitting = [suffix for suffix in suffixes if name.endswith(suffix)]
    return suffixes[max(fitting, key=len)] if fitting else None


def format_by_contents(folder: Path) -> Format | None:
    """Return the format whose `Format.fits` accepts a folder; None if there is none.

    Raises:
        SourceError: Several formats do.
    """
    found = [kind for kind in FORMATS.values() if kind.ask("fits", folder)]
    if len(found) > 1:
        ways = " or ".join(f"format={kind.name!r}" for kind in found)
        raise SourceError(
            f"{folder} is laid out as {' and as '.join(kind.title for kind in found)}: say {ways}"
        )
    return found[0] if found else None


def format_by_head(head: bytes) -> Format | None:
    """Return the format of a file that begins with these 16 bytes; None if no format knows them."""
    return next((kind for kind in FORMATS.values() if kind.ask("begins", head)), None)


def shards_of_index(path: Path) -> list[str] | None:
    """Return the shards that an index file, or the index in a folder, names; None for other files and folders."""
    answers = (kind.ask("shards_of", path) for kind in FORMATS.values())
    return next(filter(None, answers), None)


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
