"""Charts as SVG: widths are shares of the page's, so that they fit any screen without a script."""
