"""Replacement of steps that hold the user's own code, by `translate=`, and the line that the error for such a step suggests."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gpu_aug.convert.known_code import IDENTITY, does_the_same
from gpu_aug.convert.registry import Refused
from gpu_aug.errors import RecipeError
from gpu_aug.ops.operation import Operation

Translate = Mapping[Any, Callable[[Any], Any]]
"""Class of a step, or function that a step is or holds -> a function that takes the step and returns what replaces it."""

FORM = (
    "write {Class or function: lambda step: operation}, where the right side takes the step and returns an operation "
    "(HorizontalFlip(), not its class), a step of the library, a list of these, or None for nothing; build Views in place of the import"
)
"""What `translate` takes, for errors."""

# Part of a name in lower case -> what a step of such a name probably does; the first match counts.
_GUESSES = {
    "255": "gpu_aug.Normalize(0.0, 1 / 255)",
    "rgbshift": "gpu_aug.RGBShift(...)",
    "bgr": "gpu_aug.BatchFunction(lambda images: images.flip(1), spatial=False)",
    **dict.fromkeys(("rgb", "identity", "noop", "stack", "float"), "None"),
    "motion": "gpu_aug.MotionBlur(...)",
    "median": "gpu_aug.MedianBlur(...)",
    "blur": "gpu_aug.GaussianBlur(...)",
    "solariz": "gpu_aug.Solarize(...)",
    "posteriz": "gpu_aug.Posterize(...)",
    "equaliz": "gpu_aug.Equalize(...)",
    "invert": "gpu_aug.Invert(...)",
    **dict.fromkeys(("gray", "grey"), "gpu_aug.Grayscale(...)"),
    **dict.fromkeys(("jitter", "color", "colour"), "gpu_aug.ColorJitter(...)"),
    "contrast": "gpu_aug.RandomBrightnessContrast(...)",
    "gamma": "gpu_aug.Gamma(...)",
    "noise": "gpu_aug.GaussianNoise(...)",
    **dict.fromkeys(("erasing", "erase"), "gpu_aug.RandomErasing(...)"),
    **dict.fromkeys(("cutout", "dropout"), "gpu_aug.CoarseDropout(...)"),
    **dict.fromkeys(("jpeg", "compress"), "gpu_aug.JPEG(...)"),
    "vertical": "gpu_aug.VerticalFlip(...)",
    **dict.fromkeys(("flip", "mirror"), "gpu_aug.HorizontalFlip(...)"),
    "rot90": "gpu_aug.RandomRotate90(...)",
    "rotat": "gpu_aug.RandomRotation(...)",
    "affine": "gpu_aug.RandomAffine(...)",
    **dict.fromkeys(("resizedcrop", "cropandresize"), "gpu_aug.RandomResizedCrop(...)"),
    "centercrop": "gpu_aug.CenterCrop(...)",
    "crop": "gpu_aug.RandomCrop(...)",
    "letterbox": "[gpu_aug.LongestMaxSize(...), gpu_aug.PadIfNeeded(...)]",
    **dict.fromkeys(("resize", "rescale"), "gpu_aug.Resize(...)"),
    "pad": "gpu_aug.Pad(...)",
    **dict.fromkeys(("normali", "standardi", "preprocessinput"), "gpu_aug.Normalize(...)"),
}
# What makes a tensor of an image; in torchvision it also says where values begin to be [0, 1].
_TO_TENSOR = {"torchvision": "torchvision.transforms.ToTensor()", "Albumentations": "None"}
# Parts of names of classes that return several views of an image.
_SEVERAL = ("two", "twice", "multi", "view", "crops")
_CONTAINERS = ("Compose", "RandomApply", "RandomChoice", "RandomOrder", "Sequential")


class Translations:
    """The argument ``translate`` of an import, and which of its keys met a step.

    Args:
        given: Class or function -> function that takes the step and returns an operation, a step of the library, a list of
            these, or None for nothing.

    Raises:
        RecipeError: ``given`` is no mapping, or one of its keys or values cannot be called.
    """

    def __init__(self, given: Translate | None) -> None:
        if not isinstance(given, Mapping | None):
            raise RecipeError(f"translate must be a dictionary, got {given!r}: {FORM}")
        self._given = dict(given or {})
        self._met: set[Any] = set()
        self._active: list[Any] = []
        for key, replace in self._given.items():
            if not (callable(key) and callable(replace)):
                raise RecipeError(f"translate cannot use {key!r}: {replace!r}: {FORM}")

    def find(self, step: Any) -> Any:
        """Return the key for a step: a function that it is or holds, also in a partial, else its class; None if none is."""
        functions = functions_of(step)
        for key in (*functions, *(getattr(one, "func", one) for one in functions), type(step)):
            try:
                known = key in self._given
            except TypeError:  # an object that cannot be a key
                continue
            if known and key not in self._active:
                self._met.add(key)
                return key
        return None

    @contextmanager
    def replacing(self, key: Any, step: Any) -> Iterator[list[Any]]:
        """Enter what replaces a step; inside, the key has no effect, so that a step may stand in its own replacement."""
        made = self._given[key](step)
        self._active.append(key)
        try:
            yield [] if made is None else list(made) if isinstance(made, list | tuple) else [made]
        finally:
            self._active.remove(key)

    def unused(self) -> list[str]:
        """Return the names of the keys that met no step."""
        return [_short(key) for key in self._given if key not in self._met]


def refuse_functions(step: Any) -> None:
    """Refuse a Lambda of Albumentations, unless all of its functions do nothing.

    Raises:
        Refused: It has functions that do something; the error has the line to write.
    """
    held = getattr(step, "custom_apply_fns", {"image": None})
    targets = [key for key, function in held.items() if not does_the_same(function, IDENTITY)]
    if targets:
        outside = f"calling its function on the {' and '.join(targets)} before the recipe, and "
        before, meaning = ("", "") if "image" in targets else (outside, "identity")
        raise Refused(
            "it holds functions, which a recipe cannot look into",
            before + suggestion(step, "Albumentations", meaning),
        )


def functions_of(step: Any) -> list[Any]:
    """Return the functions that a step is or holds: a plain function, or those of a Lambda of either library."""
    held = getattr(step, "custom_apply_fns", None)
    if isinstance(held, dict):
        return [
            function for function in held.values() if getattr(function, "__name__", "") != "noop"
        ]
    return [getattr(step, "lambd", step)]


def suggestion(step: Any, library: str, meaning: str = "") -> str:
    """Return the argument ``translate=`` to write for a step that holds the user's own code.

    Args:
        step: The step.
        library: "torchvision" or "Albumentations".
        meaning: What the step does, as a name; "" to guess from its own name.
    """
    function = functions_of(step)[0] if _is_lambda(step) and functions_of(step) else None
    name = _short(step if function is None else function)
    key = _class_of_lambda(step, library) if name == "<lambda>" else name
    if views := _views(step, name):
        return f"Views({views}), with {key} as step"
    if held := _pipelines(step):
        return f"translate={{{key}: lambda step: step.{held[0]}}}, if the rest of {key} may be left out"
    # Albumentations' Lambda has a name of its own
    meaning = meaning or f"{getattr(step, 'name', None) or ''} {name}"
    has_p = isinstance(getattr(step, "p", None), int | float) and step.p != 1
    if guess := _guess(meaning, library, has_p=has_p):
        units = ", for images in [0, 1]" * ("Normalize(..." in guess)
        return f"translate={{{key}: lambda step: {guess}}}{units}"
    return (
        f"strict=False, which calls it on the CPU; translate={{{key}: lambda step: None}} if it only converts types; "
        "or an operation in place of None"
    )


def _views(step: Any, name: str) -> str:
    """Return the list of recipes of a step that returns several views, as code; "" for other steps."""
    held = _pipelines(step)
    recipes = [f"Recipe.from_torchvision(step.{one})" for one in held]
    if len(held) > 1:
        return f"[{', '.join(recipes)}]"
    if not (held and any(part in name.lower() for part in _SEVERAL)):
        return ""
    if isinstance(vars(step).get(held[0]), list | tuple):
        return f"[Recipe.from_torchvision(one) for one in step.{held[0]}]"
    counts = [one for one in vars(step) if one in ("n_views", "num_views", "n_crops")]
    return f"[{recipes[0]}] * {f'step.{counts[0]}' if counts else 2}"


def _guess(name: str, library: str, *, has_p: bool) -> str:
    """Return what a step of this name probably does, as code; "" if the name does not say."""
    lower = name.rpartition(".")[2].lower().replace("_", "")
    if "tensor" in lower or "numpy" in lower:
        return _TO_TENSOR[library]
    found = next((guess for part, guess in _GUESSES.items() if part in lower), "")
    if not found:
        named = max(
            (one for one in Operation._classes if one.lower() in lower), key=len, default=""
        )
        found = f"gpu_aug.{named}(...)" if named else ""
    if not has_p or found in ("", "None"):
        return found
    if hasattr(Operation._classes.get(found.partition("(")[0].removeprefix("gpu_aug.")), "p"):
        return found.replace("...)", "..., p=step.p)")
    return f"gpu_aug.RandomApply([{found.strip('[]')}], step.p)"


def _pipelines(step: Any) -> list[str]:
    """Return the names of a step's attributes that are pipelines, or lists of transforms."""
    held = dict(getattr(step, "__dict__", {}))
    held |= held.get("_modules", {})  # of a torch module
    return [
        name
        for name, value in held.items()
        if name.isidentifier()
        and (
            type(value).__name__ in _CONTAINERS
            or (
                isinstance(value, list | tuple)
                and value
                and all(callable(one) and not isinstance(one, type) for one in value)
            )
        )
    ]


def _class_of_lambda(step: Any, library: str) -> str:
    """Return the key for a lambda expression, which has no name: the class that holds it."""
    if library == "Albumentations":
        return "A.Lambda"
    if type(step).__name__ != "Lambda":
        return "types.FunctionType"
    version = ".v2" if type(step).__module__.startswith("torchvision.transforms.v2") else ""
    return f"torchvision.transforms{version}.Lambda"


def _is_lambda(step: Any) -> bool:
    return type(step).__name__ == "Lambda" or hasattr(step, "__name__")


def _short(code: Any) -> str:
    code = getattr(code, "func", code)  # of a partial
    library = "numpy." if getattr(code, "__module__", "") == "numpy" else ""
    return f"{library}{getattr(code, '__name__', type(code).__name__)}"
