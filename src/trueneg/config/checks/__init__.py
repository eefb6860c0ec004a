"""Settings of a study that exclude each other, one module per kind of study."""
