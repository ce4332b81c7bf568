"""Settings of a name server, by RocketMQ's keys.

Two mean something here: `orderMessageEnable`, which can change while it runs, and the port. The others are shown with
RocketMQ's defaults, as its tools expect them, and are refused by name when they are to change.
Source: RocketMQ NamesrvConfig, NettyServerConfig, DefaultRequestProcessor.updateConfig.
"""

from collections.abc import Mapping

from .setting_changes import SettingChangeError, SettingFixedError, boolean_of

ORDER_MESSAGE_ENABLE = "orderMessageEnable"
_DEFAULTS = {
    "listenPort": "9876",
    "clusterTest": "false",
    "configStorePath": "",
    "kvConfigPath": "",
    "productEnvName": "center",
    "rocketmqHome": "",
    "serverAsyncSemaphoreValue": "64",
    "serverCallbackExecutorThreads": "0",
    "serverChannelMaxIdleTimeSeconds": "120",
    "serverOnewaySemaphoreValue": "256",
    "serverPooledByteBufAllocatorEnable": "true",
    "serverSelectorThreads": "3",
    "serverSocketBacklog": "1024",
    "serverSocketRcvBufSize": "0",
    "serverSocketSndBufSize": "0",
    "serverWorkerThreads": "8",
    "useEpollNativeSelector": "false",
    "writeBufferHighWaterMark": "0",
    "writeBufferLowWaterMark": "0",
}


class NameServerSettings:
    """Settings of one name server. Any task may call it."""

    def __init__(self, known: Mapping[str, str]) -> None:
        """known: what this server has, by key."""
        self.order_message_enable = False
        """Whether a route says what its topic has in ORDER_TOPIC_CONFIG."""
        self._known = dict(known)

    def know(self, **known: str) -> None:
        """Show what this server has, by key."""
        self._known |= known

    @property
    def table(self) -> dict[str, str]:
        """Return every setting by its key."""
        own = {ORDER_MESSAGE_ENABLE: str(self.order_message_enable).lower()}
        return dict(sorted({**_DEFAULTS, **self._known, **own}.items()))

    def change(self, wanted: Mapping[str, str]) -> None:
        """Change settings, all of them or none. Raises SettingChangeError."""
        order_message_enable = self.order_message_enable
        for key, text in wanted.items():
            if key in self.table and text == self.table[key]:
                continue
            if key != ORDER_MESSAGE_ENABLE:
                if key in self.table:
                    raise SettingFixedError(f"{key} cannot change while the name server runs")
                raise SettingChangeError(f"{key} is no setting of a name server")
            order_message_enable = boolean_of(key, text)
        self.order_message_enable = order_message_enable
