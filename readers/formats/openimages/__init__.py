"""OpenImages: CSV tables of boxes or image labels, with the images in a folder."""
