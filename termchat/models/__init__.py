"""Models: the catalogue that names them, the header that describes them, the folders they lie in."""
