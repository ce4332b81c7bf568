"""Access control of a running broker: the rules of a file, read again when it changes."""

from collections.abc import Callable

from ...formats.remoting.command import RemotingCommand
from ...service import Service
from ...world import World
from ..channel import Channel
from .plain_acl import PlainAclError, read_plain_acl
from .rules import AccessRules

WATCH_INTERVAL_MS = 5_000


class AccessControl(Service):
    """The rules of one plain_acl.yml. A file that becomes unreadable or wrong leaves the rules as they were.

    Source: RocketMQ AclFileWatchService.
    """

    name = "access control"

    def __init__(
        self, world: World, path: str, tell: Callable[[str], None], interval_ms: int = WATCH_INTERVAL_MS
    ) -> None:
        """Read the file. Raises PlainAclError, or the OSError of reading it."""
        super().__init__(world)
        self._path = path
        self._tell = tell
        self._interval_ms = interval_ms
        self._disk_fault = ""
        """Why the file could not be read at the last look, empty if it could."""
        self._seen = self._state()
        self.rules = self._read()

    def check(self, command: RemotingCommand, channel: Channel) -> None:
        """Return if a request is allowed. Raises AccessDeniedError."""
        self.rules.check(command, channel.remote_address.rpartition(":")[0])

    def step(self) -> None:
        """Wait for a while, then look whether the file has changed."""
        self.signal.wait(self._interval_ms)
        fault, seen = "", self._seen
        try:
            seen = self._state()
            if seen != self._seen:
                self.rules = self._read()
                self._tell(f"{self._path}: read again, {len(self.rules.accounts)} accounts")
        except PlainAclError as error:
            self._tell(f"{self._path}: {error}; the rules stay as they were")
        except OSError as error:  # which is told once, and the file tried again at each look
            fault, seen = str(error), None
            if fault != self._disk_fault:
                self._tell(f"{self._path}: {error}; the rules stay as they were")
        self._disk_fault, self._seen = fault, seen

    def _state(self) -> tuple[int, int] | None:
        status = self.world.files.status(self._path)
        return None if status is None else (status.size_bytes, status.mtime_ms)

    def _read(self) -> AccessRules:
        try:
            return read_plain_acl(self.world.files.read(self._path).decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise PlainAclError(1, "file", "UTF-8", str(error)) from error
