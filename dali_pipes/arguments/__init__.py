"""Check the arguments of a loader, choose values for "auto", and explain the choices."""
