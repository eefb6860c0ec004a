"""One of the processes that train together: ``python -m trueneg.training.worker FOLDER RANK``, started by ``together``."""

import contextlib
import datetime
import json
import logging
import os
import sys
import threading
import traceback
from pathlib import Path

import torch
from torch import distributed

from trueneg.compute.distributed import Processes
from trueneg.errors import UserError
from trueneg.legible import LegibleFormatter
from trueneg.training.engine import read_block
from trueneg.training.together import FAILED, JOB, MEETING


def main(folder: Path, rank: int) -> None:
    """Train this process's share of a job; one that fails ends at once, waiting for no exchange with the others.

    Args:
        folder: with the job; a sentence for the user is left there.
        rank: which of the processes this is.
    """
    threading.Thread(target=_end_with_parent, name="end with parent", daemon=True).start()
    handler = logging.StreamHandler()
    handler.setFormatter(LegibleFormatter())
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, handlers=[handler])
    job = json.loads((folder / JOB).read_text())
    device = torch.device(job["devices"], rank) if job["devices"] == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    try:
        block = read_block(**job["block"])
        distributed.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            init_method=f"file://{folder / MEETING}",
            rank=rank,
            world_size=job["count"],
            timeout=datetime.timedelta(seconds=job["patience"]),
        )
        block.train(device, Processes(rank, job["count"]))
    except UserError as error:
        with contextlib.suppress(OSError):
            (folder / FAILED.format(rank=rank)).write_text(str(error))
        os._exit(1)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    distributed.destroy_process_group()


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)  # until the other end is closed
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
