"""From uniform numbers to the laws that operations draw from."""
