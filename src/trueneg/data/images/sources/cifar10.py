"""CIFAR-10: 50,000 training and 10,000 test images of 32 × 32 pixels in 10 classes (Krizhevsky
2009).

Reads parquet files or the official binary version. The Python version is never loaded because it
consists of pickles, which can execute arbitrary code.
"""

import numpy as np

from trueneg.data.images.official_archive import OfficialArchive

# red, green and blue planes
RECORD = np.dtype([("label", np.uint8), ("image", np.uint8, (3, 32, 32))])
ARCHIVE = OfficialArchive(
    "cifar10",
    ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    rows={"train": 50_000, "test": 10_000},
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    unpacked="cifar-10-batches-bin",
    binary_files=dict.fromkeys(
        (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"), (10000, RECORD)
    ),
)
load = ARCHIVE.load
user_files = ARCHIVE.user_files
