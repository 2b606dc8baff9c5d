"""Arrow files, including those saved by Hugging Face datasets."""
