"""Image sources (each returns a :class:`trueneg.data.images.image_source.ImageSource`), splits and imbalance."""
