"""ImageNet's images with the classes that its development kit or Kaggle's files give them."""

from pathlib import Path

from readers.formats.files import FileDataset
from readers.formats.folder import FileKind, FilesFound, find_files
from readers.formats.imagenet.classes import (
    KAGGLE_CLASSES,
    Classes,
    find_devkit,
    read_devkit,
    read_kaggle,
)
from readers.formats.splits import canonical, in_order, no_such_split, several_splits, split_alone
from readers.sample import IMAGE_FIELDS, PathLike, SourceError

_IMAGES = FileKind("images", IMAGE_FIELDS)
_KAGGLE_IMAGES = "ILSVRC/Data/CLS-LOC"


class ImageNetDataset(FileDataset):
    """Images of ILSVRC 2012, whose classes count from 0 in the order of their WordNet ids.

    These are the classes of torchvision's ImageNet, and of a folder of all 1000 class folders. `class_names` are the
    WordNet ids, since two words name two classes each; `words` are the words. The validation images, which lie in one
    folder, get their classes from the development kit, or from Kaggle's
    ``LOC_val_solution.csv``; images in class folders from the folder. Test images have the label -1.

    Args:
        root: One of
            a folder of images, ``ILSVRC2012_img_val``, or of class folders, with ``devkit``,
            a folder that holds the kit beside ``train`` and ``val``,
            Kaggle's folder, which holds ``LOC_synset_mapping.txt`` and ``ILSVRC``.
        split: Which split of the last two.
        devkit: The folder that ILSVRC2012_devkit_t12.tar.gz unpacks to.

    Raises:
        SourceError: Kit or images are missing, there are several splits, a class folder is no class, or the numbers of images
            and lines do not fit.
    """

    def __init__(
        self, root: PathLike, *, split: str | None = None, devkit: PathLike | None = None
    ) -> None:
        root = Path(root).absolute()
        is_kaggle = devkit is None and (root / KAGGLE_CLASSES).is_file()
        classes = read_kaggle(root) if is_kaggle else read_devkit(Path(devkit or root).absolute())
        folder = _folder_of(root / _KAGGLE_IMAGES if is_kaggle else root, split)
        found = _in_class_folders(folder, classes) or _in_one_folder(folder, classes)
        self._words = tuple(classes.words.values())
        super().__init__(folder, found.names, found.labels, tuple(classes.words), *found[3:])
        if self.unlabelled and self.unlabelled[0] == len(self):
            self.unlabelled = (
                None  # the images of the test split, whose labels were never published
            )

    @property
    def words(self) -> tuple[str, ...]:
        """The words of each class, such as "tench, Tinca tinca"."""
        return self._words


def fits(folder: Path) -> bool:
    """Whether a folder is Kaggle's, or holds the development kit beside images."""
    has_splits = any(split_alone(path.name) for path in folder.iterdir())
    is_kaggle = (folder / KAGGLE_CLASSES).is_file() and (folder / _KAGGLE_IMAGES).is_dir()
    return is_kaggle or (has_splits and find_devkit(folder) is not None)


def _folder_of(root: Path, split: str | None) -> Path:
    if not root.is_dir():
        raise SourceError(f"{root} is no folder: give the one that holds the images")
    told = {
        path.name: said
        for path in sorted(root.iterdir())
        if path.is_dir() and (said := split_alone(path.name))
    }
    if split is None and len(told) < 2:
        return root / next(iter(told), "")
    if split is None:
        raise SourceError(several_splits(str(root), in_order(told.values()), ""))
    wanted = [name for name, said in told.items() if split == name or said == canonical(split)]
    if not wanted:
        raise SourceError(no_such_split(str(root), split, in_order(told.values())))
    return root / wanted[0]


def _in_class_folders(folder: Path, classes: Classes) -> FilesFound | None:
    """Return the images of class folders; None where there are no folders."""
    inside = [path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."]
    if not inside:
        return None
    place = {wnid: label for label, wnid in enumerate(classes.words)}
    unknown = sorted(name for name in inside if name not in place)
    if unknown:
        raise SourceError(
            f"{folder} has the folder {unknown[0]}, which is none of the {len(place)} classes: move it elsewhere"
        )
    found = find_files(folder, _IMAGES)
    labels = [place[found.class_names[label]] for label in found.labels]
    return found._replace(labels=labels)


def _in_one_folder(folder: Path, classes: Classes) -> FilesFound:
    found = find_files(folder, _IMAGES)
    if split_alone(folder.name) == "test" or found.names[0].startswith("ILSVRC2012_test_"):
        return found
    return found._replace(labels=classes.of_validation(found.names))
