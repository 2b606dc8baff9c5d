"""Recipes from torchvision pipelines."""
