"""Image sources (all give a :class:`trueneg.datasets.images.ImageSource`), splits and imbalance."""
