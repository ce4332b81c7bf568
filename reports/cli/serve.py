"""`tornlog serve`: runs a broker on a store directory, or a name server.

Exit codes: 0 the broker stopped cleanly; 1 the next start must recover, the directory is damaged, or a task of the
server has failed; 2 usage error, or an address or directory in use; 3 the store can no longer be trusted until a
restart, because a sync or a write failed, or a service of the store has failed. The last line has the reason.
"""

import gc
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

import typer

from ...store.broker.limits import listen_options_of
from ...store.broker.operator_log import Emit, LineLevel, OperatorLog, level_of
from ...store.broker.serve import (
    ReplicationRole,
    ServedBroker,
    addresses_of,
    broker_conf_of,
    broker_config_of,
    is_loopback,
    limits_of_process,
    network_of,
    port_of,
    store_config_of,
    usage_errors,
)
from ...store.broker.serve_names import ServedNameServer
from ...store.real.stop_signals import StopSignals
from ...store.real.world import pinned_to_processor, real_world
from ...store.settings.broker_conf import BrokerConf
from ...store.world import World
from .monitoring import (
    health_application,
    metrics_application,
    monitoring_address,
    monitoring_endpoint,
    notify_systemd,
    systemd_watchdog,
)
from .options import JsonFile, argument, open_lines, option

FORMAT = "tornlog-serve/1"
NAME_SERVER_PORT = 9876
STORE_FAILED = 3
"""Exit code after a failure of the store that only a restart clears."""
_TURN_SECONDS = 0.001
_COLLECTOR_THRESHOLDS = (20_000, 20, 100)
_WORDS = "--listen-to-everyone-without-access-control"


class LogLevel(Enum):
    """The values of --log-level."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def level(self) -> LineLevel:
        return LineLevel[self.name]


@dataclass(frozen=True)
class ServeOptions:
    """Serve RocketMQ clients, as a broker or only a name server.

    The command runs until SIGTERM or SIGINT.
    """

    directory: Path = argument(..., metavar="DIR", file_okay=False, help="A store directory; created if missing.")
    host: str = option("127.0.0.1", help="Address to listen on.")
    port: int | None = option(
        None, min=0, max=65535, help="Port; 0 for any free port. Default: listenPort of --config, else 10911."
    )
    namesrv_port: int | None = option(
        None, min=0, max=65535, help="Additional port for clients that expect a name server."
    )
    vip_port: bool | None = option(
        None,
        "--vip-port/--no-vip-port",
        help="Also listen on PORT - 2, for RocketMQ slaves and clients before 4.5. Default: if that port is free,"
        " but not with port 0.",
        show_default=False,
    )
    advertise: str | None = option(None, metavar="IP", help="The address announced to clients. Default: HOST.")
    config: Path | None = option(None, metavar="FILE", exists=True, dir_okay=False, help="A broker.conf.")
    name: str | None = option(None, help="The broker's name. Default: brokerName of --config.")
    role: ReplicationRole | None = option(None, help="Role of the broker in replication.")
    master: str | None = option(None, metavar="HOST:PORT", help="Client address of the master, for a slave.")
    acl: Path | None = option(None, metavar="FILE", exists=True, dir_okay=False, help="Access rules, a plain_acl.yml.")
    tls_cert: Path | None = option(
        None,
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="A certificate, for TLS in addition to plain connections.",
    )
    tls_key: Path | None = option(
        None, metavar="FILE", exists=True, dir_okay=False, help="Private key of the certificate."
    )
    tls_only: bool = option(False, "--tls-only", help="Refuse clients without TLS.")
    open_to_all: bool = option(False, _WORDS, help="Listen beyond loopback with neither --acl nor TLS.")
    name_server: bool = option(
        False, "--name-server", help="Run only a name server; DIR keeps its KV configuration. Default port: 9876."
    )
    metrics: str | None = option(
        None, metavar="[HOST:]PORT", help="Serve /metrics, /healthz and /readyz over HTTP; 0 for any free port."
    )
    health: str | None = option(
        None, metavar="[HOST:]PORT", help="Serve only /healthz and /readyz over HTTP; 0 for any free port."
    )
    pin: bool = option(True, help="Keep all threads on one processor, where Python threads switch faster.")
    log_level: LogLevel = option(LogLevel.INFO, help="Minimum level of the log on stderr.")
    log_json: bool = option(False, "--log-json", help="Write the log as JSON, one object per line.")
    json_file: JsonFile = None


def serve_directory(options: ServeOptions) -> NoReturn:
    root, host = os.path.abspath(options.directory), options.host
    conf, conf_path = _read_conf(options.config, root), _file_text(options.config)
    is_guarded = is_loopback(host) or options.acl is not None or options.open_to_all
    if not is_guarded and options.tls_cert is None:
        raise typer.BadParameter(
            f"{host} is beyond loopback: needs --acl or --tls-cert, or {_WORDS}", param_hint="--host"
        )
    with usage_errors(conf_path, conf.others):
        listen_options = listen_options_of(conf.others)
    is_required = options.tls_only or not is_guarded
    network = network_of(
        _file_text(options.tls_cert), _file_text(options.tls_key), is_required=is_required, options=listen_options
    )
    metrics_at = None if options.metrics is None else monitoring_address(options.metrics, "--metrics")
    health_at = None if options.health is None else monitoring_address(options.health, "--health")
    world = real_world(network)
    log = OperatorLog(world, line_writer(as_json=options.log_json), options.log_level.level)
    served: ServedBroker | ServedNameServer
    if options.name_server:
        for name in ("name", "role", "master", "metrics"):
            if getattr(options, name) is not None:
                raise typer.BadParameter("applies only to a broker; --name-server runs none", param_hint=f"--{name}")
        with usage_errors(conf_path, conf.others):
            limits = limits_of_process(conf.others)
            served = ServedNameServer(world, root, limits, acl_path=_file_text(options.acl), emit=log.emit)
        port = NAME_SERVER_PORT if options.port is None else options.port
        addresses, optional = addresses_of(host, port, None, vip_port=False)
    else:
        with usage_errors(conf_path, conf.others):
            listen_port = port_of(options.port, conf.others)
        addresses, optional = addresses_of(host, listen_port, options.namesrv_port, vip_port=options.vip_port)
        served = _make_broker(options, conf, world, log.emit, listen_port)
    with open_lines(options.json_file or "-") as out, StopSignals() as signals, ExitStack() as helpers:

        def log_line(line: str, fields: Mapping[str, Any]) -> None:
            out.write((line if options.json_file is None else json.dumps({"format": FORMAT, **fields})) + "\n")
            out.flush()

        _reduce_latency()
        processor = helpers.enter_context(pinned_to_processor()) if options.pin else None
        served.server.on_failure = signals.stop
        urls: dict[str, str] = {}
        if metrics_at is not None and isinstance(served, ServedBroker):
            application = health_application(served, metrics_application(served.metrics))
            url = helpers.enter_context(monitoring_endpoint(metrics_at, application, "--metrics"))
            urls["metrics"] = f"{url}/metrics"
        if health_at is not None:
            url = helpers.enter_context(monitoring_endpoint(health_at, health_application(served), "--health"))
            urls["health"] = f"{url}/readyz"
        log.start()
        with usage_errors():
            served.start(addresses, optional)
        facts: dict[str, Any] = {"addresses": served.addresses, "directory": str(options.directory), "pid": os.getpid()}
        if processor is not None:
            facts["processor"] = processor
        line = f"serving {options.directory} at {', '.join(served.addresses)}"
        line += "".join(f", {name} at {url}" for name, url in urls.items())
        log_line(line, {"event": "serving", **facts, **urls})
        log.emit(line)
        helpers.enter_context(systemd_watchdog(served, log.emit))
        notify_systemd("READY=1", log.emit)
        signals.wait()
        notify_systemd("STOPPING=1", log.emit)
        helpers.close()
        clean = served.shutdown()
        counts = served.server.counts.counts_by_name()
        how = "clean" if clean else "the next start will recover"
        failed = served.server.failure
        line = f"stopped after {counts['requests']} requests: {how}" + (f": {failed}" if failed else "")
        log.emit(line)
        log.close()
        log_line(line, {"event": "stopped", "clean": clean, "counts": counts, "failure": failed})
    if isinstance(served, ServedBroker) and served.store_failure:
        raise typer.Exit(STORE_FAILED)
    raise typer.Exit(0 if clean and failed is None else 1)


def _make_broker(options: ServeOptions, conf: BrokerConf, world: World, emit: Emit, listen_port: int) -> ServedBroker:
    with usage_errors(_file_text(options.config), conf.others):
        config = broker_config_of(
            conf.others, options.name, options.role, options.master, options.advertise, options.host
        )
        if not is_loopback(config.ha_host) and not options.open_to_all:
            raise typer.BadParameter(
                f"haHost {config.ha_host} is beyond loopback, where anyone can read the log: needs {_WORDS}"
            )
        return ServedBroker(
            world,
            store_config_of(conf, options.role, options.master, listen_port),
            config,
            limits_of_process(conf.others),
            acl_path=_file_text(options.acl),
            conf_path=_file_text(options.config),
            others=conf.others,
            emit=emit,
        )


def _file_text(path: Path | None) -> str | None:
    return None if path is None else os.path.abspath(path)


def _read_conf(config: Path | None, root: str) -> BrokerConf:
    with usage_errors(_file_text(config)):
        try:
            return broker_conf_of("" if config is None else config.read_text(encoding="utf-8-sig"), root)
        except UnicodeDecodeError as error:
            raise ValueError(f"{config}: {error}") from error


def line_writer(now: Callable[[], datetime] = lambda: datetime.now(UTC), *, as_json: bool) -> Emit:
    """Return a function that writes a log line to stderr, as text or JSON. The log is not rotated."""

    def write(line: str) -> None:
        at = now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        level = level_of(line)
        if as_json:
            fields = {"at": at, "level": level.name.lower(), "message": line}
            typer.echo(json.dumps(fields, ensure_ascii=False), err=True)
        else:
            typer.echo(f"{at} {level.name} {line}", err=True)

    return write


def _reduce_latency() -> None:
    """Make Python switch threads often and collect garbage rarely.

    With the default switch interval of 5 ms, a request waits 50 ms for ten busy tasks. Connections create no cyclic
    garbage, and one collection with ten thousand connections takes as long as hundreds of requests.
    """
    sys.setswitchinterval(_TURN_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)
