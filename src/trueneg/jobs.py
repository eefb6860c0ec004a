"""What every job of the pipeline does around its work: write its log, and tell a user's mistake in a sentence."""

import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from trueneg.errors import UserError


@contextlib.contextmanager
def job(log: str | Path) -> Iterator[None]:
    """Log to a file while the block runs; a :class:`UserError` is printed as its sentence and ends the process with 1.

    Args:
        log: the job's log file; begun anew.
    """
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log, mode="w")
    handler.setFormatter(logging.Formatter("%(asctime)s  %(message)s", datefmt="%Y-%m-%d %H:%M:%S"))
    logger = logging.getLogger("trueneg")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    except UserError as error:
        logger.error("%s", error)
        print(f"\n{error}\n", file=sys.stderr)
        sys.exit(1)
    except BaseException:
        logger.exception("the job ended with an error that is not the user's")
        raise
    finally:
        logger.removeHandler(handler)
        handler.close()
