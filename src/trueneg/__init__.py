"""TrueNeg: contrastive learning that corrects for false negatives.

The losses (``trueneg.losses``) need torch alone; everything else belongs to the pipeline.
"""

__version__ = "0.1.0"
