"""The ``trueneg`` command, also as ``python -m trueneg``."""

import sys


def main() -> int:
    """Run the command, or say what is not installed, and return the exit code."""
    try:
        from trueneg.cli.main import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "trueneg":
            raise
        print(
            f"trueneg: the module {error.name} is missing, because only the losses are installed;"
            " expected the pipeline, too: pip install '.[pipeline]' in the checkout.",
            file=sys.stderr,
        )
        return 1
    return run()


if __name__ == "__main__":
    sys.exit(main())
