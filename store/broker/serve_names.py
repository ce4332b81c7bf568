"""Served name server: a standalone name server with a directory for its KV settings.

Name servers do not communicate with each other. Each broker registers with all name servers, and a client can query any
of them. A restarted name server has all routes again within seconds, after the brokers have registered.
"""

from collections.abc import Iterable, Sequence

from ..directories import make_directory
from ..errors import StoreLockedError
from ..formats.remoting.frame import FRAME_BYTES_MAX
from ..world import FileLock, World
from .acl.plain_acl import AccessControl
from .health import HealthCheck, is_alive, server_check
from .limits import ServerLimits, settings_of_sockets
from .name_server import NameServer
from .operator_log import Emit, warning_line
from .processors.names import name_server_processors
from .requests import RequestCode
from .router import BODY_BYTES_MAX, Pool, RequestRoute, with_error_responses
from .server import RemotingServer

_LOCK = "lock"
_KV_FILE = "kvConfig.json"


class ServedNameServer:
    """A name server that clients and brokers can reach."""

    def __init__(
        self, world: World, directory: str, limits: ServerLimits, *, acl_path: str | None = None, emit: Emit
    ) -> None:
        """Raises PlainAclError for invalid access rules, or OSError if reading them fails."""
        self._access = None if acl_path is None else AccessControl(world, acl_path, emit)
        self.server = RemotingServer(world, limits, emit)
        self.addresses: list[str] = []
        self.names = NameServer(world, kv_path=f"{directory}/{_KV_FILE}")
        self._world = world
        self._directory = directory
        self._emit = emit
        self._lock: FileLock | None = None

    def start(self, addresses: Sequence[str], optional: Sequence[str] = ()) -> None:
        """Listen, load the KV settings, and answer requests. `optional` is ignored.

        Raises OSError if an address cannot be bound or the disk fails, StoreLockedError if the directory is in use, and
        CorruptFileError if the settings are unreadable. An exception stops all parts.
        """
        del optional
        try:
            self.addresses = self.server.listen(addresses)
            self._lock_directory()
            self.names.kv.load()
            if self.names.kv.file is not None and self.names.kv.file.damage is not None:
                self._emit(warning_line(str(self.names.kv.file.damage)))
        except BaseException:
            self.server.shutdown()
            self._unlock()
            raise
        sockets = settings_of_sockets(self.server.limits.sockets)
        self.names.settings.set_actual_values(listenPort=self.addresses[0].rpartition(":")[2], **sockets)
        check = None
        if self._access is not None:
            self._access.on_failure = self.server.record_service_failure
            self._access.start()
            check = self._access.check_access
        routes = {
            code: RequestRoute(_pool_of_code(code), with_error_responses(processor), _request_body_bytes_max(code))
            for code, processor in name_server_processors(self._world, self.names).items()
        }
        self.server.start(routes, check=check, on_channel_closed=self.names.channel_closed)

    def is_alive(self) -> bool:
        return is_alive(self._world, self.server)

    def checks(self) -> Iterable[HealthCheck]:
        return (server_check(self.server),)

    def shutdown(self) -> bool:
        """Answer pending requests and stop. Returns True, because a change is durable before its answer."""
        self.server.shutdown()
        if self._access is not None:
            self._access.shutdown()
        self._unlock()
        return True

    def _lock_directory(self) -> None:
        make_directory(self._world.files, self._directory, once_made=self._acquire_file_lock)

    def _acquire_file_lock(self) -> None:
        path = f"{self._directory}/{_LOCK}"
        try:
            self._lock = self._world.files.lock(path)
        except BlockingIOError as error:
            raise StoreLockedError(f"{path}: locked by another name server") from error

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _pool_of_code(code: int) -> Pool:
    """Route queries have their own pool, so that registrations do not delay them."""
    return Pool.CLIENT_MANAGE if code == RequestCode.GET_ROUTEINFO_BY_TOPIC else Pool.ADMIN


def _request_body_bytes_max(code: int) -> int:
    """A registration may use a whole frame."""
    return FRAME_BYTES_MAX if code == RequestCode.REGISTER_BROKER else BODY_BYTES_MAX
