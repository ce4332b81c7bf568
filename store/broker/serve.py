"""Served broker: a broker, its server and access rules, for `tornlog serve`.

Command line options override a broker.conf. Invalid settings are usage errors.
"""

import resource
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import Any

import typer

from ..config import BrokerRole, ConfigError, StoreConfig
from ..errors import DivergedError, StoreError, StoreLockedError
from ..network import ListenOptions, bracket_ipv6
from ..real.network import RealNetwork
from ..real.sockets import grow_descriptor_table, split_address
from ..real.tls import TlsSettings
from ..replication.ha_service import HAConnection, HAService
from ..settings.broker_conf import UNUSED_DEFAULTS, BrokerConf, read_broker_conf
from ..settings.conf_file import ConfFile
from ..world import World
from .acl.plain_acl import AccessControl
from .acl.rules import address_parts
from .broker import Broker
from .broker_config import BrokerConfig
from .health import RECOVERING, HealthCheck, broker_checks, is_alive
from .limits import ServerLimits, server_limits_of, settings_of_limits, settings_of_sockets
from .live_settings import LiveSettings
from .metrics import Metric, metrics_of, readiness_metric
from .operator_log import Emit, failure_line, warning_line
from .server import RemotingServer

_SPARE_DESCRIPTORS = 512
"""Descriptors reserved for files and for connections to refuse, at most half of all."""
_PORT_WITH_VIP_MIN = 3  # clients with vipChannelEnabled connect to port - 2 (MixAll.brokerVIPChannel)
_ANY_HOST = ("0.0.0.0", "::")


class ServedBroker:
    """A broker that clients can reach."""

    def __init__(
        self,
        world: World,
        store: StoreConfig,
        config: BrokerConfig,
        limits: ServerLimits,
        *,
        acl_path: str | None = None,
        conf_path: str | None = None,
        others: Mapping[str, str] | None = None,
        emit: Emit,
    ) -> None:
        """Raises PlainAclError for invalid access rules, or OSError if reading them fails.

        `conf_path` is the broker.conf that stores setting changes. `others` contains the settings that the store
        ignores.
        """
        self._access = None if acl_path is None else AccessControl(world, acl_path, emit)
        self.server = RemotingServer(world, limits, emit)
        self.addresses: list[str] = []
        """Listening addresses after the start, the one for clients first."""
        self._emit = emit
        self._world = world
        self._store = store
        self._config = config
        self._conf_path = conf_path
        self._others = others or {}
        self._limits = limits
        self._broker: Broker | None = None
        self.store_failure = ""
        """The reason why only a restart can recover the store; empty while the store is sound."""

    def start(self, addresses: Sequence[str], optional: Sequence[str] = ()) -> None:
        """Listen, recover the store, and answer requests.

        If an address of `optional` cannot be bound, the failure is only logged. Raises OSError if another address
        cannot be bound or the disk fails, StoreLockedError if the directory is in use, and CorruptFileError if it is
        not a store. An exception stops all parts.
        """
        try:
            self.addresses = self.server.listen(addresses)
            for address in optional:
                self._listen_optionally(address)
            self._warn_of_low_descriptor_limit()
            port = int(self.addresses[0].rpartition(":")[2])
            broker = Broker(self._world, self._store, replace(self._config, listen_port=port))
            broker.access = self._access
            self._handle_failures(broker)
            broker.load()
            for finding in broker.findings:
                self._emit(warning_line(f"damage in the store: {finding}"))
            recovery = broker.own_store.last_recovery
            if recovery is not None and recovery.lacks_room is not None:
                effect = "until the disk has space, queues and index lack messages, and new messages are refused"
                self._emit(failure_line(f"{recovery.lacks_room}: {effect}"))
            broker.watch.emit = broker.hooks.emit = self._emit
            for registration in broker.registrations:
                registration.emit = self._emit
            if broker.ha is not None:
                self._log_slave_changes(broker.ha)
            broker.start()
        except BaseException:
            self.server.shutdown()
            raise
        broker.server_info = self._server_info
        self._add_server_settings(broker.settings)
        broker.name_server.settings.set_actual_values(**settings_of_sockets(self._limits.sockets))
        check = None
        if self._access is not None:
            self._access.start()
            check = self._access.check_access
        closed, answered = broker.channel_closed, broker.calls.deliver_response
        self.server.start(broker.routes(), check=check, on_channel_closed=closed, on_response=answered)
        self._broker = broker

    def _log_slave_changes(self, ha: HAService) -> None:
        """Log each slave that disconnects. On a slave, also log a divergence from its master."""

        def log_slave_gone(slave: HAConnection) -> None:
            at = f"log offset {max(slave.reported_offset, 0)}"
            self._emit(warning_line(f"slave {slave.remote_address} disconnected at {at}: {slave.closed_because}"))

        def log_divergence(master: str, error: DivergedError) -> None:
            line = f"this slave has stopped copying from {master}: their logs have diverged: {error}"
            self._emit(warning_line(f"{line}; restart it with a matching log, without a log, or with another master"))

        ha.on_slave_gone = log_slave_gone
        if ha.client is not None:
            ha.client.on_diverged = log_divergence

    def _handle_failures(self, broker: Broker) -> None:
        """End the process if the store is no longer sound, or if a service fails on which clients depend.

        These services are held pulls; registrations, through which clients find the broker; and access control, which
        revokes accounts.
        """
        broker.own_store.flags.on_lasting_refusal = self._record_store_failure
        for service in (self._access, broker.held_pulls, *broker.registrations):
            if service is not None:
                service.on_failure = self.server.record_service_failure

    def _record_store_failure(self, cause: str) -> None:
        self.store_failure = cause
        # Only a restart reads the bytes on the disk. Until then, the page cache may differ from the disk.
        self.server.end_process(f"{cause}; the store cannot be trusted until a restart recovers it")

    def _add_server_settings(self, settings: LiveSettings) -> None:
        settings.emit = self._emit
        is_controlled = str(self._access is not None).lower()
        unused = {key: value for key, value in self._others.items() if key in UNUSED_DEFAULTS}
        settings.unused = {**UNUSED_DEFAULTS, **unused, "aclEnable": is_controlled}
        settings.others = settings_of_limits(self._limits)
        if self._conf_path is not None:
            settings.file = ConfFile(self._world.files, self._conf_path)

    def _listen_optionally(self, address: str) -> None:
        try:
            self.addresses += self.server.listen([address])
        except OSError as error:
            line = (
                f"cannot listen on {address} (the broker's port - 2, to which RocketMQ's slaves and clients before 4.5 "
                f"connect): {error.strerror}; --no-vip-port disables this port"
            )
            self._emit(warning_line(line))

    def _warn_of_low_descriptor_limit(self) -> None:
        most, wanted = self._limits.connections_max, server_limits_of(self._others).connections_max
        if most < wanted:
            reason = f"the descriptor limit (ulimit -n) is too low for serverConnectionsMax={wanted}"
            self._emit(warning_line(f"only {most} clients can be connected at once: {reason}"))

    def _server_info(self) -> dict[str, str]:
        connections, counts = self.server.connections, self.server.counts
        now_ns = self._world.clock.monotonic_ns()
        info = {key: value for pool in self.server.pools for key, value in pool.runtime_info_fields(now_ns).items()}
        info["connections"] = str(connections.count)
        info["connectionsAccepted"] = str(counts.accepted)
        info["heldBytes"] = str(connections.held_bytes)
        info["requests"] = str(counts.requests)
        info |= {f"connectionsEnded_{one.name}": str(n) for one, n in counts.endings.items() if n}
        return info | {f"requestsRefused_{one.name}": str(n) for one, n in counts.refusals.items() if n}

    def is_alive(self) -> bool:
        return is_alive(self._world, self.server)

    def checks(self) -> Iterable[HealthCheck]:
        return (RECOVERING,) if self._broker is None else broker_checks(self._broker, self.server)

    def metrics(self) -> Iterable[Metric]:
        """Return the metrics. Before the end of the recovery only `ready` exists."""
        if self._broker is None:
            return (readiness_metric(self.checks()),)
        return metrics_of(self._broker, self.server)

    def shutdown(self) -> bool:
        """Answer pending requests and stop. Return whether the store's shutdown was clean."""
        if self._broker is not None:
            self._broker.held_pulls.release()  # before the server stops, so that it sends the answers
        self.server.shutdown()
        if self._access is not None:
            self._access.shutdown()
        return self._broker is None or self._broker.shutdown()


class ReplicationRole(Enum):
    """The broker's role in replication."""

    ASYNC_MASTER = "async-master"
    SYNC_MASTER = "sync-master"
    SLAVE = "slave"


@contextmanager
def usage_errors(file: str | None = None, keys: Collection[str] = ()) -> Iterator[None]:
    """Convert configuration and start errors to usage errors, other StoreErrors to exit status 1.

    The message names `file` if the error is in a line or one of `keys`.
    """
    try:
        yield
    except ConfigError as error:
        is_files = file is not None and (error.line is not None or error.name in keys)
        raise typer.BadParameter(f"{file}: {error}" if is_files else str(error)) from error
    except (ValueError, OSError, StoreLockedError, ModuleNotFoundError) as error:
        raise typer.BadParameter(str(error)) from error
    except StoreError as error:
        typer.echo(f"tornlog: {error}", err=True)
        raise typer.Exit(1) from error


def broker_conf_of(text: str, root: str) -> BrokerConf:
    """Parse a broker.conf. `root` overrides its directory. Raises ConfigError."""
    conf = read_broker_conf(text, root)
    return replace(conf, store=replace(conf.store, store_path_root_dir=root))


def port_of(port: int | None, others: Mapping[str, str]) -> int:
    """Return the port of the command line, else of the file. Raises ConfigError."""
    return BrokerConfig.from_settings(others).listen_port if port is None else port


def addresses_of(
    host: str, port: int, namesrv_port: int | None, *, vip_port: bool | None
) -> tuple[list[str], list[str]]:
    """Return the required addresses, the broker's own first, and the optional ones.

    vip_port: whether to listen on port - 2; None: this address is optional.
    """
    shown = bracket_ipv6(host)
    ports = [port]
    if namesrv_port is not None:
        ports.append(namesrv_port)
    optional: list[int] = []
    if port >= _PORT_WITH_VIP_MIN and vip_port is not False:
        (ports if vip_port else optional).append(port - 2)
    elif vip_port:
        raise typer.BadParameter(f"PORT - 2 is not a valid port if PORT is {port}", param_hint="--vip-port")
    return [f"{shown}:{one}" for one in ports], [f"{shown}:{one}" for one in optional if one not in ports]


def store_config_of(conf: BrokerConf, role: ReplicationRole | None, master: str | None, port: int) -> StoreConfig:
    """Return the store's settings. As in RocketMQ, the default HA port is the broker's port + 1."""
    store = conf.store
    if role is not None:
        store = replace(store, broker_role=BrokerRole[role.name])
    if "ha_listen_port" not in conf.lines:
        store = replace(store, ha_listen_port=port + 1 if 0 < port < 65535 else 0)
    if store.broker_role is BrokerRole.SLAVE and not store.ha_master_address:
        if master is None:
            raise typer.BadParameter("a slave needs a master", param_hint="--master")
        master_host, master_port = _split_master_address(master)
        ha_address = f"{bracket_ipv6(master_host)}:{master_port + 1}"
        _split_master_address(ha_address)
        store = replace(store, ha_master_address=ha_address)
    return store


def broker_config_of(
    others: Mapping[str, str],
    name: str | None,
    role: ReplicationRole | None,
    master: str | None,
    advertise: str | None,
    host: str,
) -> BrokerConfig:
    """Return the broker's settings. The command line overrides the file."""
    settings: dict[str, Any] = {}
    if name is not None:
        settings["broker_name"] = name
    if role is ReplicationRole.SLAVE and "brokerId" not in others:
        settings["broker_id"] = 1
    if master is not None:
        settings["master_addr"] = master
    if advertise is not None:
        settings["broker_ip1"] = advertise
    elif "brokerIP1" not in others:
        if host in _ANY_HOST:
            raise typer.BadParameter(f"clients cannot connect to {host}: name an IP address", param_hint="--advertise")
        settings["broker_ip1"] = "127.0.0.1" if host == "localhost" else host
    config = BrokerConfig.from_settings(others, **settings)
    if config.master_addr:
        if master is not None:
            _split_master_address(config.master_addr)
        try:
            split_address(config.master_addr)
        except ValueError as error:
            raise ConfigError("masterAddr", f"HOST:PORT, {error}", config.master_addr) from error
    return config


def _split_master_address(address: str) -> tuple[str, int]:
    try:
        return split_address(address)
    except ValueError as error:
        raise typer.BadParameter(f"expected HOST:PORT, {error}", param_hint="--master") from error


def limits_of_process(others: Mapping[str, str]) -> ServerLimits:
    """Return the limits, with at most as many connections as this process can open descriptors for."""
    limits = server_limits_of(others)
    # The soft limit is often 1,024. A process may raise it to the hard limit.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections_max + _SPARE_DESCRIPTORS
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    grow_descriptor_table(allowed)
    most = max(allowed - _SPARE_DESCRIPTORS, allowed // 2)
    in_all, per_host = min(limits.connections_max, most), min(limits.connections_per_host_max, most)
    return replace(limits, connections_max=in_all, connections_per_host_max=per_host)


def network_of(certificate: str | None, key: str | None, *, is_required: bool, options: ListenOptions) -> RealNetwork:
    """Return a network, with TLS if there is a certificate."""
    if (certificate is None) != (key is None):
        raise typer.BadParameter("--tls-cert and --tls-key must be used together", param_hint="--tls-key")
    if certificate is None or key is None:
        if is_required:
            raise typer.BadParameter("needs --tls-cert", param_hint="--tls-only")
        return RealNetwork(options=options)
    with usage_errors():
        return RealNetwork(tls=TlsSettings(certificate, key, is_required=is_required), options=options)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    parts = address_parts(host)
    return parts is not None and (parts[0] == 127 if len(parts) == 4 else parts == (0,) * 7 + (1,))
