"""Recipes from Albumentations pipelines."""
