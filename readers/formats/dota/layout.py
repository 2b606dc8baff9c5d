"""Search for the pictures and label files of a DOTA dataset."""

import re
from pathlib import Path

from readers.formats.boxes.checks import unpaired_warnings
from readers.formats.boxes.dataset import Entry, by_stem, names_below, stem_of
from readers.formats.named_splits import inside_split
from readers.plural import counted
from readers.sample import SourceError, is_image_file

# labelTxt, labelTxt-v1.5 (which holds DOTA-v1.5_train) and MMRotate's annfiles.
LABELS = re.compile(r"labeltxt.*|annfiles", re.IGNORECASE)
# Upright boxes lie beside the oriented ones: DOTA-v1.5_train_hbb, trainset_reclabelTxt.
_UPRIGHT = re.compile(r".*hbb|.*reclabeltxt", re.IGNORECASE)


def find_layout(
    root: Path, split: str | None, annotations: str | None
) -> tuple[list[Entry], list[str], list[str]]:
    """Return the entries of a split, the label files of all splits that have pictures, and warnings.

    Args:
        root: Folder that holds ``images`` and ``labelTxt``, or folders of splits with these or in these.
        split: Name of the split; None if there is only one.
        annotations: Name of the folders of label files; None if they have one of DOTA's names.

    Raises:
        SourceError: There are no pictures with labels, labels of several versions but `annotations` is None, several splits but
            `split` is None, no such split, or two files of one name.
    """
    names = list(names_below(root))
    labels = {name: folder for name in names if (folder := label_folder(name, annotations))}
    versions = sorted({*labels.values()})
    if len(versions) > 1:
        raise SourceError(
            f"{root} has labels in the folders {', '.join(versions)}: say which, annotations={versions[0]!r}"
        )
    # In images/train and labelTxt/train, the second folder tells the split.
    images = {name: "images" for name in names if is_image_file(name)}
    tails = {name: name.removeprefix(f"{top}/") for name, top in (labels | images).items()}
    inside = inside_split(root, tails.values(), split)
    # Folders do not count, as pictures of DOTA lie in part1/images, but their labels do not lie in part1.
    image_of, label_of = (
        by_stem((name for name in some if inside(tails[name])), root, with_folders=False)
        for some in (images, labels)
    )
    both = sorted(image_of.keys() & label_of)
    if not both:
        raise SourceError(
            f"{root} has labels for none of the {counted(len(image_of), 'picture')} of the split: they lie in folders called "
            "labelTxt or annfiles; name others, annotations='labels'"
        )
    entries = [Entry(stem_of(image_of[stem]), image_of[stem], label_of[stem]) for stem in both]
    stems = {Path(name).stem for name in images}
    num_bare, num_alone = len(image_of) - len(both), len(label_of) - len(both)
    return (
        entries,
        [name for name in labels if Path(name).stem in stems],
        unpaired_warnings(root, num_bare, num_alone, ".txt"),
    )


def label_folder(name: str, annotations: str | None = None) -> str:
    """Return the folder of labels that a label file lies in; "" for other files.

    Args:
        name: Name of the file, with folders.
        annotations: Name of the folder. If it is None, DOTA's names are recognised, without folders of upright boxes.
    """
    *folders, file = name.split("/")
    is_upright = annotations is None and any(map(_UPRIGHT.fullmatch, folders))
    if is_upright or not file.lower().endswith(".txt"):
        return ""
    return next(
        filter(LABELS.fullmatch if annotations is None else annotations.__eq__, folders), ""
    )
