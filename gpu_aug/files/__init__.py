"""Recipes in YAML and JSON files, and the schema of these files."""
