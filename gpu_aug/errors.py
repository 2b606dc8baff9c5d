"""The errors of this package.

ValueError
├── RecipeError         a recipe, or an operation in it, that cannot be built
│   └── EngineError     an engine that is unknown, not installed, or cannot do a recipe exactly
└── TargetsError        boxes, keypoints, masks or labels of a sample that are wrong
"""


class RecipeError(ValueError):
    """A recipe, or an operation in it, that cannot be built."""


class EngineError(RecipeError):
    """An engine that is unknown, not installed, or cannot carry out a recipe exactly."""


class TargetsError(ValueError):
    """Boxes, keypoints, masks or labels of a sample that are wrong, or that a recipe cannot move."""
