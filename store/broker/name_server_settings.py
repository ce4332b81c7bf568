"""Settings of a name server, by RocketMQ's keys.

Only `orderMessageEnable` can change at run time. `listenPort` is the actual port. All other keys have RocketMQ's
defaults, because RocketMQ's tools expect these keys.
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
    """Settings of one name server. Thread-safe."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self.order_message_enable = False
        """Whether a route contains the topic's value in ORDER_TOPIC_CONFIG."""
        self._known = dict(known)

    def set_actual_values(self, **known: str) -> None:
        self._known |= known

    @property
    def table(self) -> dict[str, str]:
        own = {ORDER_MESSAGE_ENABLE: str(self.order_message_enable).lower()}
        return dict(sorted({**_DEFAULTS, **self._known, **own}.items()))

    def change(self, wanted: Mapping[str, str]) -> None:
        """Change all given settings or none. Raises SettingChangeError."""
        order_message_enable = self.order_message_enable
        for key, text in wanted.items():
            if key in self.table and text == self.table[key]:
                continue
            if key != ORDER_MESSAGE_ENABLE:
                if key in self.table:
                    raise SettingFixedError(f"{key} cannot change while the name server runs")
                raise SettingChangeError(f"{key} is not a name server setting")
            order_message_enable = boolean_of(key, text)
        self.order_message_enable = order_message_enable
