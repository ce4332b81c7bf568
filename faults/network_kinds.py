"""Every kind of fault of a network, as `kinds` has those of machines and disks. They are switched on by NetworkPlan."""

from .kind import FaultKind

_PARTITIONS = "Alquraan et al., An Analysis of Network-Partitioning Failures in Cloud Systems, OSDI 2018"
_RELIABLE = "Bailis and Kingsbury, The Network is Reliable, ACM Queue 2014"
_TCP = "RFC 9293"

NETWORK_KINDS: tuple[FaultKind, ...] = (
    FaultKind(
        "split delivery",
        "network",
        "bytes that were sent at once arrived in two pieces",
        "a stream has no messages: segments, buffers and readers cut it anywhere",
        "the bytes behind the first ones, drawn how many, arrive a delay of their own after them (split_chance)",
        f"{_TCP}, section 3.8",
    ),
    FaultKind(
        "late delivery",
        "network",
        "something took much longer than usual to arrive, and all behind it in its stream with it",
        "queues in switches fill, packets are lost and sent again",
        "its delay grows by a bounded Pareto draw, up to late_ms_max (late_chance)",
        f"RFC 6298; {_RELIABLE}",
    ),
    FaultKind(
        "partition",
        "network",
        "two hosts could not reach each other for a while",
        "switches fail, cables are pulled, rules of firewalls are wrong",
        "from a drawn transmission on and for a drawn time, what either sends arrives only afterwards, at its sender's "
        "next try; connections cannot be made (partition_chance)",
        _PARTITIONS,
    ),
    FaultKind(
        "one-way link",
        "network",
        "one host could not reach another for a while, but was reached by it",
        "a broken transceiver or a wrong route takes one direction only",
        "as partition, for one direction (one_way_chance)",
        f"{_PARTITIONS} (simplex partitions)",
    ),
    FaultKind(
        "slow link",
        "network",
        "a link carried few bytes a second for a while",
        "saturated uplinks, links that have fallen back to a lower rate, fail-slow hardware",
        "bytes stand behind those sent before, slow_link_bytes_per_s, for a drawn time (slow_link_chance)",
        "Gunawi et al., Fail-Slow at Scale, FAST 2018",
    ),
    FaultKind(
        "broken connection",
        "network",
        "a connection was reset while both of its ends lived",
        "load balancers, firewalls and address translators forget or cut connections",
        "both ends learn of a reset, each after a delay; what had not arrived by then is lost (broken_chance)",
        f"{_TCP}, section 3.5.2; {_RELIABLE}",
    ),
    FaultKind(
        "half-open connection",
        "network",
        "a connection lost its way, and neither end was told",
        "an address translator forgets an idle connection and drops what comes for it",
        "nothing sent from then on arrives; senders fill their buffers, and learn of it after 924 s (half_open_chance)",
        f"{_TCP}, section 3.5.1; RFC 5382",
    ),
    FaultKind(
        "refused connection",
        "network",
        "a connection that somebody waited for was refused",
        "a port that is just being opened again, a full queue, a firewall that rejects",
        "ConnectionRefusedError after a round trip (refused_chance)",
        f"{_TCP}, section 3.10.7.1",
    ),
    FaultKind(
        "silent death",
        "network",
        "a machine was off from one moment to the next, and its peers heard nothing",
        "the power goes, the system panics: nobody is left to end connections",
        "the last pieces under way may be lost; its ends say nothing, until another machine of its name answers with "
        "resets; at every power cut that the network is told of, otherwise by chance (silent_death_chance)",
        f"{_TCP}, section 3.5.1",
    ),
    FaultKind(
        "reset at death",
        "network",
        "a process died, and its connections were reset rather than ended",
        "the system resets a connection of a dead process in which something was left unread",
        "peers learn of a reset; what had not arrived by then is lost (reset_at_death_chance)",
        "RFC 2525, section 2.17; RFC 1122, section 4.2.2.13",
    ),
)
