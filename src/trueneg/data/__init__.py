"""Image sources (all give a :class:`trueneg.data.images.image_source.ImageSource`), splits and imbalance."""
