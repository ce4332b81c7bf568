"""`tornlog serve`: a broker over a store directory, for RocketMQ's clients.

Exit codes: 0 stopped, and the directory is clean; 1 stopped, but the next start has to recover, or the directory is
damaged; 2 usage, which includes an address or a directory that is in use.
"""

import gc
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ...store.broker.operator_log import OperatorLog
from ...store.broker.serve import (
    Role,
    ServedBroker,
    addresses_of,
    broker_config_of,
    conf_of,
    is_loopback,
    limits_of_process,
    network_of,
    port_of,
    store_config_of,
    usage_errors,
)
from ...store.real.stop_signals import StopSignals
from ...store.real.world import real_world
from ...store.settings.broker_conf import BrokerConf
from .options import JsonFile, open_lines

FORMAT = "tornlog-serve/1"
_TURN_SECONDS = 0.001
_COLLECTOR_THRESHOLDS = (20_000, 20, 100)
_WORDS = "--listen-to-everyone-without-access-control"


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
        bool | None,
        typer.Option(
            "--vip-port/--no-vip-port",
            help="Listen at PORT - 2, too, as RocketMQ's slaves and clients before 4.5 expect; by default where it can"
            " be had, and not with port 0.",
            show_default=False,
        ),
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="IP", help="The address that clients are given; else HOST.")
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
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A certificate, for TLS beside plain."),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Its private key.")
    ] = None,
    tls_only: Annotated[bool, typer.Option("--tls-only", help="Refuse clients without TLS.")] = False,
    open_to_all: Annotated[
        bool, typer.Option(_WORDS, help="Listen beyond loopback with neither --acl nor TLS.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Answer RocketMQ's clients from a store directory, until SIGTERM or SIGINT."""
    conf = _read_conf(config, os.path.abspath(directory))
    is_local = is_loopback(host)
    if not is_local and acl is None and tls_cert is None and not open_to_all:
        raise typer.BadParameter(
            f"{host} is beyond loopback: needs --acl or --tls-cert, or {_WORDS}", param_hint="--host"
        )
    requires_tls = tls_only or (not is_local and acl is None and not open_to_all)
    network = network_of(_text(tls_cert), _text(tls_key), is_required=requires_tls)
    with usage_errors(_text(config), conf.others):
        listen_port = port_of(port, conf.others)
    addresses, optional = addresses_of(host, listen_port, namesrv_port, vip_port=vip_port)
    world = real_world(network)
    log = OperatorLog(world, lambda line: typer.echo(f"tornlog: {line}", err=True))
    with usage_errors(_text(config), conf.others):
        broker_config = broker_config_of(conf.others, name, role, master, advertise, host)
        if not is_loopback(broker_config.ha_host) and not open_to_all:
            raise typer.BadParameter(
                f"haHost {broker_config.ha_host} is beyond loopback, where anyone can read the log: needs {_WORDS}"
            )
        served = ServedBroker(
            world,
            store_config_of(conf, role, master, listen_port),
            broker_config,
            limits_of_process(conf.others),
            acl_path=_text(acl),
            conf_path=_text(config),
            others=conf.others,
            emit=log.emit,
        )
    with open_lines(json_file or "-") as out, StopSignals() as signals:

        def say(line: str, fields: Mapping[str, Any]) -> None:
            out.write((line if json_file is None else json.dumps({"format": FORMAT, **fields})) + "\n")
            out.flush()

        _prefer_short_waits()
        log.start()
        with usage_errors():
            served.start(addresses, optional)
        facts = {"addresses": served.addresses, "directory": str(directory), "pid": os.getpid()}
        say(f"serving {directory} at {', '.join(served.addresses)}", {"event": "serving", **facts})
        signals.wait()
        clean = served.shutdown()
        log.close()
        counts = served.server.counts.fields()
        how = "clean" if clean else "the next start will recover"
        line = f"stopped after {counts['requests']} requests: {how}"
        say(line, {"event": "stopped", "clean": clean, "counts": counts})
    raise typer.Exit(0 if clean else 1)


def _text(path: Path | None) -> str | None:
    return None if path is None else os.path.abspath(path)


def _read_conf(config: Path | None, root: str) -> BrokerConf:
    with usage_errors(_text(config)):
        try:
            return conf_of("" if config is None else config.read_text(encoding="utf-8-sig"), root)
        except UnicodeDecodeError as error:
            raise ValueError(f"{config}: {error}") from error


def _prefer_short_waits() -> None:
    """Have tasks take turns more often than Python does by itself, and the collector of garbage seldom look at all.

    With 5 ms a turn, a request that meets ten busy tasks waits for 50. What connections leave behind is no garbage that
    needs a collector, and a look at ten thousand of them takes as long as hundreds of requests.
    """
    sys.setswitchinterval(_TURN_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)
