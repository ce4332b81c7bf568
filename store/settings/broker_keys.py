"""Keys a broker.conf may have that the store has no use for: they are accepted, and handed on as they are.

Sources: RocketMQ 4.9 BrokerConfig, NettyServerConfig, NettyClientConfig, BrokerStartup, and of MessageStoreConfig what
belongs to DLedger.
"""

_BROKER = """
    rocketmqHome namesrvAddr brokerName brokerClusterName brokerId brokerIP1 brokerIP2 brokerPermission
    messageStorePlugIn regionId highSpeedMode filterServerNums
    autoCreateTopicEnable autoCreateSubscriptionGroup defaultTopicQueueNums clusterTopicEnable brokerTopicEnable
    validateSystemTopicWhenUpdateTopic
    sendMessageThreadPoolNums putMessageFutureThreadPoolNums pullMessageThreadPoolNums
    processReplyMessageThreadPoolNums queryMessageThreadPoolNums adminBrokerThreadPoolNums
    clientManageThreadPoolNums consumerManageThreadPoolNums heartbeatThreadPoolNums endTransactionThreadPoolNums
    sendThreadPoolQueueCapacity putThreadPoolQueueCapacity pullThreadPoolQueueCapacity
    replyThreadPoolQueueCapacity queryThreadPoolQueueCapacity clientManagerThreadPoolQueueCapacity
    consumerManagerThreadPoolQueueCapacity heartbeatThreadPoolQueueCapacity endTransactionPoolQueueCapacity
    flushConsumerOffsetInterval flushConsumerOffsetHistoryInterval
    shortPollingTimeMills notifyConsumerIdsChangedEnable maxDelayTime transferMsgByHeap slaveReadEnable
    rejectPullConsumerEnable disableConsumeIfConsumerReadSlowly consumerFallbehindThreshold
    brokerFastFailureEnable waitTimeMillsInSendQueue waitTimeMillsInPullQueue waitTimeMillsInHeartbeatQueue
    waitTimeMillsInTransactionQueue startAcceptSendRequestTimeStamp
    enableCalcFilterBitMap expectConsumerNumUseFilter maxErrorRateOfBloomFilter filterDataCleanTimeSpan
    filterSupportRetry enablePropertyFilter
    fetchNamesrvAddrByAddressServer registerBrokerTimeoutMills registerNameServerPeriod compressedRegister
    forceRegister
    rejectTransactionMessage transactionTimeOut transactionCheckMax transactionCheckInterval
    msgTraceTopicName traceTopicEnable traceOn aclEnable storeReplyMessageEnable
    commercialEnable commercialTimerCount commercialTransCount commercialBigCount commercialBaseCount
    enableDetailStat autoDeleteUnusedStats isolateLogEnable
"""
_STARTUP = "rmqAddressServerDomain rmqAddressServerSubGroup"
_SERVER = """
    listenPort serverWorkerThreads serverCallbackExecutorThreads serverSelectorThreads serverOnewaySemaphoreValue
    serverAsyncSemaphoreValue serverChannelMaxIdleTimeSeconds serverSocketSndBufSize serverSocketRcvBufSize
    serverSocketBacklog serverPooledByteBufAllocatorEnable useEpollNativeSelector
    writeBufferHighWaterMark writeBufferLowWaterMark
"""
_CLIENT = """
    clientWorkerThreads clientCallbackExecutorThreads clientOnewaySemaphoreValue clientAsyncSemaphoreValue
    clientChannelMaxIdleTimeSeconds clientSocketSndBufSize clientSocketRcvBufSize
    clientPooledByteBufAllocatorEnable clientCloseSocketIfTimeout connectTimeoutMillis channelNotActiveInterval
    useTLS disableCallbackExecutor disableNettyWorkerGroup
"""
_DLEDGER = "dLegerGroup dLegerPeers dLegerSelfId preferredLeaderId enableBatchPush"
_UNREAD = """
    storePathConsumeQueue storePathConsumerQueue storePathIndex storeCheckpoint abortFile
    checkTransactionMessageEnable
"""
"""No 4.9 broker reads these, but files made after common instructions have them."""

_OWN = """
    masterAddr haHost heldPullsMax heldPullsOfClientMax
    serverConnectionsMax serverConnectionsPerHostMax serverFrameTimeoutMillis serverOutputTimeoutMillis
    serverHeldBytesMax
"""
"""Of this broker alone; RocketMQ would pass over them."""

BROKER_KEYS = frozenset(" ".join((_BROKER, _STARTUP, _SERVER, _CLIENT, _DLEDGER, _UNREAD, _OWN)).split())
