"""Choice of a split by the name that the caller gives, among the split names or folders of a dataset."""

from collections.abc import Callable, Iterable, Mapping

from readers.detect.splits import canonical, in_order, no_such_split, several_splits, split_alone
from readers.sample import SourceError


def choose_name(
    names: Mapping[str, str], split: str | None, source: object, instead: str = ""
) -> str:
    """Return the dataset's own name for the split that the caller gives.

    Args:
        names: Dict from the dataset's own name of a split to its usual name: ``{"train2017": "train"}``.
        split: An own or a usual name, or a synonym such as "valid"; None if there is only one split.
        source: The data, for errors.
        instead: Another way to choose, for the error about several splits.

    Raises:
        SourceError: There are several splits but `split` is None, the split does not exist, or several names stand for it.
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
    """Return a function that returns whether a file belongs to a split, by the first folder in its name.

    Args:
        source: The folder of the dataset, for errors.
        names: Names of the annotation files, relative to the folder.
        split: Name of the split; None if there is at most one, and then all files belong to it.

    Raises:
        SourceError: There are several splits but `split` is None, or the split does not exist.
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
