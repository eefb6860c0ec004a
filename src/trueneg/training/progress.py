"""How far a training job is: a bar on a terminal, lines in its log."""

import contextlib
import logging
import sys
from collections.abc import Iterator, Mapping

from tqdm import tqdm

log = logging.getLogger(__name__)


class Progress:
    """One bar a job on a terminal; one line an epoch in the log, wherever it runs."""

    def __init__(self, bar: tqdm, samples: str):
        self._bar = bar
        self._samples = samples
        self._runs = 0

    def finished_epoch(self, seed: int, epoch: int, epochs: int, row: Mapping[str, float]) -> None:
        """Move the bar within a run, and write a line to the log.

        Args:
            seed: the run's.
            epoch: how many are done.
            epochs: of the run.
            row: what was measured in this one, as in ``training.parquet``.
        """
        self._bar.n = self._runs + epoch / epochs
        speed = row[f"{self._samples}_per_second"]
        self._bar.set_postfix_str(f"seed {seed}, loss {row['loss']:.3f}, {speed:,.0f} {self._samples}/s")
        log.info(
            "seed %d  epoch %d/%d  loss %.4f  at bound %.3f  %.0f %s/s",
            seed,
            epoch,
            epochs,
            row["loss"],
            row["share at bound common"],
            speed,
            self._samples,
        )

    def finished_run(self) -> None:
        """Move the bar to the end of a run, also of one that was finished before."""
        self._runs += 1
        self._bar.n = self._runs
        self._bar.refresh()


@contextlib.contextmanager
def progress_bar(title: str, total: int, samples: str) -> Iterator[Progress]:
    """A bar for the time of a job; none is shown where standard error is no terminal.

    Args:
        title: before the bar.
        total: how many runs the job has.
        samples: what is counted in a second, such as ``"views"``; a column ``<samples>_per_second`` is in each row.
    """
    form = "{desc} |{bar}| {n:.1f}/{total} runs [{elapsed}<{remaining}{postfix}]"
    with tqdm(total=total, desc=title, bar_format=form, disable=not sys.stderr.isatty(), leave=False) as bar:
        yield Progress(bar, samples)
