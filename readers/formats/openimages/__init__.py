"""OpenImages: boxes or labels of images in a CSV file, and the images."""
