"""Labels: class names, label vectors, labels that the caller gives, and warnings about samples without a label."""
