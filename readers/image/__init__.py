"""Headers of encoded images: size, orientation, restart intervals; and raw pixels as files."""
