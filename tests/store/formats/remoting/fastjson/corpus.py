"""Texts that `Fastjson.java` and this package's readers have to read alike, each with the kind of object it is."""

_FIELD_VALUES = [
    *(
        "1",
        "-1",
        "+1",
        "0",
        "123456789012345678901234567890",
        "1.0",
        "1.50",
        "1e3",
        "1E+2",
        "1e-7",
        "1e400",
        "5.",
        "1L",
    ),
    *("true", "false", "null", "NaN", "undefined", "{}", "[]", "''", "'single'", "'a\"b'", '"a\'b"', "'a\\'b'"),
    *('{"b":1,"c":null}', '[1, 2.0,"x", true,null]', "[1,,2,]", '{"a":{"b":[{}]}}', '"\\x41\\u0042\\t\\/\\v\\F\\0\\7"'),
    *('"\\ud83d\\ude00"', '"ü"', '"a\nb"', '"\u0001"', '""', "/*c*/7", "// c\n7", "7/**/", "/***/ 'x' //\n"),
    *("Infinity", "abc", "tru", "true1", '"a\\qb"', '"\\u12"', '"\\uZZZZ"', ".5", "0x10", "#", "1e", "{", "[", "'x"),
]
_INTEGERS = [
    *("1", "-1", "+7", "07", "1.0", "1.9", "-1.9", "1e1", "2147483647", "-2147483648", "true", "null", "NaN"),
    *('"1"', '"-1"', '"+1"', '"1,0"', '""', '"null"', '"NULL"', '"1.0"', '"x"', '" 1"', '"1e1"', '"0x1"', "[]", "{}"),
    *("2147483648", '"2147483648"', "[1]"),
]
_NO_VALUE = ("null", "NaN", '""', '"null"', '"NULL"')
_BOOLEANS = [
    *("true", "false", "1", "0", "2", "-1", "1.0", "0.5", "null", "NaN", '"1"', '"0"', '"true"', '"TRUE"', '"false"'),
    *('"Y"', '"N"', '"T"', '"F"', '""', '"null"', '"2"', '"yes"', "[]", "{}", "[true]"),
]
_LANGUAGES = ['"JAVA"', '"CPP"', '"cpp"', '"PHP"', '"RUST"', '"OMS"', "0", "1", "11", "{}", "[]", "1.5"]
_HEADERS = [
    "{code:10,opaque:2}",
    "{'code':10,'opaque':2}",
    '{"code":10,,"opaque":2,}',
    '{,"code":10,"opaque":2}',
    ' {"code" : 10 , "opaque"\t:\r\n2 }\n',
    '{"code":10,"opaque":2,"code":11}',
    '{"code":10,"opaque":2,"extFields":{"a":"1","a":"2"}}',
    '{"code":10,"opaque":2,"extFields":{"a":"1"},"extFields":{"b":"2"}}',
    '{"code":"10","opaque":"2","flag":"1","version":"3"}',
    '{"code":10,"opaque":2,"flag":null,"version":null,"remark":null,"extFields":null}',
    '{"code":10,"opaque":2,"remark":7}',
    '{"code":10,"opaque":2,"remark":true}',
    '{"code":10,"opaque":2,"remark":{"a":1}}',
    '{"code":10,"opaque":2,"extFields":"x"}',
    '{"code":10,"opaque":2,"extFields":[]}',
    '{"code":10,"opaque":2,"extFields":7}',
    '{"code":10,"opaque":2,"extFields":{a:"x",$b_1:2,true:3}}',
    '{"code":10,"opaque":2,"extFields":{a b:"x"}}',
    '{"code":10,"opaque":2,"extFields":{a-b:"x"}}',
    '{"code":10,"opaque":2,"extFields":{"a" "b":"x"}}',
    '{"code":10,"opaque":2,"extFields":{"a":"x" "b":"y"}}',
    '{"code":10,"opaque":2,"extFields":{"$ref":"x"}}',
    '{"code":10,"opaque":2,"other":{"x":[1,{}]}}',
    '{"code":10,"opaque":2,"other":NaN,"more":123456789012345678901234567890}',
    '{"code":10,"opaque":2,"other":abc}',
    '{"code":10,"opaque":2}x',
    '{"code":10,"opaque":2}{}',
    '{"code":10,"opaque":2};',
    '{"code":10,"opaque":2',
    '{"code":10,"opaque":2,',
    '{"code":10 "opaque":2}',
    '{"code" 10,"opaque":2}',
    '\ufeff{"code":10,"opaque":2}',
    '{"CODE":10,"Opaque":2,"ext_fields":{"a":"1"},"re-mark":"x"}',
    '{"code":10,"opaque":2,"serializeTypeCurrentRPC":0}',
    '{"code":10,"opaque":2}\f\b',
    "[10,2]",
    "",
    "null",
    "7",
    # As the C++ client 2.2 writes a send.
    '{"code":310,"extFields":{"a":"g","b":"T","c":"TBW102","d":4,"e":1,"f":0,"g":1795863667466,"h":0,'
    '"i":"TAGS\\u0001A\\u0002","j":0,"k":false,"l":0,"m":false},"flag":0,"language":"CPP","opaque":3,"remark":"",'
    '"version":253}\n',
    '{"code":10,"extFields":{"batch":false,"bornTimestamp":1795863667466,"defaultTopic":"TBW102",'
    '"defaultTopicQueueNums":4,"flag":0,"producerGroup":"g","properties":"","queueId":0,"reconsumeTimes":0,"sysFlag":0,'
    '"topic":"T","unitMode":false},"flag":0,"language":"CPP","opaque":3,"version":253}\n',
]
_HEARTBEATS = [
    '{"clientID":"c","producerDataSet":[{"groupName":"p"}],"consumerDataSet":[{"groupName":"g","consumeType":1,'
    '"messageModel":1,"consumeFromWhere":0,"unitMode":"false","subscriptionDataSet":[{"topic":7,"subString":true,'
    '"subVersion":"12","classFilterMode":0,"codeSet":["1",2],"tagsSet":["A",1],"expressionType":"TAG"}]}]}',
    *(
        f'{{"clientID":"c","consumerDataSet":[{{"groupName":"g","consumeType":{consume_type},"messageModel":{model},'
        f'"consumeFromWhere":{where}}}]}}'
        for consume_type, model, where in [
            ("0", "0", "0"),
            ('"consume_actively"', '"Broadcasting"', "5"),
            ("1", "1", '"CONSUME_FROM_FIRST_OFFSET"'),
            ("{}", "1", "1"),
            ("1", "[]", "1"),
        ]
    ),
    '{"clientID":7,"producerDataSet":{"groupName":true}}',
    '{"clientId":"c","producerDataSet":[{groupName:"x"},]}',
    '{"clientID":"c","producerDataSet":["x"]}',
    '{"clientID":"c","producerDataSet":[7]}',
    '{"clientID":"c","producerDataSet":"x"}',
]
_TOPICS = [
    '{"topicConfigTable":{"T":{"topicName":"T","perm":"6","readQueueNums":8,"writeQueueNums":8.0,"order":"true",'
    '"topicFilterType":"SINGLE_TAG","topicSysFlag":true}},"dataVersion":{"counter":"3","timestamp":7}}',
    '{"topicConfigTable":{T:{"topicName":"T",},},"dataVersion":{"counter":1,"timestamp":7}}',
    '{"topicConfigTable":[]}',
    '{"topicConfigTable":{"T":7}}',
]
_OFFSETS = [
    '{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7,{"topic":"T","queueId":"1","brokerName":"b"}:"8"}}',
    '{"messageQueueTable":{{topic:"T",brokerName:\'b\',queueId:3,} : 7.5,}}',
    '{"messageQueueTable":{"T":7}}',
    '{"messageQueueTable":{{"topic":"T","brokerName":"b","queueId":3}:[]}}',
]
_ANY = [
    *('{"a":{1:2,-3:4,1.5:6}}', '{"a":[1 2,"b""c"]}', "/*a*/{a:1}/*b*/", '{"a":1}//b', '{"a"/**/:/**/1/**/,/**/"b":2}'),
    *("{,,,}", "{a:[}", "{]", '{"a":}', '{"a":,"b":1}', '{"a"}', "{_a:1}", "{a:TRUE}", "{a:1.}", "{a:1.e3}", "{a:1-1}"),
    *('{"a":1 /*x', '{"a":1 // x', '\xa0{"a":1}', "{a.b:1}", "# {}", "\f\b{a:1}", '{"é":"ü\\u00e9"}', "{a:-NaN}"),
    '{"a":-0.10,"b":1e3,"c":9223372036854775807,"d":-9223372036854775808,"e":9223372036854775808}',
]
WRITTEN = ["header", "heartbeat", "lock", "group", "topics", "register", "offsets", "reset", "cluster"]
"""Objects that `Fastjson.java` writes."""

CASES: list[tuple[str, str]] = [
    *(("header", f'{{"code":10,"opaque":2,"extFields":{{"a":{value},"b":"x"}}}}') for value in _FIELD_VALUES),
    *(("header", f'{{"code":10,"opaque":2,"flag":{value}}}') for value in _INTEGERS),
    *(("header", f'{{"code":10,"opaque":2,"language":{value}}}') for value in _LANGUAGES),
    *(("header", text) for text in _HEADERS),
    *(("group", f'{{"groupName":"g","consumeEnable":{value}}}') for value in _BOOLEANS),
    *(("group", f'{{"groupName":"g","retryMaxTimes":{value}}}') for value in _INTEGERS),
    *(("group", f'{{"groupName":"g","brokerId":{value}}}') for value in _INTEGERS),
    *(("group", f'{{"groupName":{value}}}') for value in ("1", "true", "1.50", "[]", "{}", '""')),
    # Without a value it would be the clock's.
    *(("version", f'{{"counter":1,"timestamp":{value}}}') for value in _INTEGERS if value not in _NO_VALUE),
    *(("heartbeat", text) for text in _HEARTBEATS),
    ("lock", '{"clientId":1,"consumerGroup":"g","mqSet":[{"topic":"T","brokerName":"b","queueId":"3"},]}'),
    ("lock", '{clientId:"c",consumerGroup:"g",mqSet:[{topic:"T",brokerName:"b",queueId:1.0}]}'),
    *(("topics", text) for text in _TOPICS),
    *(("offsets", text) for text in _OFFSETS),
    *(("any", text) for text in _ANY),
    *(("written", name) for name in WRITTEN),
]

REFUSED = {
    ("version", '{"counter":1,"timestamp":99999999999999999999}'),
    ("any", "{a:1F}"),
    ("any", "{a:1D}"),
    ("any", "{a:new Date(1)}"),
    ("any", "{a:Set[1]}"),
    ("any", "{a:x'00FF'}"),
    ("any", '{"a":"\\ud800"}'),
    ("header", '{"opaque":2}'),
    ("header", '{"code":10}'),
}
"""Texts that fastjson reads and this package refuses. RocketMQ wraps the first number to another one."""

READ = {
    ("group", '{"groupName":"g","brokerId":true}'),
    ("group", '{"groupName":"g","brokerId":"1.0"}'),
    ("version", '{"counter":1,"timestamp":true}'),
    ("version", '{"counter":1,"timestamp":"1.0"}'),
    ("heartbeat", '{"clientID":7,"producerDataSet":{"groupName":true}}'),
}
"""Texts that this package reads and fastjson refuses. Fastjson converts some values to 32 bits only."""
