"""`tornlog serve`: a broker over a store directory, for RocketMQ's clients.

Exit codes: 0 stopped, and the directory is clean; 1 stopped, but the next start has to recover, or the directory is
damaged; 2 usage, which includes an address or a directory that is in use.
"""

import json
import os
import resource
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..commands import JsonCommand, JsonFile, open_lines
from ..config import BrokerRole, StoreConfig
from ..errors import StoreError, StoreLockedError
from ..real.network import RealNetwork
from ..real.tls import TlsSettings
from ..real.world import real_world
from ..settings.broker_conf import BrokerConf, read_broker_conf
from .acl.addresses import address_parts
from .broker_config import BrokerConfig
from .limits import ServerLimits, server_limits_of
from .operator_log import OperatorLog
from .served_broker import ServedBroker

DEFAULT_PORT = 10911
FORMAT = "tornlog-serve/1"
_SPARE_DESCRIPTORS = 512
"""For files and for whoever must still be turned away."""
_WORDS = "--listen-to-everyone-without-access-control"


class Role(Enum):
    """What part a broker has in replication."""

    ASYNC_MASTER = "async-master"
    SYNC_MASTER = "sync-master"
    SLAVE = "slave"


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("serve", cls=JsonCommand)(serve)


def serve(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", file_okay=False, help="A store directory; made if it is missing.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port; 0 for any, else listenPort of --config, else 10911."),
    ] = None,
    namesrv_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="One more port, for clients that look for a name server there."),
    ] = None,
    vip_port: Annotated[
        bool, typer.Option("--vip-port", help="Listen at PORT - 2, too, as clients before 4.5 expect.")
    ] = False,
    advertise: Annotated[
        str | None, typer.Option(metavar="IP", help="The address that clients are told; else HOST.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", exists=True, dir_okay=False, help="A broker.conf."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The broker's name; else brokerName of --config.")] = None,
    role: Annotated[Role | None, typer.Option(help="Its part in replication.")] = None,
    master: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where a slave's master listens to clients.")
    ] = None,
    acl: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A plain_acl.yml: who may do what."),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="A certificate, for TLS beside plain."
        ),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Its private key.")
    ] = None,
    tls_only: Annotated[bool, typer.Option("--tls-only", help="Refuse clients without TLS.")] = False,
    open_to_all: Annotated[
        bool,
        typer.Option(_WORDS, help="Listen beyond loopback with neither --acl nor TLS."),
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Answer RocketMQ's clients from a store directory, until SIGTERM or SIGINT."""
    conf = _read_conf(config, os.path.abspath(directory))
    is_local = host == "localhost" or _is_loopback(host)
    if not is_local and acl is None and tls_cert is None and not open_to_all:
        raise typer.BadParameter(
            f"{host} is beyond loopback: needs --acl or --tls-cert, or {_WORDS}", param_hint="--host"
        )
    requires_tls = tls_only or (not is_local and acl is None and not open_to_all)
    network = _network(tls_cert, tls_key, is_required=requires_tls)
    addresses = _addresses(host, _port(port, conf.others), namesrv_port, vip_port=vip_port)
    world = real_world(network)
    log = OperatorLog(world, lambda line: typer.echo(f"tornlog: {line}", err=True))
    with _usage_errors():
        served = ServedBroker(
            world,
            _store_config(conf, role, master, _port(port, conf.others)),
            _broker_config(conf.others, name, role, master, advertise, host),
            _limits(conf.others),
            acl_path=None if acl is None else os.path.abspath(acl),
            tell=log.tell,
        )
    with open_lines(json_file or "-") as out:

        def say(line: str, fields: Mapping[str, Any]) -> None:
            out.write((line if json_file is None else json.dumps({"format": FORMAT, **fields})) + "\n")
            out.flush()

        stop = _stop_signals()
        with _usage_errors():
            served.start(addresses)
        say(
            f"serving {directory} at {', '.join(served.addresses)}",
            {
                "event": "serving",
                "addresses": served.addresses,
                "directory": str(directory),
                "pid": os.getpid(),
            },
        )
        stop.wait()
        clean = served.shutdown()
        log.close()
        counts = served.server.counts.fields()
        say(
            f"stopped after {counts['requests']} requests: {'clean' if clean else 'the next start will recover'}",
            {"event": "stopped", "clean": clean, "counts": counts},
        )
    raise typer.Exit(0 if clean else 1)


# -- settings --------------------------------------------------------------------------------------


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Make what the user has to put right a usage error, and damage a broken promise."""
    try:
        yield
    except (ValueError, OSError, StoreLockedError, ModuleNotFoundError) as error:
        raise typer.BadParameter(str(error)) from error
    except StoreError as error:
        typer.echo(f"tornlog: {error}", err=True)
        raise typer.Exit(1) from error


def _read_conf(config: Path | None, root: str) -> BrokerConf:
    with _usage_errors():
        conf = read_broker_conf("" if config is None else config.read_text(encoding="utf-8-sig"), root)
        return replace(conf, store=replace(conf.store, store_path_root_dir=root))


def _port(port: int | None, others: Mapping[str, str]) -> int:
    with _usage_errors():
        return BrokerConfig.of(others).listen_port if port is None else port


def _addresses(host: str, port: int, namesrv_port: int | None, *, vip_port: bool) -> list[str]:
    shown = f"[{host}]" if ":" in host else host
    ports = [port]
    if namesrv_port is not None:
        ports.append(namesrv_port)
    if vip_port:
        if port < 3:
            raise typer.BadParameter(f"PORT - 2 is no port if PORT is {port}", param_hint="--vip-port")
        ports.append(port - 2)
    return [f"{shown}:{one}" for one in ports]


def _store_config(conf: BrokerConf, role: Role | None, master: str | None, port: int) -> StoreConfig:
    """Return the store's settings; like RocketMQ, a broker replicates at its port + 1 unless told otherwise."""
    store = conf.store
    if role is not None:
        store = replace(store, broker_role=BrokerRole[role.name])
    if "ha_listen_port" not in conf.lines:
        store = replace(store, ha_listen_port=port + 1 if 0 < port < 65535 else 0)
    if store.broker_role is BrokerRole.SLAVE and not store.ha_master_address:
        if master is None:
            raise typer.BadParameter("a slave needs one", param_hint="--master")
        host, _, master_port = master.rpartition(":")
        if not host or not master_port.isdigit():
            raise typer.BadParameter(f"expected HOST:PORT, found {master!r}", param_hint="--master")
        store = replace(store, ha_master_address=f"{host}:{int(master_port) + 1}")
    return store


def _broker_config(
    others: Mapping[str, str],
    name: str | None,
    role: Role | None,
    master: str | None,
    advertise: str | None,
    host: str,
) -> BrokerConfig:
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
        if host in ("0.0.0.0", "::"):
            raise typer.BadParameter(f"clients cannot be told {host}: say which IP", param_hint="--advertise")
        settings["broker_ip1"] = "127.0.0.1" if host == "localhost" else host
    return BrokerConfig.of(others, **settings)


def _limits(others: Mapping[str, str]) -> ServerLimits:
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


def _network(certificate: Path | None, key: Path | None, *, is_required: bool) -> RealNetwork:
    if (certificate is None) != (key is None):
        raise typer.BadParameter("--tls-cert and --tls-key belong together", param_hint="--tls-key")
    if certificate is None or key is None:
        if is_required:
            raise typer.BadParameter("needs --tls-cert", param_hint="--tls-only")
        return RealNetwork()
    with _usage_errors():
        return RealNetwork(tls=TlsSettings(str(certificate), str(key), is_required=is_required))


def _is_loopback(host: str) -> bool:
    parts = address_parts(host)
    return parts is not None and (parts[0] == 127 if len(parts) == 4 else parts == (0,) * 7 + (1,))


def _stop_signals() -> threading.Event:
    """Return what SIGTERM and SIGINT set; the second of them ends the process at once."""
    stop = threading.Event()

    def on_signal(number: int, _: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    return stop
