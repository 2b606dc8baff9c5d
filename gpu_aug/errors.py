"""The errors of this package.

ValueError
└── RecipeError         a recipe, or an operation in it, that cannot be built
    └── EngineError     an engine that is unknown, not installed, or cannot do a recipe exactly
"""


class RecipeError(ValueError):
    """A recipe, or an operation in it, that cannot be built."""


class EngineError(RecipeError):
    """An engine that is unknown, not installed, or cannot carry out a recipe exactly."""
