"""`tornlog serve`: a broker over a store directory, or a name server alone, for RocketMQ's clients.

Exit codes: 0 stopped, and the directory is clean; 1 stopped, but the next start has to recover, or the directory is
damaged, or a task has ended without which clients cannot be served; 2 usage, which includes an address or a directory
that is in use.
"""

import gc
import json
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ...store.broker.limits import listen_options_of
from ...store.broker.operator_log import Emit, OperatorLog
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
from ...store.broker.serve_names import ServedNameServer
from ...store.real.stop_signals import StopSignals
from ...store.real.world import pinned, real_world
from ...store.settings.broker_conf import BrokerConf
from ...store.world import World
from .options import JsonFile, open_lines
from .serve_log import LogLevel, line_writer
from .serve_metrics import metrics_address, metrics_endpoint

FORMAT = "tornlog-serve/1"
NAME_SERVER_PORT = 9876
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
    name_server: Annotated[
        bool,
        typer.Option("--name-server", help="Serve a name server alone; DIR keeps its KV configuration. Port 9876."),
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="[HOST:]PORT", help="Answer monitoring systems at http://HOST:PORT/metrics; 0 for any."),
    ] = None,
    pin: Annotated[
        bool,
        typer.Option(help="Keep all of its threads on one processor, where Python's threads take turns faster."),
    ] = True,
    log_level: Annotated[LogLevel, typer.Option(help="The least that the log on stderr has.")] = LogLevel.INFO,
    log_json: Annotated[bool, typer.Option("--log-json", help="Write the log as a JSON object a line.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Answer RocketMQ's clients from a store directory, or as a name server alone, until SIGTERM or SIGINT."""
    given = _Given(
        directory=os.path.abspath(directory),
        conf=_read_conf(config, os.path.abspath(directory)),
        conf_path=_text(config),
        acl_path=_text(acl),
        host=host,
    )
    is_local = is_loopback(host)
    if not is_local and acl is None and tls_cert is None and not open_to_all:
        raise typer.BadParameter(
            f"{host} is beyond loopback: needs --acl or --tls-cert, or {_WORDS}", param_hint="--host"
        )
    requires_tls = tls_only or (not is_local and acl is None and not open_to_all)
    with usage_errors(given.conf_path, given.conf.others):
        options = listen_options_of(given.conf.others)
    network = network_of(_text(tls_cert), _text(tls_key), is_required=requires_tls, options=options)
    metrics_at = None if metrics is None else metrics_address(metrics)
    world = real_world(network)
    log = OperatorLog(world, line_writer(as_json=log_json), log_level.level)
    served: ServedBroker | ServedNameServer
    if name_server:
        for option, value in (("--name", name), ("--role", role), ("--master", master), ("--metrics", metrics)):
            if value is not None:
                raise typer.BadParameter("is a broker's, and --name-server serves none", param_hint=option)
        served = _name_server_of(given, world, log.emit)
        addresses, optional = addresses_of(host, NAME_SERVER_PORT if port is None else port, None, vip_port=False)
    else:
        with usage_errors(given.conf_path, given.conf.others):
            listen_port = port_of(port, given.conf.others)
        addresses, optional = addresses_of(host, listen_port, namesrv_port, vip_port=vip_port)
        served = _broker_of(
            given, world, log.emit, (name, role, master, advertise), listen_port, open_to_all=open_to_all
        )
    with open_lines(json_file or "-") as out, StopSignals() as signals, ExitStack() as beside:

        def say(line: str, fields: Mapping[str, Any]) -> None:
            out.write((line if json_file is None else json.dumps({"format": FORMAT, **fields})) + "\n")
            out.flush()

        _prefer_short_waits()
        processor = beside.enter_context(pinned()) if pin else None
        log.start()
        served.server.on_failure = signals.stop
        with usage_errors():
            served.start(addresses, optional)
        facts: dict[str, Any] = {"addresses": served.addresses, "directory": str(directory), "pid": os.getpid()}
        if processor is not None:
            facts["processor"] = processor
        said = f"serving {directory} at {', '.join(served.addresses)}"
        if metrics_at is not None and isinstance(served, ServedBroker):
            facts["metrics"] = _enter_metrics(beside, served, *metrics_at)
            said += f", metrics at {facts['metrics']}"
        say(said, {"event": "serving", **facts})
        log.emit(said)
        signals.wait()
        beside.close()
        clean = served.shutdown()
        counts = served.server.counts.fields()
        how = "clean" if clean else "the next start will recover"
        failed = served.server.failure
        line = f"stopped after {counts['requests']} requests: {how}" + (f": {failed}" if failed else "")
        log.emit(line)
        log.close()
        say(line, {"event": "stopped", "clean": clean, "counts": counts})
    raise typer.Exit(0 if clean and failed is None else 1)


@dataclass(frozen=True)
class _Given:
    """What the command line says, whatever is served."""

    directory: str
    conf: BrokerConf
    conf_path: str | None
    acl_path: str | None
    host: str


def _broker_of(
    given: _Given,
    world: World,
    emit: Emit,
    who: tuple[str | None, Role | None, str | None, str | None],
    listen_port: int,
    *,
    open_to_all: bool,
) -> ServedBroker:
    """Return a broker; who: its name, role, master, and the address that clients are given."""
    conf = given.conf
    with usage_errors(given.conf_path, conf.others):
        config = broker_config_of(conf.others, *who, given.host)
        if not is_loopback(config.ha_host) and not open_to_all:
            raise typer.BadParameter(
                f"haHost {config.ha_host} is beyond loopback, where anyone can read the log: needs {_WORDS}"
            )
        _, role, master, _ = who
        return ServedBroker(
            world,
            store_config_of(conf, role, master, listen_port),
            config,
            limits_of_process(conf.others),
            acl_path=given.acl_path,
            conf_path=given.conf_path,
            others=conf.others,
            emit=emit,
        )


def _name_server_of(given: _Given, world: World, emit: Emit) -> ServedNameServer:
    with usage_errors(given.conf_path, given.conf.others):
        limits = limits_of_process(given.conf.others)
        return ServedNameServer(world, given.directory, limits, acl_path=given.acl_path, emit=emit)


def _enter_metrics(beside: ExitStack, served: ServedBroker, host: str, port: int) -> str:
    """Answer what monitoring systems ask; without that address nothing is served."""
    try:
        return beside.enter_context(metrics_endpoint(host, port, served.metrics))
    except BaseException:
        served.shutdown()
        raise


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
