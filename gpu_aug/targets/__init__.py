"""Targets, which belong to an image and move with it: boxes, keypoints, masks and soft labels."""
