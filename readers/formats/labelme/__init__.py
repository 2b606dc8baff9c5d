"""LabelMe's annotations: a JSON file of shapes for each picture."""
