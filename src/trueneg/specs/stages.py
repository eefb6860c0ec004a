"""Versions of the steps that have no settings of their own; raise one when a change to the step's
code changes results.
"""

from trueneg.specs.sources import IMAGE_SOURCES

DECODING = dict.fromkeys(IMAGE_SOURCES, 1)  # decoding and checking the images of each source
VERSIONS = {
    "splitter": 1,  # splitting reports into sentences
    "subsets": 1,  # drawing splits and imbalanced subsets
    "language_model": 1,  # training language models
    "likelihoods": 1,  # scoring sentences
    "class_probability": 1,  # η from likelihoods, and its controls
    "training/images": 1,  # the loop, augmentation and loss of two views
    "training/image-text": 1,  # the loop, networks and loss of image–text pairs
    "training/text": 1,  # the loop, networks and loss of pairs of texts
    "features": 1,  # vectors of frozen towers
    "mining": 1,  # hard negatives
    "evaluation/images": 1,  # encoding the images of a run
    "evaluation/image-text": 1,  # encoding the pairs of a run
    "evaluation/text": 1,  # encoding the texts of a run
    "simulation": 2,  # the experiments of the theory
    "comparison": 3,  # selection, headroom and primary contrast
}
