"""What belongs to an image and moves with it: boxes, keypoints, masks and soft labels."""
