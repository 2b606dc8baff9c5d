"""Datasets of image files: class folders, and lists of files."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from readers.describe import few_of
from readers.detect.left_out import LeftOut
from readers.detect.registry import format_of
from readers.formats.columns import to_label
from readers.formats.declared import refuse_cut_list
from readers.formats.files import FileDataset, Names, Sidecars
from readers.formats.text import filled_lines
from readers.labels.classes import Classes, read_classes
from readers.sample import IMAGE_FIELDS, VIDEO_FIELDS, PathLike, SourceError, is_image_file
from readers.storage.paths import leads_back
from readers.storage.unreadable import listed, refuse_folder_error
from readers.storage.whole_files import read_text

_LABELLED_LINE = re.compile(r"(.*\S)\s+(-?[0-9]+)")  # a path and a class number
_NAMED_LINE = re.compile(r"(.*\.\w+)\s+(\S.*)")  # a path and, perhaps, the name of a class
# Names of files that belong to the image of the same stem: photo.json, photo.mask.png, photo.mask.0.png.
_SIDECAR = re.compile(r"(.+)\.(json|(?:mask|seg)(?:\.[0-9]{1,9})?\.png)", re.DOTALL | re.IGNORECASE)


class FileKind(NamedTuple):
    """A kind of file that becomes a sample, such as images.

    Attributes:
        plural: Plural name of the files, for errors.
        extensions: File name extensions in lower case, without a dot.
        instead: Other content that a folder may hold, for errors.
    """

    plural: str
    extensions: tuple[str, ...]
    instead: str = ""

    def fits(self, name: str) -> bool:
        """Return whether a file is of this kind, by its name."""
        return "." in name and name.lower().rpartition(".")[2] in self.extensions


class FilesFound(NamedTuple):
    """The files that `find_files` found.

    Attributes:
        names: Names of the files, relative to the folder.
        labels: Class number of each file, -1 for none.
        class_names: Class names, by class number; empty without classes.
        sidecars: Further files of the samples, by name of the file.
        remarks: Warnings about files that are left out.
    """

    names: Names
    labels: list[int]
    class_names: tuple[str, ...]
    sidecars: Sidecars
    remarks: tuple[str, ...]


_ANNOTATIONS = ("annotations", "labels")  # annotation folders of Pascal VOC and COCO, and of YOLO
_INSTEAD = f"; or videos (.{', .'.join(VIDEO_FIELDS)}), or a folder of frames for each video"
_IMAGES = FileKind("images", IMAGE_FIELDS, _INSTEAD)


class FolderDataset(FileDataset):
    """Images below a folder, one folder per class.

    ``root/<class>/**/photo.jpg``: the classes are the folders in root, numbered in sorted order,
    and hold images at any depth, as for torchvision's ImageFolder. If the images lie in root
    itself, there are no classes, and every label is -1.

    Beside ``photo.jpg``, the files ``photo.json``, ``photo.mask.png`` (or ``.seg.png``) and
    ``photo.mask.0.png`` are fields of its sample: json, mask.png and mask.0.png. A mask without
    a photo of that name is read as an image.

    Links are followed. Unlike ImageFolder this class skips names that begin with a dot
    (``.ipynb_checkpoints``, ``._photo.jpg``), and counts gif as an image.

    Args:
        root: The folder.
        classes: Names of the classes in the order of their numbers, or a file with one name per line; a class may lack a
            folder. If None, the folders are the classes. `open_dataset` with ``split="val"``
            passes the folders of ``train`` next to ``val``.

    Raises:
        SourceError: There are no images; a class folder has no images and ``classes`` is None (leaving it out would renumber
            the classes after it); a folder is not in ``classes``; or images lie both in root and in its folders.

    Example:
        >>> FolderDataset("photos/")
        FolderDataset(36 samples, 2 classes)
        >>> FolderDataset("val/", classes=["bird", "cat", "dog"]).column("label")[-3:]
        array([2, 2, 2])
    """

    unread_suffixes = tuple(f".{name}" for name in VIDEO_FIELDS)

    def __init__(self, root: PathLike, *, classes: Classes | None = None) -> None:
        root = Path(root).absolute()
        super().__init__(root, *find_files(root, _IMAGES, read_classes(classes)))


class ListDataset(FileDataset):
    """Image files named by a list; a sample has no other files.

    The list is a text file with one ``path[ label]`` per line, or a sequence of paths. In a text
    file, paths are relative to the file's folder and may hold spaces; the label is the last word
    if that is an integer; empty lines and lines that begin with ``#`` are skipped. A missing file
    becomes a BadSample when it is fetched.

    Raises:
        SourceError: The list cannot be read, names nothing, or has a relative path that leaves
            the list's folder.

    Example:
        >>> ListDataset(["photos/cat/000.jpg", "photos/dog/000.jpg"])
        ListDataset(2 samples)
    """

    declares_count = False

    def __init__(self, source: PathLike | Sequence[PathLike]) -> None:
        if isinstance(source, (str, os.PathLike)):
            root = Path(source).absolute().parent
            names, labels = _read_list(Path(source))
        else:
            root = Path.cwd()
            names, labels = [str(Path(path).absolute()) for path in source], [-1] * len(source)
        if not names:
            raise SourceError(
                f"the list {source} names no files: write one path per line"
                if isinstance(source, (str, os.PathLike))
                else "the list of files is empty: give at least one path"
            )
        super().__init__(*find_root(root, names), labels)

    def _field(self, name: str) -> str:
        # A list may name image files without an image extension; the decoder recognises the format by the bytes.
        return super()._field(name) if is_image_file(name) else IMAGE_FIELDS[0]


def are_images(paths: Sequence[str], many: bool) -> bool:
    """Return whether paths are image files rather than one list file; see `Format.reads_single`.

    Args:
        paths: Paths that the caller gave.
        many: Whether the caller gave a sequence of paths.

    Raises:
        SourceError: The only path is a folder.
    """
    if not many and Path(paths[0]).is_dir():
        raise SourceError(
            f"{paths[0]} is a folder, and format='list' reads the file of a list or single files: say format='folder', or "
            f"give a list file or a pattern such as {str(Path(paths[0], '*.jpg'))!r}"
        )
    found = format_of(paths[0])
    return many or found is None or found.name != "list"


def find_root(root: Path, names: list[str]) -> tuple[Path, list[str]]:
    """Return a folder that holds all files, and the names of the files relative to it.

    The folder is root if every file lies below it, otherwise the deepest folder that holds all files. Thus keys and the
    fingerprint do not depend on where the files lie on this machine.

    Args:
        root: Folder that relative names refer to.
        names: Paths of the files, relative to root or absolute.
    """
    if not any(name.startswith(("/", "../")) for name in names):
        return root, names
    paths = [os.path.normpath(root / name) for name in names]
    root = Path(os.path.commonpath([Path(path).parent for path in paths]))
    return root, [path[len(str(root).rstrip("/")) + 1 :] for path in paths]


def find_files(root: Path, kind: FileKind, classes: tuple[str, ...] | None = None) -> FilesFound:
    """Find the files of a kind, either below class folders at any depth, or in root itself and then without classes.

    Args:
        root: The folder.
        kind: Kind of the files.
        classes: Names of the classes in the order of their numbers; None numbers the folders in sorted order.

    Raises:
        SourceError: There are no files; a class folder has no files, or is not in ``classes``; or files lie both in root and
            in class folders.
    """
    if not root.exists():
        raise SourceError(f"{root} cannot be listed (No such file or directory): correct the path")
    entries, files = listed(root)
    folders, what = _visible(entries), kind.plural
    left_out = LeftOut(root)
    loose, sidecars = _split_sidecars(_visible(files), kind, left_out, "")
    inside: dict[str, int] = {}
    names = Names(_files_below(root, folders, kind, inside, sidecars, left_out))
    filled = [name for name in folders if inside[name]]
    if loose and filled:
        raise SourceError(
            f"{root} holds {what} itself ({loose[0]}) and in folders ({filled[0]}): move them "
            "all into class folders, or name them in a list file"
        )
    remarks = left_out.remarks(len(loose or names), what)
    if not loose and not filled:
        extensions = ", ".join(f".{name}" for name in kind.extensions)
        raise SourceError(
            f"{root} holds no {what}: put files there that end in {extensions}{kind.instead}{'; '.join(['', *remarks])}"
        )
    if classes is not None:
        labels = _labels_of(root, kind, classes, {} if loose else inside)
        return FilesFound(names, labels, classes, sidecars, remarks)
    if loose:
        return FilesFound(Names(loose), [-1] * len(loose), (), sidecars, remarks)
    if len(filled) < len(folders):
        empty = next(name for name in folders if not inside[name])
        raise _empty_folder_error(root, what, empty, filled[0])
    labels = [label for label, folder in enumerate(filled) for _ in range(inside[folder])]
    return FilesFound(names, labels, tuple(filled), sidecars, remarks)


def _empty_folder_error(root: Path, what: str, empty: str, filled: str) -> SourceError:
    """Return the error about a class folder without files next to one with files.

    Args:
        root: The folder of the class folders.
        what: Plural name of the files.
        empty: Name of the class folder without files.
        filled: Name of a class folder with files.
    """
    if empty.lower() in _ANNOTATIONS:
        of_coco = next(iter(sorted((root / empty).glob("*.json"))), "the file")
        return SourceError(
            f"{root} holds {what} ({filled}) and annotations ({empty}): say format='yolo', classes=['cat', 'dog'] "
            f"for text files of YOLO or format='voc' for XML of Pascal VOC, give {of_coco} of COCO's annotations, or the "
            f"folder {root / filled} to have the {what} alone"
        )
    return SourceError(
        f"{root} has a class folder without {what} ({empty}): put some there or move it elsewhere; "
        f"if the numbers of the classes are known, say them with classes=[...]; if folders are no classes there, give the "
        f"one with the {what}, or a list file"
    )


def _labels_of(
    root: Path, kind: FileKind, classes: tuple[str, ...], inside: dict[str, int]
) -> list[int]:
    """Return the class number of each file in class folders.

    Args:
        root: The folder, for errors.
        kind: Kind of the files, for errors.
        classes: Names of the classes in the order of their numbers.
        inside: Number of files in each class folder, in the order of the files.
    """
    if not any(inside.values()):
        raise SourceError(
            f"{root} holds {kind.plural} without class folders, and classes= names {len(classes)} of those: leave it out, or "
            "give labels="
        )
    numbers = {name: number for number, name in enumerate(classes)}
    other = next((name for name in inside if name not in numbers), None)
    if other is not None:
        raise SourceError(
            f"{root} has the class {other!r}, and the classes are {few_of(classes, 10)}: move "
            "its images, or give classes= with all names"
        )
    return [numbers[folder] for folder, count in inside.items() for _ in range(count)]


def _read_list(path: Path) -> tuple[list[str], list[int]]:
    """Return the normalised paths that a list file names, and their labels, -1 for none."""
    text = read_text(path, "a list of files")
    names, labels = [], []
    for number, line in filled_lines(text):
        if line.startswith("#"):
            continue
        labelled = _LABELLED_LINE.fullmatch(line)
        try:
            name, label = (labelled[1], to_label(labelled[2])) if labelled else (line, -1)
        except ValueError as error:
            raise SourceError(f"{path}, line {number}: {error}") from None
        named = _NAMED_LINE.fullmatch(line)
        if named and name == line and is_image_file(named[1]) and not (path.parent / line).exists():
            raise SourceError(
                f"{path}, line {number}: the label {named[2]!r} is no number: number the classes, or write a CSV with the "
                "columns path and label, whose labels may be names"
            )
        name = os.path.normpath(name)
        if name.split("/")[0] == "..":
            raise SourceError(
                f"{path}, line {number}: {name} leaves the folder of the list: "
                "move the list up, or give the absolute path"
            )
        names.append(name)
        labels.append(label)
    refuse_cut_list(path, text, labels)
    return names, labels


def _files_below(
    root: Path,
    folders: list[str],
    kind: FileKind,
    inside: dict[str, int],
    sidecars: Sidecars,
    left_out: LeftOut,
) -> Iterator[str]:
    """Yield the names of the files of a kind below folders in root, relative to root, in ImageFolder's order.

    Args:
        root: The folder.
        folders: Names of the folders in it.
        kind: Kind of the files.
        inside: Dict that this function fills with the number of files below each folder.
        sidecars: Dict that this function fills with the sidecars of the files.
        left_out: Collects the names of all other files.
    """
    for folder in folders:
        parts = []
        for path, below, files in os.walk(
            root / folder, onerror=refuse_folder_error, followlinks=True
        ):
            below[:] = [name for name in _visible(below) if not leads_back(Path(path, name))]
            part = os.path.relpath(path, root)
            names, beside = _split_sidecars(_visible(files), kind, left_out, part)
            parts.append((part, names))
            for name, files_beside in beside.items():
                sidecars[f"{part}/{name}"] = tuple(
                    (field, f"{part}/{file}") for field, file in files_beside
                )
        inside[folder] = sum(len(names) for _, names in parts)
        yield from (f"{path}/{name}" for path, names in sorted(parts) for name in names)


def _split_sidecars(
    names: Sequence[str], kind: FileKind, left_out: LeftOut, inside: str
) -> tuple[list[str], Sidecars]:
    """Split the names in a folder into files of a kind and their sidecars, and add all other names to ``left_out``.

    Args:
        names: Names of the files in the folder.
        kind: Kind of the files.
        left_out: Collects the names of the other files.
        inside: Name of the folder, for ``left_out``.

    Returns:
        The files of the kind, in the given order, and their sidecars.
    """
    images = [name for name in names if kind.fits(name)]
    if len(images) < len(names):
        left_out.add(inside, (name for name in names if not kind.fits(name)))
    # The ending is checked first: that takes 0.1 us per name, the expression alone 0.3 us.
    candidates = [
        found
        for name in names
        if name[-2:].lower() in ("on", "ng") and (found := _SIDECAR.fullmatch(name))
    ]
    if not candidates:
        return images, {}
    by_stem: dict[str, list[str]] = {}
    for name in images:
        by_stem.setdefault(name.rpartition(".")[0], []).append(name)
    sidecars: Sidecars = {}
    for found in candidates:
        for image in by_stem.get(found[1], ()):
            sidecars[image] = (*sidecars.get(image, ()), (found[2].lower(), found[0]))
    taken = {file for beside in sidecars.values() for _, file in beside}
    images = [name for name in images if name not in taken]
    return images, {name: beside for name, beside in sidecars.items() if name not in taken}


def _visible(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if not name.startswith("."))
