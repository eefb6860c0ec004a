"""The image sources by name, and the module of each, which has a function ``load``."""

# Imported when used: checking a configuration needs neither pillow nor scikit-learn.
IMAGE_SOURCES = {
    "digits": "trueneg.data.images.digits",
    "cifar10": "trueneg.data.images.cifar10",
    "stl10": "trueneg.data.images.stl10",
    "parquet": "trueneg.data.images.parquet",
}
