"""Labels: class names, vectors, labels from elsewhere, and samples without one."""
