"""Detection of folders that Hugging Face datasets saved."""

from readers.detect.listed_folder import ListedFolder
from readers.detect.splits import canonical, choose_split, in_order, no_such_split

_SAVED = "dataset_info.json"
_SAVED_SPLITS = "dataset_dict.json"
_STATE = "state.json"


def detect_saved(folder: ListedFolder, split: str | None) -> list[str] | None:
    """Return the folder of a saved dataset, or the folder or files of one split in it; see `Format.detect`.

    Returns:
        Paths to open, None if the folder holds no dataset that Hugging Face's datasets saved.
    """
    path = folder.path
    has_arrow = any(name.endswith(".arrow") for name in folder.files)
    # TensorFlow Datasets also writes a dataset_info.json, so this name alone is no proof.
    is_saved = _SAVED in folder.files and (_STATE in folder.files or has_arrow)
    has_splits = _SAVED_SPLITS in folder.files and not is_saved
    if not is_saved and not has_splits:
        return None
    if split is None:
        return [str(path)]
    if has_splits:
        names = [name for name in folder.folders if (path / name / _STATE).is_file()]
        wanted = split if split in names else canonical(split)
        if wanted not in names:
            raise no_such_split(str(path), split, in_order(names))
        return [str(path / wanted)]
    if _STATE in folder.files:
        raise no_such_split(str(path), split, [])
    found = sorted(one for one in path.glob("*.arrow") if one.name[:6] != "cache-")
    return choose_split(list(map(str, found)), split, str(path))
