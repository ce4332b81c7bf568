"""mailbox.Maildir of Python's standard library: messages are added; a transaction is a message."""

import mailbox
import platform
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path

from transactions import DATABASE, NUMBERS, main, promise, rows_in, value_of


def make(setting: str) -> None:
    """Make it empty."""
    mailbox.Maildir(DATABASE)


def write(setting: str) -> None:
    """Add messages."""
    box = mailbox.Maildir(DATABASE)
    for number in NUMBERS:
        message = EmailMessage()
        message["Subject"] = str(number)
        message.set_payload(value_of(number).hex())
        box.add(message)
        promise(number)


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, and write to it."""
    box = mailbox.Maildir(str(directory / DATABASE))
    bodies = {message["Subject"]: message.get_payload().strip() for message in box}
    found = [rows_in(bytes.fromhex(bodies[str(n)]) if str(n) in bodies else None, n) for n in NUMBERS]
    box.add(EmailMessage())
    return found


main(write, count, lambda: f"Python {platform.python_version()}", make)
