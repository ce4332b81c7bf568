"""The `tornlog` command."""


def main() -> None:
    """Run the command line."""
    raise SystemExit(2)
