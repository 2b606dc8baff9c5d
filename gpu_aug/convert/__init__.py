"""From the pipelines of other libraries to recipes, and back."""
