"""Video containers: opening them, finding packets in them, and detecting missing bytes."""
