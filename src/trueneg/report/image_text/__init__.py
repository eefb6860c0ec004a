"""Figures and tables of image–text studies; each module takes tidy tables and knows nothing of a configuration."""
