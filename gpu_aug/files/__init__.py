"""Recipes in YAML and JSON files, and what such files may hold."""
