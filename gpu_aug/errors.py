"""The errors of this package.

ValueError
├── RecipeError         a recipe, or an operation in it, that cannot be built
│   └── EngineError     an engine that is unknown, not installed, or cannot do a recipe exactly
└── TargetsError        boxes, keypoints, masks or labels of a sample that are wrong
"""


class RecipeError(ValueError):
    """A recipe, or an operation in it, that cannot be built.

    Example:
        >>> Recipe([Normalize(), Solarize(0.5)])
        Traceback (most recent call last):
        RecipeError: Solarize must come before Normalize, ...
    """


class EngineError(RecipeError):
    """An engine that is unknown, not installed, or cannot carry out a recipe exactly.

    Example:
        >>> compile_engine("numpy", Recipe([CenterCrop(32)]), device=torch.device("cpu"))
        Traceback (most recent call last):
        EngineError: ...
    """


class TargetsError(ValueError):
    """Boxes, keypoints, masks or labels of a sample that are wrong, or that a recipe cannot move.

    Example:
        >>> Targets(boxes=[[10, 20, 30]])
        Traceback (most recent call last):
        TargetsError: ...
    """
