"""What the options of `tornlog serve` and a broker.conf come to. What cannot be meant is a usage error."""

import resource
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import Any

import typer

from ..config import BrokerRole, ConfigError, StoreConfig
from ..errors import StoreError, StoreLockedError
from ..network import in_brackets
from ..real.network import RealNetwork
from ..real.sockets import split_address
from ..real.tls import TlsSettings
from ..settings.broker_conf import BrokerConf, read_broker_conf
from .acl.addresses import address_parts
from .broker_config import BrokerConfig
from .limits import ServerLimits, server_limits_of

_SPARE_DESCRIPTORS = 512
"""For files and for whoever must still be turned away."""
_PORT_WITH_VIP_MIN = 3
_ANY_HOST = ("0.0.0.0", "::")


class Role(Enum):
    """What part a broker has in replication."""

    ASYNC_MASTER = "async-master"
    SYNC_MASTER = "sync-master"
    SLAVE = "slave"


@contextmanager
def usage_errors(file: str | None = None, keys: Collection[str] = ()) -> Iterator[None]:
    """Make what the user has to put right a usage error, and damage a broken promise.

    keys: of settings that the file has; an error of one of them, or of one of its lines, names the file.
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


def conf_of(text: str, root: str) -> BrokerConf:
    """Read the text of a broker.conf; the store is in root, whatever it says. Raises ConfigError."""
    conf = read_broker_conf(text, root)
    return replace(conf, store=replace(conf.store, store_path_root_dir=root))


def port_of(port: int | None, others: Mapping[str, str]) -> int:
    """Return the port to listen at: what the command line says, else the file. Raises ConfigError."""
    return BrokerConfig.of(others).listen_port if port is None else port


def addresses_of(
    host: str, port: int, namesrv_port: int | None, *, vip_port: bool | None
) -> tuple[list[str], list[str]]:
    """Return every `host:port` to listen at, the first the broker's own, and others to listen at if they can be had.

    vip_port: whether to listen at port - 2; None: if it can be had.
    """
    shown = in_brackets(host)
    ports = [port]
    if namesrv_port is not None:
        ports.append(namesrv_port)
    optional: list[int] = []
    if port >= _PORT_WITH_VIP_MIN and vip_port is not False:
        (ports if vip_port else optional).append(port - 2)
    elif vip_port:
        raise typer.BadParameter(f"PORT - 2 is no port if PORT is {port}", param_hint="--vip-port")
    return [f"{shown}:{one}" for one in ports], [f"{shown}:{one}" for one in optional if one not in ports]


def store_config_of(conf: BrokerConf, role: Role | None, master: str | None, port: int) -> StoreConfig:
    """Return the store's settings; like RocketMQ, a broker replicates at its port + 1 unless told otherwise."""
    store = conf.store
    if role is not None:
        store = replace(store, broker_role=BrokerRole[role.name])
    if "ha_listen_port" not in conf.lines:
        store = replace(store, ha_listen_port=port + 1 if 0 < port < 65535 else 0)
    if store.broker_role is BrokerRole.SLAVE and not store.ha_master_address:
        if master is None:
            raise typer.BadParameter("a slave needs one", param_hint="--master")
        master_host, master_port = _split_master(master, "--master")
        ha_address = f"{in_brackets(master_host)}:{master_port + 1}"
        _split_master(ha_address, "--master")
        store = replace(store, ha_master_address=ha_address)
    return store


def broker_config_of(
    others: Mapping[str, str],
    name: str | None,
    role: Role | None,
    master: str | None,
    advertise: str | None,
    host: str,
) -> BrokerConfig:
    """Return the broker's settings: what the command line says goes before the file."""
    settings: dict[str, Any] = {}
    if name is not None:
        settings["broker_name"] = name
    if role is Role.SLAVE and "brokerId" not in others:
        settings["broker_id"] = 1
    if master is not None:
        settings["master_addr"] = master
    if advertise is not None:
        settings["broker_ip1"] = advertise
    elif "brokerIP1" not in others:
        if host in _ANY_HOST:
            raise typer.BadParameter(f"clients cannot be told {host}: say which IP", param_hint="--advertise")
        settings["broker_ip1"] = "127.0.0.1" if host == "localhost" else host
    config = BrokerConfig.of(others, **settings)
    if config.master_addr:
        if master is not None:
            _split_master(config.master_addr, "--master")
        try:
            split_address(config.master_addr)
        except ValueError as error:
            raise ConfigError("masterAddr", f"HOST:PORT, {error}", config.master_addr) from error
    return config


def _split_master(address: str, hint: str) -> tuple[str, int]:
    """Return host and port. A usage error that names the setting if it is none."""
    try:
        return split_address(address)
    except ValueError as error:
        raise typer.BadParameter(f"expected HOST:PORT, {error}", param_hint=hint) from error


def limits_of_process(others: Mapping[str, str]) -> ServerLimits:
    """Return the server's limits, with as many connections as this process may have descriptors for."""
    limits = server_limits_of(others)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections_max + _SPARE_DESCRIPTORS
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    most = max(allowed - _SPARE_DESCRIPTORS, 1)
    return replace(
        limits,
        connections_max=min(limits.connections_max, most),
        connections_per_host_max=min(limits.connections_per_host_max, most),
    )


def network_of(certificate: str | None, key: str | None, *, is_required: bool) -> RealNetwork:
    """Return the network to listen in, with TLS if there is a certificate."""
    if (certificate is None) != (key is None):
        raise typer.BadParameter("--tls-cert and --tls-key belong together", param_hint="--tls-key")
    if certificate is None or key is None:
        if is_required:
            raise typer.BadParameter("needs --tls-cert", param_hint="--tls-only")
        return RealNetwork()
    with usage_errors():
        return RealNetwork(tls=TlsSettings(certificate, key, is_required=is_required))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone."""
    if host == "localhost":
        return True
    parts = address_parts(host)
    return parts is not None and (parts[0] == 127 if len(parts) == 4 else parts == (0,) * 7 + (1,))
