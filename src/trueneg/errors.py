"""User errors, reported in a sentence instead of a traceback."""

from collections.abc import Iterator, Sequence

from trueneg.legible import legible, shortened


class UserError(Exception):
    """An error that the user can fix, such as an invalid setting or a missing or damaged file.

    The message has one clear sentence per mistake: the file or key, what was found, what was
    expected, and the remedy. Text quoted from a file or a configuration is escaped and shortened,
    so it can neither control nor flood the terminal.
    """

    def __str__(self) -> str:
        return shortened(legible(super().__str__()))


class LongTextsError(UserError):
    """An error about texts that a network cannot take; `texts` are the longest of them."""

    def __init__(self, message: str, texts: Sequence[str] = ()):
        super().__init__(message)
        self.texts = texts


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception is an out-of-memory error; torch's is matched by name, so that
    torch need not be imported.
    """
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and the exceptions that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
