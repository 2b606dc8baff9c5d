"""The table of formats that `open_dataset` knows: how each is detected, its class, and its features."""

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
    "dota",
    "mask-folder",
    "imagenet",
    "openimages",
    "lerobot",
    "lance",
    "delta",
    "iceberg",
    "energon",
]
"""Names of the formats with random access, for `open_dataset`."""


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
    """A row of the table of formats: facts about a format, and its hooks.

    A hook is a function that is named ``module:function``, and imported when it is first needed; "" if there is none.

    Attributes:
        name: Name for ``open_dataset(source, format=name)``.
        title: Name shown in messages and in tables of formats.
        reader: The dataset class, as ``module:class``.
        takes: The first argument of the class: the path of one "folder" or one "file", or a list of "files".
        suffixes: Endings of file names, in lower case; ``/NAME`` is an index file that stands for the folder around it.
        prefixes: Beginnings of sources that are not paths, such as "pipe:".
        single_files: "image" or "video" if a list of such files can be given in place of the file that lists them; else "".
        extra: The optional extra of this package that installs the format's library, "" if no library is needed.
        random_access: Whether any sample can be fetched at any time, so that order and resume are exact.
        remote: Whether the format can also be read from object stores and HTTP servers.
        zero_copy: Whether payloads of local, uncompressed files are views into the storage.
        unique_options: Options that no other class has, so that giving one of them chooses the format.
        own_splits: Whether the class takes ``split``, because the files of the format define the splits.
        split_column: Whether rows may have a column ``split``, which the class itself does not evaluate.
        vague_suffixes: Whether files of other kinds, such as notes, have these suffixes, too.
        refuses_records: Whether a folder of this format is refused if it also holds shards, because it is unclear which of
            the two is wanted.
        remote_marks: Patterns of names; a folder in an object store that holds such a name is refused, because this format
            can only be read from local files.
        if_several: Advice for a folder that holds only files of this format; ``{pattern}`` is replaced by a pattern of them.
        stage: When the hook `detect` is called for a folder. "before splits": before subfolders are taken for splits. "after
            splits": if no subfolder is a split. "media": last, if the folder holds no shards; formats are then asked in
            reverse order. "": never.
        fits: ``(folder) -> bool``: whether the contents of a folder are of this format and no other.
        detect: ``(ListedFolder, split) -> list[str] | None``: the paths to open in a folder of this format, None for others.
        refine: ``(file, options) -> str | None``: the name of the actual format of a local file with one of the suffixes, if
            it is another format; else None. If the class takes a list of files, it is only called for a list of one.
        begins: ``(bytes) -> bool``: whether a file without a known suffix is of this format, by its first 16 bytes.
        shards_of: ``(path) -> list[str] | None``: the shards that an index file names; None for other files and folders.
        reads_single: ``(paths, many) -> bool``: whether the paths are samples themselves, which the class takes as a list;
            else the path is a file that lists samples.
        warn: ``(Opened) -> Iterable[str]``: warnings about a dataset of this format that was opened.
        warn_unread: ``(folder, images) -> Iterable[str]``: warnings about annotations of this format beside images, if
            the images are read without them.
        split_options: ``(folder, train) -> dict``: options to open the folder of a split with, which depend on the folder of
            the training data.
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
        """Return the dataset class of the format, imported from `reader`."""
        return _imported(self.reader)

    def ask(self, hook: Hook, *arguments: Any) -> Any:
        """Call a hook and return its result; None if the format has no such hook."""
        place = getattr(self, hook)
        return _imported(place)(*arguments) if place else None

    def index_file(self, names: Collection[str]) -> str | None:
        """Return the name of the index file that stands for a folder; None if the folder has none.

        Args:
            names: Names of the files in the folder.
        """
        return next((one[1:] for one in self.suffixes if one[0] == "/" and one[1:] in names), None)


class Opened(NamedTuple):
    """A dataset that was just opened, the argument of the hook `Format.warn`.

    Attributes:
        dataset: The dataset or stream.
        path: The first of its paths.
        options: Options that were passed to the format's class.
        is_detected: Whether the format was detected; False if the caller named it.
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
            "dota",
            "DOTA",
            "readers.formats.dota.dataset:DotaDataset",
            "folder",
            fits="readers.formats.boxes.fits:is_dota",
            own_splits=True,
            refuses_records=True,
            warn_unread="readers.formats.boxes.unread:warn_unread_dota",
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
            remote=True,
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
"""All formats by name, in the order of the documentation."""


NUMBERED = re.compile(r"-[0-9]{5}-of-[0-9]{5}$")
"""Matches the number of a shard at the end of a name, ``-00000-of-00002``; TFRecord files often have no suffix but this."""


def format_of(name: str) -> Format | None:
    """Return the format with the longest suffix that a file name ends in; None if no format has such a suffix.

    The number of the shard may follow the suffix: ``mnist-train.tfrecord-00000-of-00001``.
    """
    name = f"/{NUMBERED.sub('', name)}".lower()
    suffixes = {suffix: found for found in FORMATS.values() for suffix in found.suffixes}
    fitting = [suffix for suffix in suffixes if name.endswith(suffix)]
    return suffixes[max(fitting, key=len)] if fitting else None


def format_by_contents(folder: Path) -> Format | None:
    """Return the format whose hook `Format.fits` accepts a folder; None if no format accepts it.

    Raises:
        SourceError: Several formats accept the folder.
    """
    found = [kind for kind in FORMATS.values() if kind.ask("fits", folder)]
    if len(found) > 1:
        ways = " or ".join(f"format={kind.name!r}" for kind in found)
        raise SourceError(
            f"{folder} is laid out as {' and as '.join(kind.title for kind in found)}: say {ways}"
        )
    return found[0] if found else None


def index_file_of(names: Collection[str], folder: object) -> str | None:
    """Return the name of the index file of a remote folder, whose format reads it at its URL; None if the folder has none.

    Args:
        names: Names of the files in and below the folder, relative to it.
        folder: The folder, a Path or a `readers.storage.paths.UrlFolder`; its index file is read if names do not tell the format.
    """
    for kind in FORMATS.values():
        index = kind.index_file(names) if kind.remote and kind.takes == "folder" else None
        if index and (not kind.fits or kind.ask("fits", folder)):
            return index
    return None


def format_by_head(head: bytes) -> Format | None:
    """Return the format of a file by its first 16 bytes, `head`; None if no format recognises them."""
    return next((kind for kind in FORMATS.values() if kind.ask("begins", head)), None)


def shards_of_index(path: Path) -> list[str] | None:
    """Return the shards that are named in an index file, or in the index file of a folder; None for other paths."""
    answers = (kind.ask("shards_of", path) for kind in FORMATS.values())
    return next(filter(None, answers), None)


def require(module: str, *, extra: str) -> ModuleType:
    """Import and return a module of an optional library.

    Args:
        module: Name of the module.
        extra: The extra of this package that installs the library, for the error.

    Raises:
        SourceError: The library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SourceError(
            f"this format is read by the package {module.partition('.')[0]}, which cannot be imported "
            f"({error}): pip install 'gpu-aug[{extra}]'"
        ) from None
