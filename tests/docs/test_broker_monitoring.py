"""docs/broker-monitoring.md, and the files in docs/broker: alerts, dashboard, image."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import promql_parser as promql
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.broker_clients.conftest import free_port
from tornlog.reports.cli.monitoring import PREFIX, metrics_application
from tornlog.store.broker.broker_config import BrokerConfig
from tornlog.store.broker.limits import ServerLimits
from tornlog.store.broker.serve import ServedBroker
from tornlog.store.config import BrokerRole, StoreConfig
from tornlog.store.real.world import real_world

pytestmark = pytest.mark.ci

DOCS = Path(__file__).resolve().parents[2] / "docs"
FILES = DOCS / "broker"
PAGE = (DOCS / "broker-monitoring.md").read_text()
OF_PROMETHEUS = {"instance", "job", "le"}
(SCRAPE,) = (yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
JOB = SCRAPE["scrape_configs"][0]
OF_THE_JOB = set(JOB["static_configs"][0]["labels"])
RULES: list[dict[str, Any]] = yaml.safe_load((FILES / "alerts.yml").read_text())["groups"][0]["rules"]
PANELS: list[dict[str, Any]] = json.loads((FILES / "dashboard.json").read_text())["panels"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServedBroker]]:
    """A sync master and its slave, which register with the master."""
    place, port = tmp_path_factory.mktemp("pair"), free_port()
    small = {"mapped_file_size_commit_log": 1 << 16, "max_hash_slot_num": 100, "max_index_num": 400}
    roles = {
        "master": (BrokerRole.SYNC_MASTER, {"ha_listen_port": port}, {}),
        "slave": (BrokerRole.SLAVE, {"ha_listen_port": 0, "ha_master_address": f"127.0.0.1:{port}"}, {"broker_id": 1}),
    }
    with ExitStack() as stack:
        served: list[ServedBroker] = []
        for name, (role, store, broker) in roles.items():
            names = served[0].addresses[0] if served else f"127.0.0.1:{free_port()}"
            config = BrokerConfig(namesrv_addr=names, **broker)
            settings = StoreConfig(str(place / name), broker_role=role, **small, **store)
            one = ServedBroker(real_world(), settings, config, ServerLimits(), emit=lambda line: None)
            one.start(["127.0.0.1:0"])
            stack.callback(one.shutdown)
            served.append(one)
        yield served


@pytest.fixture(scope="module")
def exported(pair: list[ServedBroker]) -> dict[str, set[str]]:
    """The label names of each sample that a pair exports, by the sample's name."""
    found: dict[str, set[str]] = {"up": set()}
    for broker in pair:
        labels = {f"{PREFIX}{metric.name}": set(metric.labels) for metric in broker.metrics()}
        environ: dict[str, Any] = {}
        setup_testing_defaults(environ)
        text = b"".join(metrics_application(broker.metrics)(environ, lambda *_: lambda _: None)).decode()
        for family in text_string_to_metric_families(text):
            names = {sample.name for sample in family.samples} or {family.name, f"{family.name}_total"}
            for name in names:
                of_metric = labels.get(name, labels.get(name.removesuffix("_bucket"), set()))
                found.setdefault(name, set()).update(of_metric)
    return found


def problems_of(expression: str, exported: Mapping[str, set[str]]) -> list[str]:
    """Return the names and labels of an expression that no broker exports. Raises ValueError for invalid PromQL."""
    parsed = promql.parse(expression)
    names: list[str] = []
    labels: set[str] = set()

    def visit(part: promql.Expr) -> None:
        if isinstance(part, promql.VectorSelector):
            names.append(part.name or "")
            labels.update(matcher.name for matcher in part.matchers.matchers)
        elif isinstance(part, promql.AggregateExpr) and part.modifier is not None:
            labels.update(part.modifier.labels)

    promql.walk(parsed, visit)
    known = OF_PROMETHEUS | OF_THE_JOB | {label for name in names for label in exported.get(name, ())}
    assert names, expression
    return [*(name for name in names if name not in exported), *sorted(labels - known)]


def test_the_check_of_expressions_finds_unknown_names_labels_and_syntax(exported: dict[str, set[str]]) -> None:
    assert problems_of("rate(tornlog_no_such_total[5m]) > 0", exported) == ["tornlog_no_such_total"]
    assert problems_of("sum by (topics) (tornlog_group_lag_messages)", exported) == ["topics"]
    with pytest.raises(ValueError, match=r"."):
        promql.parse("rate(tornlog_puts_failed_total) > 0")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_uses_exported_metrics_and_is_on_the_page(rule: dict[str, Any], exported: dict[str, set[str]]) -> None:
    assert problems_of(rule["expr"], exported) == []
    assert rule["labels"]["severity"] in ("critical", "warning")
    summary = rule["annotations"]["summary"]
    names = {label for labels in exported.values() for label in labels} | OF_PROMETHEUS | OF_THE_JOB
    assert set(re.findall(r"\$labels\.(\w+)", summary)) <= names
    assert len(re.findall(rf"^\| {rule['alert']} \|", PAGE, re.MULTILINE)) == 1


def test_the_page_lists_no_other_alert_and_the_job_that_the_rules_name() -> None:
    alerts = {rule["alert"] for rule in RULES}
    assert set(re.findall(r"^\| ([A-Z][a-z]\w+) \|", PAGE, re.MULTILINE)) == alerts
    assert JOB["job_name"] == "tornlog"
    assert SCRAPE["rule_files"] == ["alerts.yml"]


def test_the_page_lists_the_checks_of_a_pair(pair: list[ServedBroker]) -> None:
    checks = {check.name for broker in pair for check in broker.checks()}
    assert set(re.findall(r"^\| `([a-z]+)` \|", PAGE, re.MULTILINE)) == checks


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_of_the_dashboard_uses_exported_metrics(panel: dict[str, Any], exported: dict[str, set[str]]) -> None:
    for target in panel["targets"]:
        expression = target["expr"].replace("$__rate_interval", "5m")
        assert problems_of(expression, exported) == []
        assert 'broker=~"$broker"' in expression
        names = {label for labels in exported.values() for label in labels} | OF_PROMETHEUS | OF_THE_JOB
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= names


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS) >= 10
    places = [panel["gridPos"] for panel in PANELS]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"],
            other["x"] + other["w"] <= one["x"],
            one["y"] + one["h"] <= other["y"],
            other["y"] + other["h"] <= one["y"],
        )
        assert any(apart), (one, other)


def test_the_dockerfile_passes_its_linter() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, FILES / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_commands_of_the_image_serve_and_check_health(tmp_path: Path) -> None:
    port, text = free_port(), (FILES / "Dockerfile").read_text()
    entry, check = (
        json.loads(found)
        for found in re.findall(r"^(?:ENTRYPOINT|    CMD) (\[.*\])$", text.replace("9100", str(port)), re.MULTILINE)[
            ::-1
        ]
    )
    assert entry[0] == "tornlog"
    command = [sys.executable, "-m", *entry, "--port", "0"]
    command[command.index("/var/lib/tornlog/store")] = str(tmp_path / "store")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        broker.stdout.readline()
        healthy = subprocess.run([sys.executable, *check[1:]], capture_output=True, text=True, check=False)
        broker.terminate()
        assert broker.wait(60) == 0
    assert (healthy.returncode, healthy.stderr) == (0, "")
    dead = subprocess.run([sys.executable, *check[1:]], capture_output=True, text=True, check=False)
    assert dead.returncode == 1
