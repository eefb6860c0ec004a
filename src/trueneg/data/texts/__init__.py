"""Texts for text studies: their sources, one module each, and their splits."""
