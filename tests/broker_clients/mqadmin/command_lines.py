"""Command lines of mqadmin, and the required agreement of RocketMQ's broker and tornlog.

  ALIKE   both outputs have the same words, except addresses, ids, times, sizes and error names; the response code of an
          error must be equal
  NAMES   tornlog prints every name of a figure or setting that RocketMQ prints
  OURS    tornlog differs on purpose; the line says how and why

`@produce` and `@consume` start clients for later lines. `@status` and `@resume` send administrators' requests for which
mqadmin has no command, and `@wait` sleeps for the given ms. Placeholders: {n} the name server, {b} the broker, {dir} a
directory, {offsetId} and {uniqueId} of the last produced message, {client} the consumer.
"""

import re
from dataclasses import dataclass
from enum import Enum


class Agreement(Enum):
    """Required agreement of the two outputs of one line."""

    ALIKE = "alike"
    NAMES = "names"
    OURS = "ours"


@dataclass(frozen=True)
class Line:
    """One command line."""

    text: str
    agreement: Agreement = Agreement.ALIKE
    ours: str = ""
    """Regular expression of tornlog's expected output."""
    why: str = ""
    passed_over: str = ""
    """Regular expression of the ignored parts of the output."""


def _lines_with_figures(*texts: str) -> list[Line]:
    """Return lines that print current figures. Their numbers are ignored."""
    return [Line(text, passed_over=r"[0-9][0-9.]*") for text in texts]


def _lines_with_equal_names(*texts: str) -> list[Line]:
    return [Line(text, Agreement.NAMES) for text in texts]


def _line_with_own_answer(text: str, ours: str, why: str) -> Line:
    return Line(text, Agreement.OURS, ours, why)


_TRANSACTION_TOPICS = r"(DefaultCluster\s+)?(RMQ_SYS_TRANS_\w+|TRANS_CHECK_MAX_TIME_TOPIC)\s"
"""Topics that tornlog creates at the start, and RocketMQ at its first transaction."""
_RATE, _SPENT = r"TPS: \S+", r"spentTimeMills=\d+"
_REFUSED = "what cannot change while the broker runs is refused by name; RocketMQ says it has succeeded"
_RESET = "a group that has no offset yet can be given one; RocketMQ's whole request fails"

LINES = [
    # topics
    Line("updateTopic -n {n} -b {b} -t Orders -r 4 -w 4"),
    Line("updateTopic -n {n} -c DefaultCluster -t Other -r 2 -w 2"),
    Line("updateTopic -n {n} -b {b} -t Quiet -r 2 -w 2"),
    Line("updateTopic -n {n} -b {b} -t Sorted1 -r 2 -w 2 -o true"),
    Line("updateTopic -n {n} -c DefaultCluster -t Sorted -r 2 -w 2 -o true"),
    Line("updateTopicPerm -n {n} -b {b} -t Other -p 4"),
    Line("updateTopicPerm -n {n} -b {b} -t Other -p 4"),
    Line("updateTopicPerm -n {n} -c DefaultCluster -t Other -p 6"),
    Line("updateTopicPerm -n {n} -c DefaultCluster -t Missing -p 6"),
    Line("topicList -n {n}", passed_over=_TRANSACTION_TOPICS),
    Line("topicList -n {n} -c", passed_over=_TRANSACTION_TOPICS),
    Line("topicRoute -n {n} -t Orders"),
    Line("topicRoute -n {n} -t Orders -l"),
    Line("topicRoute -n {n} -t Missing"),
    Line("topicClusterList -n {n} -t Orders"),
    Line("allocateMQ -n {n} -t Orders -i 10.0.0.1,10.0.0.2"),
    Line("updateOrderConf -n {n} -t Sorted -m get"),
    Line("updateOrderConf -n {n} -t Sorted1 -m get"),
    Line("updateOrderConf -n {n} -t Sorted -m put -v tornlog:4"),
    Line("updateOrderConf -n {n} -t Sorted -m get"),
    Line("updateOrderConf -n {n} -t Sorted -m delete"),
    Line("updateOrderConf -n {n} -t Sorted -m get"),
    Line("topicRoute -n {n} -t Sorted"),
    # the name server
    *_lines_with_figures("clusterList -n {n}", "clusterList -n {n} -m"),
    Line("updateNamesrvConfig -n {n} -k orderMessageEnable -v true"),
    Line("topicRoute -n {n} -t Sorted1"),
    Line("updateNamesrvConfig -n {n} -k orderMessageEnable -v false"),
    Line("updateNamesrvConfig -n {n} -k configStorePath -v elsewhere"),
    _line_with_own_answer(
        "updateNamesrvConfig -n {n} -k serverWorkerThreads -v 9", "serverWorkerThreads cannot change", _REFUSED
    ),
    *_lines_with_equal_names("getNamesrvConfig -n {n}"),
    Line("updateKvConfig -n {n} -s PLACES -k north -v 1"),
    Line("updateKvConfig -n {n} -s PLACES -k south -v 2"),
    Line("deleteKvConfig -n {n} -s PLACES -k north"),
    Line("deleteKvConfig -n {n} -s PLACES -k missing"),
    *_lines_with_figures("wipeWritePerm -n {n} -b tornlog"),
    Line("topicRoute -n {n} -t Orders"),
    *_lines_with_figures("addWritePerm -n {n} -b tornlog"),
    Line("wipeWritePerm -n {n} -b missing"),
    Line("addWritePerm -n {n} -b missing"),
    # groups
    Line("updateSubGroup -n {n} -b {b} -g billing"),
    Line("updateSubGroup -n {n} -c DefaultCluster -g auditors -s true -m false -d false -q 2 -r 3 -i 0 -w 1 -a true"),
    Line("updateSubGroup -n {n} -b {b} -g idle"),
    Line("getConsumerConfig -n {n} -g auditors"),
    Line("getConsumerConfig -n {n} -g missing"),
    # messages
    Line("@produce {n} sellers Orders 0 key-1 body-1"),
    Line("@produce {n} sellers Orders 1 key-2 body-2"),
    Line("sendMessage -n {n} -t Orders -p hello -k key-3 -c tag -b tornlog -i 2"),
    Line("sendMessage -n {n} -t Orders -p hello -k key-4 -c tag"),
    Line("sendMessage -n {n} -t Missing -p hello"),
    *_lines_with_figures("sendMsgStatus -n {n} -b tornlog -s 16 -c 2", "checkMsgSendRT -n {n} -t Orders -a 2 -s 16"),
    Line("topicStatus -n {n} -t Orders"),
    Line("topicStatus -n {n} -t Missing"),
    # connections and progress
    Line("@consume {n} billing Orders 4 5"),
    Line("consumerProgress -n {n}", passed_over=r"[0-9]+"),
    Line("consumerProgress -n {n} -g billing", passed_over=_RATE),
    Line("consumerProgress -n {n} -g billing -s true", passed_over=_RATE),
    Line("consumerProgress -n {n} -g missing"),
    Line("consumerStatus -n {n} -g billing"),
    *_lines_with_equal_names("consumerStatus -n {n} -g billing -i {client}"),
    Line("consumerStatus -n {n} -g missing"),
    Line("@status {n} billing Orders"),
    Line("@status {n} billing Orders {client}"),
    Line("@status {n} billing Orders nobody"),
    Line("consumerConnection -n {n} -g billing"),
    Line("consumerConnection -n {n} -g missing"),
    Line("producerConnection -n {n} -g sellers -t Orders"),
    Line("producerConnection -n {n} -g missing -t Orders"),
    Line("producer -n {n} -b {b}"),
    Line("brokerConsumeStats -n {n} -b {b}"),
    Line("brokerConsumeStats -n {n} -b {b} -o true"),
    Line("brokerConsumeStats -n {n} -b {b} -l 1 -t 5000"),
    Line("@wait 11000"),  # the real broker samples every 10 s
    Line("statsAll -n {n}", passed_over=rf"{_TRANSACTION_TOPICS}.*|[0-9][0-9.]*"),
    *_lines_with_figures("statsAll -n {n} -a", "statsAll -n {n} -t Orders"),
    # queries of messages
    Line("queryMsgById -n {n} -i {offsetId}"),
    Line("queryMsgById -n {n} -i {offsetId} -g billing -d {client}", passed_over=_SPENT),
    Line("queryMsgByKey -n {n} -t Orders -k key-1"),
    Line("queryMsgByKey -n {n} -t Orders -k missing"),
    Line("queryMsgByOffset -n {n} -t Orders -b tornlog -i 0 -o 0"),
    Line("queryMsgByOffset -n {n} -t Orders -b tornlog -i 0 -o 99"),
    Line("queryMsgByUniqueKey -n {n} -t Orders -i {uniqueId}"),
    Line("queryMsgByUniqueKey -n {n} -t Orders -i {uniqueId} -g billing -d {client}", passed_over=_SPENT),
    Line("queryMsgTraceById -n {n} -i {uniqueId}"),
    Line("printMsg -n {n} -t Orders -d true"),
    Line("printMsgByQueue -n {n} -t Orders -a tornlog -i 0 -p true -d true"),
    Line("consumeMessage -n {n} -t Orders -c 4"),
    Line("consumeMessage -n {n} -t Orders -b tornlog -i 0 -o 0 -c 1"),
    Line("queryCq -n {n} -t Orders -q 0 -i 0 -c 5 -b {b}"),
    Line("queryCq -n {n} -t Orders -q 0 -i 1 -c 1 -b {b}"),
    Line("queryCq -n {n} -t Orders -q 0 -i 0 -c 5 -b {b} -g billing"),
    Line("queryCq -n {n} -t Orders -q 0 -i 0 -c 5 -b {b} -g idle"),
    Line("queryCq -n {n} -t Orders -q 9 -i 0 -c 5 -b {b}"),
    Line("queryCq -n {n} -t Missing -q 0 -i 0 -c 5 -b {b}"),
    # changes of consumer progress
    Line("resetOffsetByTime -n {n} -g billing -t Orders -s now"),
    Line("resetOffsetByTime -n {n} -g billing -t Orders -s 2020-01-01#00:00:00:000"),
    _line_with_own_answer("resetOffsetByTime -n {n} -g idle -t Quiet -s now", "rollback consumer offset", _RESET),
    Line("resetOffsetByTime -n {n} -g billing -t Missing -s now"),
    Line("skipAccumulatedMessage -n {n} -g billing -t Orders -f true"),
    _line_with_own_answer("skipAccumulatedMessage -n {n} -g idle -t Quiet", "rollbackOffset", _RESET),
    Line("cloneGroupOffset -n {n} -s billing -d auditors -t Orders -o true"),
    # the broker
    *_lines_with_equal_names("brokerStatus -n {n} -b {b}", "brokerStatus -n {n} -c DefaultCluster"),
    *_lines_with_equal_names("getBrokerConfig -n {n} -b {b}", "getBrokerConfig -n {n} -c DefaultCluster"),
    Line("updateBrokerConfig -n {n} -b {b} -k transactionCheckMax -v 2"),
    Line("updateBrokerConfig -n {n} -c DefaultCluster -k fileReservedTime -v 48"),
    Line("updateTopic -n {n} -b {b} -t Late -r 1 -w 1"),
    Line("@resume {n} tornlog Late"),
    _line_with_own_answer(
        "updateBrokerConfig -n {n} -b {b} -k missing -v 7", "missing is not a broker setting", _REFUSED
    ),
    _line_with_own_answer(
        "updateBrokerConfig -n {n} -b {b} -k transactionCheckMax -v many", "expected an integer", _REFUSED
    ),
    Line("cleanExpiredCQ -n {n} -b {b}"),
    Line("cleanExpiredCQ -n {n} -c DefaultCluster"),
    Line("deleteExpiredCommitLog -n {n} -b {b}"),
    Line("cleanUnusedTopic -n {n} -b {b}"),
    Line("cleanUnusedTopic -n {n} -c DefaultCluster"),
    Line("topicList -n {n}", passed_over=_TRANSACTION_TOPICS),
    Line("exportMetadata -n {n} -c DefaultCluster -f {dir}"),
    Line("exportMetadata -n {n} -b {b} -f {dir} -t true"),
    Line("exportConfigs -n {n} -c DefaultCluster -f {dir}"),
    Line("exportMetrics -n {n} -c DefaultCluster -f {dir}"),
    _line_with_own_answer(
        "clusterAclConfigVersion -n {n} -b {b}",
        "no access control",
        "without an access list RocketMQ gives no answer at all, and the tool waits for its time-out",
    ),
    Line("deleteTopic -n {n} -c DefaultCluster -t Other"),
    Line("deleteTopic -n {n} -c DefaultCluster -t Missing"),
    Line("deleteSubGroup -n {n} -b {b} -g idle"),
    Line("deleteSubGroup -n {n} -c DefaultCluster -g auditors -r true"),
    _line_with_own_answer("updateBrokerConfig -n {n} -b {b} -k brokerName -v x", "brokerName cannot change", _REFUSED),
    _line_with_own_answer("updateBrokerConfig -n {n} -b {b} -k listenPort -v 1", "listenPort cannot change", _REFUSED),
    Line("updateTopic -n {n} -t Nowhere"),
    Line("unknownCommand -n {n}"),
    Line(""),
]

ENDLESS = {"clusterRT", "startMonitoring"}
"""Commands that run until they are stopped. They are left out."""

ACCESS_LINES = [
    Line("updateAclConfig -n {n} -b {b} -a account-1 -s secret-1 -w 10.0.0.* -t Orders=PUB -g billing=SUB -m false"),
    Line("updateAclConfig -n {n} -b {b} -a account-1 -s secret-2 -i DENY -u SUB"),
    Line("updateAclConfig -n {n} -c DefaultCluster -a account-2 -s secret-2 -m true"),
    Line("updateAclConfig -n {n} -b {b} -a short -s secret-2"),
    Line("deleteAclConfig -n {n} -b {b} -a account-2"),
    Line("deleteAclConfig -n {n} -b {b} -a missing-1"),
    Line("updateGlobalWhiteAddr -n {n} -b {b} -g 127.0.0.1,10.10.103.*"),
    Line("clusterAclConfigVersion -n {n} -b {b}", passed_over=r"\S+/plain_acl.yml"),
    Line("updateBrokerConfig -n {n} -b {b} -k transactionCheckMax -v 7"),
]
"""Lines that an administrator runs with an access list."""

_NOISE = [
    (re.compile(pattern), shown)
    for pattern, shown in (
        (r"(?m)^\s+(at .*|\.\.\. \d+ more)$", ""),
        (r"(?m)^(For more information|See http).*$", ""),
        (r"CODE: (\d+)\s+DESC:.*", r"CODE: \1"),
        (r"[^\s=]*Exception(?=:| CODE)", "Exception"),
        (r"\b(17|18)\d{11}\b", "MILLISECONDS "),
        (r"@[0-9a-f]{6,8}\b", ""),
        (r"127\.0\.0\.1-\d+(-\d+)*", "CLIENT"),
        (r"/?127\.0\.0\.1[:@]?[\d.:@#-]*", "ADDRESS"),
        (r"\b7F0000[0-9A-F]{10,}", "ID"),
        (r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([,:]\d+)?", "TIME"),
        (r"\bV4_9_\d\b", "VERSION"),
    )
]
_NAME = re.compile(r"(?m)^\s*(?:ADDRESS\s+)?([A-Za-z]\w*)[^:=\n]*[:=]")


def words_of(printed: str, passed_over: str = "") -> list[str]:
    """Return the compared part of an output: its words, sorted because the rows of tables have no order."""
    text = printed
    for pattern, shown in _NOISE:
        text = pattern.sub(shown, text)
    if passed_over:
        text = re.sub(passed_over, "", text)
    return sorted(text.split())


def names_of(printed: str) -> set[str]:
    """Return the names that have values in an output."""
    text = printed
    for pattern, shown in _NOISE:
        text = pattern.sub(shown, text)
    return set(_NAME.findall(text))
