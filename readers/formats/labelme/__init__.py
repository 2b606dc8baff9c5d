"""LabelMe's annotations: one JSON file of shapes per picture."""
