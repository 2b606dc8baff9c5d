"""The choice of a split among the names that a description, or the folders of a dataset, have for splits."""

from collections.abc import Callable, Iterable, Mapping

from readers.detect.splits import canonical, in_order, no_such_split, several_splits, split_alone
from readers.sample import SourceError


def choose_name(
    names: Mapping[str, str], split: str | None, source: object, instead: str = ""
) -> str:
    """Return the name that a dataset itself has for a split.

    Args:
        names: Its names, each with the split that it stands for: ``{"train2017": "train"}``.
        split: One of the names, or a word for the split; None for the only one.
        source: The data, for errors.
        instead: Another way to choose, for the error about several splits.

    Raises:
        SourceError: There are several splits and none is asked for, there is no such split, or several names stand for it.
    """
    there = in_order(names.values())
    if split is None and len(names) > 1:
        raise SourceError(several_splits(str(source), there, instead))
    if split is not None and split in names:
        return split
    wanted = None if split is None else canonical(split)
    alike = [name for name, one in names.items() if wanted in (None, canonical(one))]
    if len(alike) > 1:
        raise SourceError(
            f"{source}: the split {split!r} may be {' or '.join(alike)}: name one of these"
        )
    if not alike:
        raise no_such_split(str(source), split or "train", there)
    return alike[0]


def inside_split(source: object, names: Iterable[str], split: str | None) -> Callable[[str], bool]:
    """Return a function that tells whether a file belongs to a split, by the folder of the dataset in which the file lies.

    Args:
        source: The folder of the dataset, for errors.
        names: Files with annotations, relative to it.
        split: Name of the split; None for the only one.

    Raises:
        SourceError: There are several splits and none is asked for, or there is no such split.
    """
    folders = {name.partition("/")[0] for name in names if "/" in name}
    splits = {folder: said for folder in folders if (said := split_alone(folder))}
    there = in_order(splits.values())
    if split is None:
        if len(there) > 1:
            raise SourceError(several_splits(str(source), there, ""))
        return bool
    inside = {folder for folder, said in splits.items() if said in (split, canonical(split))}
    if not inside:
        raise no_such_split(str(source), split, there)
    return lambda name: name.partition("/")[0] in inside
