"""TrueNeg: contrastive learning that corrects for false negatives.

The losses (``trueneg.losses``) depend only on torch; everything else belongs to the pipeline.
"""

__version__ = "0.4.0"
