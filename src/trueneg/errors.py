"""Mistakes of a user, told in a sentence instead of a traceback."""


class UserError(Exception):
    """Something that the user can mend: a config value, a missing or broken file.

    The message is one clear sentence a mistake: the file or key, what was found, what was expected, and the remedy.
    """
