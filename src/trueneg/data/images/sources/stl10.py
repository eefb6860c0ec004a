"""STL-10: 5,000 training, 8,000 test and 100,000 unlabelled images of 96 × 96 pixels (Coates et
al., 2011).
"""

import numpy as np

from trueneg.data.images.official_archive import OfficialArchive
from trueneg.specs.sources import UNLABELLED

LABEL = np.dtype([("label", np.uint8)])
IMAGE = np.dtype([("image", np.uint8, (3, 96, 96))])
ARCHIVE = OfficialArchive(
    "stl10",
    ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"),
    rows={"train": 5_000, "test": 8_000},
    url="http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",  # 2.6 GB, mostly unlabelled
    md5="91f7769df0f17e558f3565bffb0c7dfb",
    unpacked="stl10_binary",
    # Labels first, so that errors in them are reported before 360 MB of images are read.
    binary_files={
        "train_y.bin": (5_000, LABEL),
        "test_y.bin": (8_000, LABEL),
        "train_X.bin": (5_000, IMAGE),
        "test_X.bin": (8_000, IMAGE),
    },
    first_label=1,
    column_major=True,
    unlabelled_files={"unlabeled_X.bin": (UNLABELLED["stl10"], IMAGE)},
)
load = ARCHIVE.load
user_files = ARCHIVE.user_files
