"""Image sources, image–text sources, the phantom, splits and imbalance."""
