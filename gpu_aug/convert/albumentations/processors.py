"""Import of the settings of a Compose for boxes, keypoints and additional targets."""

from typing import Any

from gpu_aug.convert.albumentations.node import Node
from gpu_aug.convert.report import Walk
from gpu_aug.errors import RecipeError
from gpu_aug.targets.targets import BOX_ALIASES, BoxParams, KeypointParams

# Targets of a recipe -> the key of their labels in a sample.
_LABELS = {"boxes": "box_labels", "keypoints": "keypoint_labels"}
# Kind of an additional target -> where a sample has it, with its name as {}. All images of a sample get equal draws.
_ADDITIONAL = {
    "image": "images[{!r}] of a sample of gpu_aug.apply or Recipe.transform; a Loader reads one image per sample",
    "mask": "a layer of masks",
    "masks": "layers of masks",
}
# Arguments of BboxParams that drop or cut boxes.
_FILTERS = (
    "min_area",
    "min_visibility",
    "min_width",
    "min_height",
    "clip",
    "filter_invalid_bboxes",
)


def read_processors(root: Node, walk: Walk) -> dict[str, Any]:
    """Return the settings for targets of a pipeline's outermost container, as keyword arguments of Recipe.

    Settings of inner containers are ignored, as in Albumentations.
    """
    if root.children is None:
        return {}
    _read_settings(root, walk)
    found: dict[str, Any] = {}
    for name, key, read in (
        ("bbox_params", "boxes", _read_boxes),
        ("keypoint_params", "keypoints", _read_keypoints),
    ):
        given = root.args.get(name)
        if not given:
            continue
        try:
            found[key] = read(dict(given), root.args.get("p", 1.0))
        except RecipeError as error:
            walk.refuse(f"{root.name} {name}", str(given), str(error))
        else:
            walk.add(f"{root.name} {name}", str(given), "kept", repr(found[key]))
            if fields := given.get("label_fields"):
                note = f"give {', '.join(map(repr, fields))} as {_LABELS[key]}, in columns where there are several"
                walk.add(f"{root.name} {name} label_fields", str(fields), "changed", note)
    return found


def _read_settings(root: Node, walk: Walk) -> None:
    for name, kind in dict(root.args.get("additional_targets") or {}).items():
        path, source = f"{root.name} additional_targets", f"{name}: {kind}"
        if kind in _ADDITIONAL:
            walk.add(path, source, "changed", f"give {name!r} as {_ADDITIONAL[kind].format(name)}")
        else:
            walk.refuse(
                path,
                source,
                f"a sample has one set of {kind} here, and {name!r} would be a second",
                f"all {kind} in one set, told apart by a column of labels",
            )
    if root.args.get("seed") is not None:
        note = "the recipe draws from the seed of the loader or of apply"
        walk.add(f"{root.name} seed", str(root.args["seed"]), "changed", note)


def _read_boxes(given: dict[str, Any], p: float) -> BoxParams:
    box_format = str(given.get("format"))
    if box_format not in BOX_ALIASES:
        raise RecipeError(f"format must be one of {', '.join(BOX_ALIASES)}, got {box_format!r}")
    shape, normalized = BOX_ALIASES[box_format]
    ratio = given.get("max_accept_ratio")
    if p < 1 and (ratio is not None or any(given.get(name) for name in _FILTERS)):
        raise RecipeError(
            "with p below 1 boxes are filtered on some images only, and a recipe filters on all; "
            "nearest: p=1 outside, and a Compose with p inside"
        )
    return BoxParams(
        format=shape,  # type: ignore[arg-type]
        normalized=normalized,
        min_area=given.get("min_area", 0.0),
        min_visibility=given.get("min_visibility", 0.0),
        min_width=given.get("min_width", 0.0),
        min_height=given.get("min_height", 0.0),
        max_accept_ratio=ratio,
        clip=given.get("clip", False),
        filter_invalid=given.get("filter_invalid_bboxes", False),
        check_each=given.get("check_each_transform", True),
        shrink_in_holes=True,
    )


def _read_keypoints(given: dict[str, Any], p: float) -> KeypointParams:
    if given.get("format") != "xy":
        raise RecipeError(
            f"keypoints are (x, y) here, got format {given.get('format')!r}; nearest: 'xy'"
        )
    remove = bool(given.get("remove_invisible", True))
    if p < 1 and remove:
        raise RecipeError(
            "with p below 1 keypoints are removed on some images only, and a recipe removes on all; "
            "nearest: p=1 outside, and a Compose with p inside"
        )
    return KeypointParams(
        remove_invisible=remove,
        check_each=bool(given.get("check_each_transform", True)),
        pixel_index=True,
        drop_in_holes=remove,
        flip_pairs=(),  # Albumentations exchanges no labels
    )
