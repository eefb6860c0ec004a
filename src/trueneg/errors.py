"""Mistakes of a user, told in a sentence instead of a traceback."""

from trueneg.legible import legible, shortened


class UserError(Exception):
    """Something that the user can mend: a config value, a missing or broken file.

    The message is one clear sentence a mistake: the file or key, what was found, what was expected, and the remedy.
    What it quotes of a file or a configuration cannot steer the terminal that it is printed on, and does not drown it.
    """

    def __str__(self) -> str:
        return shortened(legible(super().__str__()))
