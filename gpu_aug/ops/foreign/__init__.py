"""Steps of users and of other libraries in a recipe."""
