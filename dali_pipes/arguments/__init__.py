"""The arguments of a loader: their checks, their explanation, and the choices of "auto"."""
